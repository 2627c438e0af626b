"""Checkpoints: a fit that was killed and is called again ends with the same model, bit for bit."""

import errno
import os
import signal
import threading
import time
import tracemalloc
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.damage import mutated
from helpers.killed import FITS, begun, child, comparable, fit, nursery, without_room
from helpers.models import CASES, LABELS, REAL, TWO, X, identical
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

import maxmargin as mm
from maxmargin.persistence import checkpoint
from maxmargin.persistence.container import read_stored
from maxmargin.structures import Chain


class Killed(BaseException):
    """What nobody catches."""


class Killer:
    """Kills a fit after so many passes, and counts them."""

    def __init__(self, after=np.inf):
        self.after, self.passes = after, 0

    def setup(self, estimator, context):
        pass

    teardown = on_fit_task_begin = setup

    def on_fit_task_end(self, estimator, context):
        self.passes += context.parent is not None
        if self.passes >= self.after:
            raise Killed


@pytest.fixture
def always(monkeypatch):
    """A checkpoint after every pass."""
    monkeypatch.setattr(checkpoint, "SELDOM", 0.0)


@pytest.mark.parametrize("name", FITS)
def test_a_killed_fit_ends_with_the_same_model(name, tmp_path, always):
    count = Killer()
    whole = comparable(fit(name, count))
    path = tmp_path / "state"
    written = comparable(fit(name, mm.Checkpoint(path, every=0.0)))
    identical(written, whole)  # writing changes nothing
    assert not path.exists() or not whole["certificate_"].converged
    path.unlink(missing_ok=True)
    for after in sorted({2, count.passes // 3, count.passes - 1} - {0, 1}):
        with pytest.raises(Killed):
            fit(name, mm.Checkpoint(path, every=0.0), Killer(after))
        assert path.exists()
        later = Killer()
        identical(comparable(fit(name, mm.Checkpoint(path, every=0.0), later)), whole)
        assert later.passes < count.passes
        path.unlink(missing_ok=True)


def test_it_is_refused_for_other_data_or_parameters(tmp_path, always):
    path = tmp_path / "state"
    with pytest.raises(Killed):
        fit("dual coordinate", mm.Checkpoint(path, every=0.0), Killer(3))
    other = mm.SVMClassifier(C=2.0, solver="dual_coordinate", tol=1e-6, random_state=7).set_callbacks(mm.Checkpoint(path))
    with pytest.raises(mm.ModelFileError, match=r"checkpoint of a SVMClassifier with other parameters \(C\), not of this fit"):
        other.fit(X, TWO)
    same = mm.SVMClassifier(solver="dual_coordinate", tol=1e-6, random_state=7).set_callbacks(mm.Checkpoint(path))
    with pytest.raises(mm.ModelFileError, match="is the checkpoint of other data, not of this fit"):
        same.fit(X, 1 - TWO)
    changed = X.copy()
    changed[3, 1] = np.nextafter(changed[3, 1], 1.0)
    with pytest.raises(mm.ModelFileError, match="other data"):
        same.fit(changed, TWO)
    with pytest.raises(mm.ModelFileError, match=r"is a checkpoint, not a model; mm\.load reads what mm.save has written"):
        mm.load(path)
    regressor = mm.SVMRegressor(random_state=7).set_callbacks(mm.Checkpoint(path))
    with pytest.raises(mm.ModelFileError, match="is the checkpoint of a SVMClassifier, not of this fit"):
        regressor.fit(X, REAL)
    for name, value in (("tol", 1e-3), ("random_state", 8), ("solver", "newton"), ("loss", "squared_hinge")):
        another = clone(same).set_params(**{name: value}).set_callbacks(mm.Checkpoint(path))
        with pytest.raises(mm.ModelFileError, match=rf"a SVMClassifier with other parameters \(.*{name}.*\), not of this fit"):
            another.fit(X, TWO)
    same.set_params(max_time=600.0, verbose=0, max_iter=2000)  # these may be others
    assert same.fit(X, TWO).certificate_.converged and not path.exists()


def test_a_fit_that_stops_early_leaves_its_checkpoint(tmp_path, always):
    path, model = tmp_path / "state", mm.SVMClassifier(solver="dual_coordinate", tol=1e-6, random_state=7, max_iter=3)
    with pytest.warns(ConvergenceWarning):
        model.set_callbacks(mm.Checkpoint(path, every=0.0)).fit(X, TWO)
    assert path.exists()
    later, count = Killer(), Killer()
    whole = fit("dual coordinate", count)
    model.set_params(max_iter=40).set_callbacks(mm.Checkpoint(path), later).fit(X, TWO)
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    assert later.passes < count.passes and path.exists() is not whole.certificate_.converged


def test_what_is_different_is_said():
    told, now = {"numpy": "1.0", "machine": "x86_64"}, {"numpy": "2.0", "machine": "x86_64"}
    assert checkpoint.told_apart(told, told, 2, 2) == "" and checkpoint.told_apart(told, told, 1, 2) == "n_jobs=1 (here 2)"
    assert checkpoint.told_apart(told, now, 4, 2) == "numpy 1.0 (here 2.0), n_jobs=4 (here 2)"


def kernel_of(gamma):
    return lambda A, B: rbf_kernel(A, B, gamma=gamma)


def sequences(outputs):
    return mm.Samples([([row[None] for row in X], [[int(label)] for label in outputs])])


OTHERS = {
    "closures": (lambda gamma: mm.SVMClassifier(kernel=kernel_of(gamma)), (X, TWO), (X, TWO), r"other parameters \(kernel\)"),
    "partials, labels": (
        lambda gamma: mm.MultilabelSVMClassifier(loss="hinge", kernel=partial(rbf_kernel, gamma=gamma)),
        (X, LABELS),
        (X, LABELS),
        r"other parameters \(kernel\)",
    ),
    "iterables": (
        lambda gamma: mm.SVMClassifier(),
        (mm.open_source([(X, TWO)]),),
        (mm.open_source([(X, LABELS[:, 1])]),),
        "other data",
    ),
    "a source, mapped": (
        lambda gamma: mm.SVMClassifier(),
        (mm.open_source([(X, TWO)]).map(StandardScaler().fit(X)),),
        (mm.open_source([(X, TWO)]).map(StandardScaler().fit(3.0 * X)),),
        "other data",
    ),
    "samples": (
        lambda gamma: mm.StructuredSVM(Chain()),
        (sequences(TWO),),
        (sequences(LABELS[:, 1]),),
        "other data",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_problem_is_refused(name, tmp_path, always):
    """What a function, a source or an iterable holds is seen; the same ones, made anew, go on."""
    make, data, others, reason = OTHERS[name]

    def fit_of(gamma, samples, *callbacks):
        model = make(gamma).set_params(tol=1e-6, random_state=7)
        return model.set_callbacks(mm.Checkpoint(tmp_path / "state", every=0.0), *callbacks).fit(*samples)

    with pytest.raises(Killed):
        fit_of(0.5, data, Killer(2))
    with pytest.raises(mm.ModelFileError, match=f"is the checkpoint of .*{reason}.*, not of this fit"):
        fit_of(0.25, others)
    later = Killer()
    assert fit_of(0.5, data, later).certificate_.converged and later.passes > 0


def test_a_kernel_that_cannot_be_told_apart_is_refused_at_once(tmp_path):
    lock = threading.Lock()

    def kernel(A, B):
        with lock:
            return A @ B.T

    model = mm.SVMClassifier(kernel=kernel).set_callbacks(mm.Checkpoint(tmp_path / "state"))
    with pytest.raises(mm.ModelFileError, match="Checkpoint and the parameter kernel: A file cannot tell a lock from another"):
        model.fit(X, TWO)
    assert not hasattr(model, "history_") or not model.history_


def test_samples_that_cannot_be_told_apart_take_no_checkpoint(tmp_path, always):
    """The fit goes on, as where no file can be written."""

    class Sample:
        def __init__(self, row):
            self.row, self.lock = row, threading.Lock()

    class Signs(mm.structures.Structure):
        def size(self, X, y):
            return X[0].row.size

        def joint_feature(self, x, y):
            return y * x.row

        def loss(self, y_true, y):
            return float(y_true != y)

        def decode(self, w, x):
            return 1 if w @ x.row > 0 else -1

        def loss_augmented_decode(self, w, x, y_true):
            return max((1, -1), key=lambda y: y * (w @ x.row) + (y != y_true))

    model = mm.StructuredSVM(Signs(), random_state=7).set_callbacks(mm.Checkpoint(tmp_path / "state", every=0.0))
    with pytest.warns(UserWarning, match="No checkpoint was written: A file cannot tell a lock from another one"):
        model.fit([Sample(row) for row in X], (2 * TWO - 1).tolist())
    assert model.certificate_.converged and not (tmp_path / "state").exists()


def test_a_checkpoint_of_another_version_is_refused(tmp_path, always, monkeypatch):
    """Fingerprints of other versions cannot be compared."""
    monkeypatch.setattr(checkpoint, "SCHEME", 1)
    with pytest.raises(Killed):
        fit("dual coordinate", mm.Checkpoint(tmp_path / "state", every=0.0), Killer(3))
    monkeypatch.setattr(checkpoint, "SCHEME", 2)
    with pytest.raises(mm.ModelFileError, match="is the checkpoint of another version of maxmargin, not of this fit"):
        fit("dual coordinate", mm.Checkpoint(tmp_path / "state"))


def test_verbose_says_that_it_resumed(tmp_path, always, capsys):
    path = tmp_path / "state"
    with pytest.raises(Killed):
        fit("dual coordinate", mm.Checkpoint(path, every=0.0), Killer(3))
    assert capsys.readouterr().err == ""
    model, samples = FITS["dual coordinate"]()
    model.set_params(verbose=1).set_callbacks(mm.Checkpoint(path)).fit(*samples)
    assert capsys.readouterr().err.startswith(f"SVMClassifier: resumed from the checkpoint {path}.\n")
    model.set_callbacks(mm.Checkpoint(path)).fit(*samples)
    assert "resumed" not in capsys.readouterr().err


def test_a_checkpoint_that_cannot_be_removed(tmp_path, always, monkeypatch):
    """A warning, and the model."""
    path = tmp_path / "state"

    def read_only(self, missing_ok=False):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "unlink", read_only)
    with pytest.warns(UserWarning, match="its checkpoint .*state cannot be removed: Read-only file system"):
        model = fit("dual coordinate", mm.Checkpoint(path, every=0.0))
    assert model.certificate_.converged and model.coef_.shape == (1, 5) and path.exists()
    assert fit("dual coordinate", mm.Checkpoint(tmp_path / "none")).certificate_.converged  # no file, no warning


def test_a_path_below_a_file(tmp_path, always):
    """Nothing is there to be removed, and nothing can be written."""
    (tmp_path / "file").write_text("x")
    with pytest.warns(UserWarning, match="No checkpoint was written: .* cannot be written: Not a directory"):
        model = fit("dual coordinate", mm.Checkpoint(tmp_path / "file" / "state", every=0.0))
    assert model.certificate_.converged


def test_files_of_another_kind_are_no_checkpoints(tmp_path):
    path = tmp_path / "state"
    mm.save(fit("dual coordinate"), path)
    for change, reason in (
        (lambda: None, "is a model, not a checkpoint; give Checkpoint another path"),
        (lambda: path.write_bytes(b""), r"is not a maxmargin checkpoint file \(it is empty\); give Checkpoint another path"),
    ):
        change()
        with pytest.raises(mm.ModelFileError, match=reason):
            fit("dual coordinate", mm.Checkpoint(path))
    assert path.read_bytes() == b""


def test_other_threads_go_on_from_the_duals(tmp_path, always, monkeypatch):
    """And say so; the model has a certificate all the same."""
    for name in ("dual coordinate", "chains", "bundle", "newton"):
        path = tmp_path / name
        with pytest.raises(Killed):
            fit(name, mm.Checkpoint(path, every=0.0), Killer(4))
        monkeypatch.setattr(checkpoint, "origin", lambda: {"maxmargin": "another"})
        with pytest.warns(UserWarning, match="was left by a fit with maxmargin .*: this one goes on from its duals"):
            found = fit(name, mm.Checkpoint(path))
        monkeypatch.undo()
        monkeypatch.setattr(checkpoint, "SELDOM", 0.0)
        whole = fit(name)
        one, two = found.certificate_, whole.certificate_
        assert one.converged == two.converged
        assert max(one.dual, two.dual) <= min(one.primal, two.primal) * (1 + 1e-12)  # bounds on one optimum


def test_a_short_fit_costs_nothing(tmp_path, monkeypatch):
    """No file, no fingerprint of the data, no state taken."""
    asked = []
    monkeypatch.setattr(checkpoint.FitKeeper, "write", lambda self: asked.append("write"))
    monkeypatch.setattr(checkpoint.PartKeeper, "found", lambda self: None)
    model = mm.SVMClassifier(random_state=0).set_callbacks(mm.Checkpoint(tmp_path / "state"))
    model.fit(X, TWO)
    assert asked == [] and list(tmp_path.iterdir()) == []


def test_the_next_one_waits(tmp_path):
    """Not before a hundred times what the last one took."""
    model = mm.SVMClassifier(random_state=0)
    keeper = mm.Checkpoint(tmp_path / "state", every=0.0).keeper(model, mm.DualCoordinate(), None, 1, 1)
    keeper.offer(lambda: time.sleep(0.02) or {"a": 1})
    assert keeper.next - time.monotonic() > 1.5
    keeper.offer(lambda: pytest.fail("not yet"))


@given(
    st.floats(600.0, 5000.0),
    st.floats(0.0, 5.9),
    st.lists(st.floats(0.01, 300.0), min_size=1, max_size=5),
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5),
)
def test_checkpoints_are_a_hundredth_of_a_fit(tmp_path_factory, lasts, first, passes, shares):
    """Of one of ten minutes and more, at the default interval, whatever passes and files take; the first, which reads the data,
    takes longest. The clock is the test's."""
    clock = SimpleNamespace(now=0.0)
    clock.monotonic = lambda: clock.now
    spent, costs = [], [first, *(first * share for share in sorted(shares, reverse=True))]

    def write(keeper):
        spent.append(costs[min(len(spent), len(costs) - 1)])
        clock.now += spent[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "time", clock)
        patch.setattr(checkpoint.FitKeeper, "write", write)
        never = mm.Checkpoint(tmp_path_factory.getbasetemp() / "never")
        keeper = never.keeper(mm.SVMClassifier(), mm.DualCoordinate(), None, 1, 1)
        k, begins = 0, []
        while clock.now < lasts:
            clock.now += passes[k % len(passes)]
            k, before = k + 1, len(spent)
            begin = clock.now
            keeper.offer(dict)
            if len(spent) > before:
                begins.append(begin)
    assert begins == [] or begins[0] >= 60.0
    for one, two, took in zip(begins, begins[1:], spent, strict=False):
        assert two - one - took >= max(60.0, 100.0 * took) * (1 - 1e-12)
    assert sum(spent) <= 0.01 * clock.now * (1 + 1e-12)


def test_a_folder_that_is_missing_does_not_end_the_fit(tmp_path, always):
    with pytest.warns(UserWarning, match="No checkpoint was written: .* cannot be written"):
        model = fit("dual coordinate", mm.Checkpoint(tmp_path / "nowhere" / "state", every=0.0))
    assert model.certificate_.converged


def test_a_full_disk_and_then_a_kill(tmp_path, always):
    """Files that find no room: a warning each, the one before them stays whole, and a later process goes on from it."""
    name = "dual coordinate"
    process = begun(without_room, name, str(tmp_path))
    told = process.communicate(timeout=300)[0].splitlines()
    assert process.returncode == -signal.SIGKILL and len(told) == 5
    assert all("No checkpoint was written" in line and "cannot be written: File too large" in line for line in told)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    later, count = Killer(), Killer()
    whole = comparable(fit(name, count))
    identical(comparable(fit(name, mm.Checkpoint(tmp_path / "state"), later)), whole)
    assert later.passes == count.passes - 3


def test_the_seed_is_that_of_the_checkpoint(tmp_path, always):
    path = tmp_path / "state"
    whole = mm.SVMClassifier(tol=1e-6, solver="dual_coordinate", random_state=None)
    with pytest.raises(Killed):
        whole.set_callbacks(mm.Checkpoint(path, every=0.0), Killer(3)).fit(X, TWO)
    kept = path.read_bytes()
    models = []
    for _ in range(2):
        path.write_bytes(kept)
        model = mm.SVMClassifier(tol=1e-6, solver="dual_coordinate", random_state=None)
        models.append(model.set_callbacks(mm.Checkpoint(path)).fit(X, TWO))
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_paths_and_wrong_parameters(tmp_path):
    with pytest.raises(ValueError, match="A Checkpoint keeps one fit; a path or search has many"):
        mm.SVMClassifier().set_callbacks(mm.Checkpoint(tmp_path / "state")).regularization_path(X, TWO, [0.1, 1.0])
    for bad in (-1, float("nan"), True, "60"):
        with pytest.raises(ValueError, match=f"every must be a number of seconds >= 0; got {bad!r}"):
            mm.Checkpoint("state", every=bad)
    assert repr(mm.Checkpoint(Path("state"))) == "Checkpoint('state', every=60.0)"
    with pytest.raises(TypeError, match="path must be a text or a path"):
        mm.Checkpoint(3)


def test_threads_keep_the_groups_of_labels(tmp_path, always):
    """Groups side by side, each with a part of its own."""
    parameters = {"tol": 1e-7, "random_state": 7, "n_jobs": 2}
    whole = mm.MultilabelSVMClassifier(**parameters).fit(X, LABELS)
    with pytest.raises(Killed):
        mm.MultilabelSVMClassifier(**parameters).set_callbacks(mm.Checkpoint(tmp_path / "state", every=0.0), Killer(6)).fit(
            X, LABELS
        )
    again = mm.MultilabelSVMClassifier(**parameters).set_callbacks(mm.Checkpoint(tmp_path / "state")).fit(X, LABELS)
    np.testing.assert_array_equal(again.coef_, whole.coef_)


def check_damage(names, count, tmp_path, seed):
    """Each ends with the model of the whole fit, or raises a ModelFileError before anything began."""
    rng, refused = np.random.default_rng(seed), 0
    tracemalloc.start()
    for k, name in enumerate(names):
        path, whole = tmp_path / str(k), comparable(fit(name))
        with pytest.raises(Killed):
            fit(name, mm.Checkpoint(path, every=0.0), Killer(3))
        raw = path.read_bytes()
        for _ in range(count // len(names)):
            path.write_bytes(mutated(raw, rng))
            passes = Killer()
            held = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            try:
                identical(comparable(fit(name, mm.Checkpoint(path), passes)), whole)
            except mm.ModelFileError as error:
                refused += 1
                assert "\n" not in str(error) and passes.passes == 0
                assert tracemalloc.get_traced_memory()[1] - held < 200 * len(raw) + 2**20
    tracemalloc.stop()
    assert 0.9 * count < refused <= count


def test_damaged_checkpoints(tmp_path, always):
    check_damage(["dual coordinate"], 60, tmp_path, 3)


@pytest.mark.exhaustive
def test_many_damaged_checkpoints(tmp_path, always):
    """With those of models 10,000."""
    check_damage(["dual coordinate", "bundle", "labels", "chains", "newton"], 2000, tmp_path, 4)


@pytest.fixture(scope="module")
def nurse():
    """The nursery of processes to be killed."""
    with begun(nursery) as process:
        yield process
        process.stdin.close()


def ended(nurse, name, folder, after=None):
    """How a process ends that does the fit; killed when so much of the time has gone by that a whole fit takes."""
    nurse.stdin.write(f"{name}\t{folder}\n")
    seconds, number = nurse.stdout.readline().split()
    if after is not None:
        time.sleep(after * float(seconds))
        with suppress(ProcessLookupError):  # it has ended
            os.kill(int(number), signal.SIGKILL)
    return int(nurse.stdout.readline())


def kill(nurse, name, folder, rng, most):
    """Kill the fit `most` times at random moments, each time in another process, and let it end; its model is that of a fit never
    killed, and what a killed one leaves is whole. How many of the kills found a file there."""
    kills = kept = tries = 0
    while kills < most:
        code = ended(nurse, name, folder, rng.random() * 0.5**tries)
        assert code in (0, -signal.SIGKILL) and tries < 10
        tries += code == 0  # it was faster than that
        kills += code != 0
        if (folder / "state").exists():
            read_stored(folder / "state", checkpoint.CHECKPOINT)
            kept += code != 0
        (folder / "model").unlink(missing_ok=True)
    assert ended(nurse, name, folder) == 0
    found = mm.load(folder / "model", **CASES[name].given if name in CASES else {})
    identical(comparable(found), comparable(fit(name)))
    return kept


def test_sigkill(tmp_path, nurse):
    kill(nurse, "three classes", tmp_path, np.random.default_rng(0), 2)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FITS)
def test_two_kills_of_every_family(name, tmp_path, nurse):
    """52 in all; `-rP` shows how many of them found a file."""
    rng = np.random.default_rng(sum(map(ord, name)))
    print(f"{kill(nurse, name, tmp_path, rng, 2)} of 2 kills found a checkpoint")


def test_another_process_goes_on(tmp_path, always):
    """One that has done nothing before."""
    with pytest.raises(Killed):
        fit("three classes", mm.Checkpoint(tmp_path / "state", every=0.0), Killer(3))
    with begun(child, "three classes", str(tmp_path)) as process:
        assert process.wait(300) == 0
    identical(comparable(mm.load(tmp_path / "model")), comparable(fit("three classes")))
