"""Checkpoints: a fit that was killed and is called again ends with the same model, bit for bit."""

import os
import signal
import time
import tracemalloc
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.damage import mutated
from helpers.killed import FITS, begun, child, comparable, fit, nursery, without_room
from helpers.models import CASES, LABELS, TWO, X, identical
from hypothesis import given
from hypothesis import strategies as st

import maxmargin as mm
from maxmargin.persistence import checkpoint
from maxmargin.persistence.container import read_stored


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
    with pytest.raises(mm.ModelFileError, match="is the checkpoint of a SVMClassifier with other parameters, not of this fit"):
        other.fit(X, TWO)
    same = mm.SVMClassifier(solver="dual_coordinate", tol=1e-6, random_state=7).set_callbacks(mm.Checkpoint(path))
    with pytest.raises(mm.ModelFileError, match="is the checkpoint of other data, not of this fit"):
        same.fit(X, 1 - TWO)
    changed = X.copy()
    changed[3, 1] = np.nextafter(changed[3, 1], 1.0)
    with pytest.raises(mm.ModelFileError, match="other data"):
        same.fit(changed, TWO)
    with pytest.raises(mm.ModelFileError, match="is a checkpoint, not a model"):
        mm.load(path)
    assert same.fit(X, TWO).certificate_.converged and not path.exists()


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
    with pytest.raises(ValueError, match="every must be a number of seconds"):
        mm.Checkpoint("state", every=-1)
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
