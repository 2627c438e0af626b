"""Checkpoints: a fit that was killed and is called again ends with the same model, bit for bit."""

import warnings

import numpy as np
import pytest
from helpers.killed import FITS
from helpers.models import TWO, X, identical

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


def fit(name, *callbacks):
    model, samples = FITS[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.estimators.base.ConvergenceWarning)
        return model.set_callbacks(*callbacks).fit(*samples)


def comparable(model):
    """Without seconds and callbacks."""
    found = {name: value for name, value in vars(model).items() if name not in ("_skl_callbacks", "history_")}
    return found | {"records": [record._replace(seconds=0.0) for record in model.history_], "methods": model.history_.methods}


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
        if "labels" not in name and name != "probabilities":
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
