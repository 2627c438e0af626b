"""Checkpoints: a fit that was killed and is called again ends with the same model, bit for bit."""

import time

import numpy as np
import pytest
from helpers.killed import FITS, begun, comparable, fit
from helpers.models import CASES, LABELS, TWO, X, identical

import maxmargin as mm
from maxmargin.persistence import checkpoint


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


def test_a_disk_that_is_full_does_not_end_the_fit(tmp_path, always):
    with pytest.warns(UserWarning, match="No checkpoint was written: .* cannot be written"):
        model = fit("dual coordinate", mm.Checkpoint(tmp_path / "nowhere" / "state", every=0.0))
    assert model.certificate_.converged


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


def test_damaged_checkpoints(tmp_path, always):
    """Whatever is changed, one sentence; and a fit that does not begin."""
    path, rng = tmp_path / "state", np.random.default_rng(3)
    with pytest.raises(Killed):
        fit("dual coordinate", mm.Checkpoint(path, every=0.0), Killer(3))
    raw = path.read_bytes()
    for _ in range(60):
        found = bytearray(raw)
        at = int(rng.integers(len(raw)))
        if rng.random() < 0.7:
            found[at] ^= 1 << int(rng.integers(8))
        else:
            del found[at:]
        path.write_bytes(found)
        try:
            fit("dual coordinate", mm.Checkpoint(path))
        except mm.ModelFileError as error:
            assert "\n" not in str(error)


def kill(name, folder, rng, most):
    """Kill the fit up to `most` times at random moments, and let it end; its model is that of a fit never killed."""
    kills = 0
    while True:
        with begun(name, folder) as process:
            if kills < most:
                time.sleep(float(rng.random()) * 0.3)
                process.kill()
            status = process.wait()
        assert status == 0 or kills < most
        kills += status < 0
        if status == 0 or (folder / "model").exists():
            break
    found = mm.load(folder / "model", **CASES[name].given if name in CASES else {})
    identical(comparable(found), comparable(fit(name)))
    return kills


def test_sigkill(tmp_path):
    assert kill("three classes", tmp_path, np.random.default_rng(0), 2) > 0


@pytest.mark.long
@pytest.mark.parametrize("name", FITS)
def test_two_kills_of_every_family(name, tmp_path):
    """50 in all."""
    rng = np.random.default_rng(sum(map(ord, name)))
    for k in range(2):
        (tmp_path / str(k)).mkdir()
        kill(name, tmp_path / str(k), rng, 1)
