"""How a run begins and ends: warm starts, paths, budgets, Ctrl-C, callbacks, progress, seeds, and what it leaves behind."""

import copy
import importlib.util
import io
import multiprocessing
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from functools import cache
from itertools import pairwise

import joblib
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin import callbacks
from maxmargin.utils.threads import thread_count


def few(kind):
    """A small problem: an estimator class, X and y."""
    rng = np.random.default_rng(0)
    y = np.arange(48) % 3
    X = rng.standard_normal((48, 4)) + 1.5 * np.eye(4)[y]
    if kind == "regression":
        return mm.SVMRegressor, X, X @ [1.0, 2.0, -1.0, 0.5] + 0.5 * rng.standard_normal(48)
    return mm.SVMClassifier, X, y if kind == "multiclass" else y % 2


KINDS = ["binary", "multiclass", "regression"]
kinds = pytest.mark.parametrize("kind", KINDS)


def unfinished(model, *args):
    """Fit a model that is expected to miss its target; returns the text of the warning."""
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(*args)
    assert len(caught) == 1 and not model.certificate_.converged
    return str(caught[0].message)


def objective(model, X, y) -> float:
    """P at the fitted weights, by the formulas."""
    scores = X @ np.atleast_2d(model.coef_).T + model.intercept_
    if isinstance(model, mm.SVMRegressor):
        losses = np.maximum(np.abs(scores[:, 0] - y) - model.epsilon, 0.0)
    elif len(model.classes_) == 2:
        losses = np.maximum(1.0 - np.where(y == model.classes_[1], 1.0, -1.0) * scores[:, 0], 0.0)
    else:
        truth = np.searchsorted(model.classes_, y)
        losses = (scores + 1.0 - np.eye(len(model.classes_))[truth]).max(axis=1) - scores[np.arange(len(y)), truth]
    return 0.5 * (np.sum(model.coef_**2) + np.sum(model.intercept_**2)) + model.C * np.sum(losses)


def assert_true(model, X, y, optimum):
    """The certificate states the objective of this very model, and a lower bound on the optimum."""
    certificate = model.certificate_
    assert certificate.primal == pytest.approx(objective(model, X, y), rel=1e-9)
    assert certificate.dual <= optimum * (1 + 1e-9) and optimum <= certificate.primal * (1 + 1e-9)
    assert certificate.gap == certificate.primal - certificate.dual and certificate.verified is True
    assert certificate.relative_gap == pytest.approx(certificate.gap / certificate.primal)


@cache
def optimum(kind) -> float:
    """The optimal value of `few(kind)` at C = 1, to nine digits."""
    cls, X, y = few(kind)
    return cls(tol=1e-9, random_state=0).fit(X, y).certificate_.primal


# ---- warm starts and paths -----------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize(("tol", "seed"), [(1e-3, 0), (1e-3, 3), (1e-3, 9), (1e-6, 0)])
def test_warm_start_on_the_same_data_has_nothing_to_do(kind, tol, seed):
    cls, X, y = few(kind)
    model = cls(warm_start=True, tol=tol, random_state=seed).fit(X, y)
    passes, first = model.n_iter_, model.certificate_
    assert passes > 2
    model.fit(X, y)
    assert model.n_iter_ <= 2 and model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(first.primal, rel=tol)


@kinds
def test_fit_is_a_cold_start_by_default(kind):
    cls, X, y = few(kind)
    model = cls(random_state=0).fit(X, y)
    passes, first = model.n_iter_, model.certificate_
    assert model.fit(X, y).n_iter_ == passes and model.certificate_ == first


@kinds
def test_warm_start_goes_on_where_it_was_stopped(kind):
    cls, X, y = few(kind)
    model = cls(warm_start=True, max_iter=4, tol=1e-6, random_state=0)
    duals = []
    for _ in range(3):
        unfinished(model, X, y)
        duals.append(model.certificate_.dual)
    assert duals[0] < duals[1] < duals[2] <= optimum(kind) * (1 + 1e-9)


@kinds
@pytest.mark.parametrize("C", [0.01, 3.0])
def test_warm_start_after_another_c(kind, C):
    cls, X, y = few(kind)
    warm = cls(warm_start=True, tol=1e-6, random_state=0).fit(X, y).set_params(C=C).fit(X, y)
    cold = cls(C=C, tol=1e-6, random_state=0).fit(X, y)
    assert warm.certificate_.converged and warm.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=3e-6)
    assert warm.certificate_.primal == pytest.approx(objective(warm, X, y), rel=1e-9)


@kinds
def test_warm_start_after_another_number_of_samples_is_a_cold_start(kind):
    cls, X, y = few(kind)
    warm = cls(warm_start=True, random_state=0).fit(X, y).fit(X[:40], y[:40])
    cold = cls(random_state=0).fit(X[:40], y[:40])
    assert warm.n_iter_ == cold.n_iter_ and warm.certificate_ == cold.certificate_
    np.testing.assert_array_equal(warm.coef_, cold.coef_)


@kinds
def test_warm_start_after_other_labels(kind):
    cls, X, y = few(kind)
    other = np.roll(y, 7)
    warm = cls(warm_start=True, tol=1e-6, random_state=0).fit(X, y).fit(X, other)
    cold = cls(tol=1e-6, random_state=0).fit(X, other)
    assert warm.certificate_.converged and warm.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=3e-6)
    assert warm.certificate_.primal == pytest.approx(objective(warm, X, other), rel=1e-9)


def test_warm_start_after_other_data_and_another_number_of_classes():
    cls, X, y = few("multiclass")
    model = cls(warm_start=True, tol=1e-6, random_state=0).fit(X, y)
    for data, labels in [(X, np.minimum(y, 1)), (X[::-1] * 2.0, y), (X[:, :2], y)]:
        data = np.ascontiguousarray(data)
        model.fit(data, labels)
        cold = cls(tol=1e-6, random_state=0).fit(data, labels)
        assert model.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=3e-6)
        assert model.coef_.shape == cold.coef_.shape


@pytest.mark.parametrize("loss", ["squared_hinge", "squared_epsilon_insensitive"])
def test_warm_start_with_squared_losses(loss):
    cls, X, y = few("binary" if loss == "squared_hinge" else "regression")
    model = cls(loss=loss, warm_start=True, tol=1e-6, random_state=0).fit(X, y)
    assert model.fit(X, y).n_iter_ <= 2
    weight = (np.arange(48) % 3).astype(float)  # duals of samples whose weight is zero now must go
    model.fit(X, y, sample_weight=weight)
    cold = cls(loss=loss, tol=1e-6, random_state=0).fit(X, y, sample_weight=weight)
    assert model.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=3e-6)


@kinds
@pytest.mark.parametrize("Cs", [[0.01, 0.1, 1.0], [1.0, 0.01]])
def test_path(kind, Cs):
    cls, X, y = few(kind)
    base = cls(tol=1e-6, random_state=0)
    path = base.regularization_path(X, y, Cs)
    assert [model.C for model in path] == Cs and base.C == 1.0 and not hasattr(base, "coef_")
    for model in path:
        cold = cls(C=model.C, tol=1e-6, random_state=0).fit(X, y)
        assert model.certificate_.converged and model.certificate_.relative_gap <= 1e-6
        assert model.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=3e-6)
        assert model.certificate_.primal == pytest.approx(objective(model, X, y), rel=1e-9)
        assert type(model) is cls and model.warm_start is False


def test_path_starts_from_the_model_before():
    cls, X, y = few("binary")
    path = cls(tol=1e-6, random_state=0).regularization_path(X, y, [1.0, 1.0])
    assert path[0].n_iter_ > 2 >= path[1].n_iter_


def test_path_passes_weights_and_keeps_callbacks():
    cls, X, y = few("binary")
    weight = np.arange(48) % 2 + 1.0
    watcher = Watcher()
    path = cls(tol=1e-6, random_state=0).set_callbacks(watcher).regularization_path(X, y, [0.1, 1.0], sample_weight=weight)
    assert watcher.names.count("setup") == watcher.names.count("teardown") == 2
    assert watcher.names.count("end pass") == sum(model.n_iter_ for model in path)
    cold = cls(tol=1e-6, random_state=0).fit(X, y, sample_weight=weight)
    assert path[1].certificate_.primal == pytest.approx(cold.certificate_.primal, rel=3e-6)
    assert path[1].certificate_.primal != pytest.approx(cls(random_state=0).fit(X, y).certificate_.primal, rel=1e-2)


def test_path_warns_for_each_model_that_missed_its_target():
    cls, X, y = few("binary")
    with pytest.warns(ConvergenceWarning) as caught:
        path = cls(max_iter=1, tol=1e-9, random_state=0).regularization_path(X, y, [0.1, 1.0])
    assert len(caught) == 2 and not any(model.certificate_.converged for model in path)


# ---- budgets -------------------------------------------------------------------------------------------------


@kinds
def test_hardly_any_time(kind):
    cls, X, y = few(kind)
    model = cls(max_time=1e-9, tol=1e-5, random_state=0)
    text = unfinished(model, X, y)
    assert "max_time=1e-09" in text and f"{100 * model.certificate_.relative_gap:.3g} %" in text and "tol=1e-05" in text
    assert "Raise max_time" in text  # what to do next
    assert_true(model, X, y, optimum(kind))
    assert model.predict(X).shape == y.shape and model.n_iter_ <= 1
    assert model.certificate_.message == "Stopped after max_time=1e-09 seconds."


def test_time_is_kept():
    cls, X, y = few("binary")
    model = cls(max_time=0.2, tol=1e-9, random_state=0).set_callbacks(Watcher(lambda estimator, number: time.sleep(0.05)))
    unfinished(model, X, y)
    assert 1 <= model.n_iter_ <= 4 and "max_time=0.2" in model.certificate_.message
    assert_true(model, X, y, optimum("binary"))


@kinds
@pytest.mark.parametrize("passes", [1, 3])
def test_few_passes(kind, passes):
    cls, X, y = few(kind)
    model = cls(max_iter=passes, tol=1e-8, random_state=0)
    text = unfinished(model, X, y)
    assert f"max_iter={passes}" in text and f"{100 * model.certificate_.relative_gap:.3g} %" in text and "tol=1e-08" in text
    assert model.n_iter_ == passes and model.history_[-1].iteration == passes
    assert_true(model, X, y, optimum(kind))


@kinds
def test_converged_run(kind):
    cls, X, y = few(kind)
    model = cls(tol=1e-4, random_state=0).fit(X, y)  # no warning, or the suite would stop here
    assert model.certificate_.converged is True and 0 <= model.certificate_.relative_gap <= 1e-4
    assert_true(model, X, y, optimum(kind))


def test_solve_keeps_its_budget_too():
    _, X, y = few("binary")
    problem = mm.ExplicitProblem(X * (2 * y - 1)[:, None], np.ones(48))
    best = mm.solve(problem, tol=1e-9).certificate.primal
    for budget, word in [({"max_iter": 2}, "max_iter=2"), ({"max_time": 1e-9}, "max_time=1e-09")]:
        result = mm.solve(problem, tol=1e-9, **budget)
        assert not result.certificate.converged and word in result.message == result.certificate.message
        assert result.certificate.dual <= best * (1 + 1e-9) and best <= result.certificate.primal * (1 + 1e-9)
    warm = mm.solve(problem, tol=1e-6, duals=mm.solve(problem, tol=1e-6).duals)
    assert warm.n_iter <= 2 and warm.certificate.converged


# ---- Ctrl-C and threads --------------------------------------------------------------------------------------


class Watcher:
    """A user's callback: keeps what it was told, and does `act(estimator, pass)` after each pass."""

    def __init__(self, act=lambda estimator, number: None):
        self.act, self.names, self.contexts, self.lengths = act, [], [], []

    def setup(self, estimator, context):
        self.names.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.names.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context):
        self.names.append(f"end {context.task_name}")
        if context.task_name == "pass":
            self.contexts.append(context)
            self.lengths.append(len(estimator.history_))
            return self.act(estimator, context.task_id + 1)

    def teardown(self, estimator, context):
        self.names.append("teardown")


def press_ctrl_c(estimator, number):
    if number == 3:
        signal.raise_signal(signal.SIGINT)


@kinds
def test_ctrl_c_ends_the_run_with_a_model(kind, default_handler):
    cls, X, y = few(kind)
    model = cls(tol=1e-12, random_state=0).set_callbacks(Watcher(press_ctrl_c))
    text = unfinished(model, X, y)
    assert "Ctrl-C" in text and model.certificate_.message == "Stopped by Ctrl-C." and model.n_iter_ == 3
    assert_true(model, X, y, optimum(kind))
    assert signal.getsignal(signal.SIGINT) is default_handler


def test_second_ctrl_c_is_an_interrupt(default_handler):
    def twice(estimator, number):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    cls, X, y = few("binary")
    watcher = Watcher(twice)
    with pytest.raises(KeyboardInterrupt):
        cls(tol=1e-12).set_callbacks(watcher).fit(X, y)
    assert watcher.names[-1] == "teardown" and signal.getsignal(signal.SIGINT) is default_handler


def test_a_handler_of_the_users_own_stays_in_charge(default_handler):
    pressed = []

    def own(number, frame):
        pressed.append(number)

    signal.signal(signal.SIGINT, own)
    cls, X, y = few("binary")
    model = cls(tol=1e-6, random_state=0).set_callbacks(Watcher(press_ctrl_c)).fit(X, y)
    assert pressed == [signal.SIGINT] and signal.getsignal(signal.SIGINT) is own and model.certificate_.converged


def test_handler_is_restored_after_an_error(default_handler):
    def fail(estimator, number):
        raise ZeroDivisionError

    cls, X, y = few("binary")
    with pytest.raises(ZeroDivisionError):
        cls().set_callbacks(Watcher(fail)).fit(X, y)
    assert signal.getsignal(signal.SIGINT) is default_handler


@pytest.mark.compiled
def test_ctrl_c_from_outside():
    program = """
        import sys, time, warnings
        import numpy as np
        import maxmargin as mm

        class Tell:
            def setup(self, estimator, context): pass
            def on_fit_task_begin(self, estimator, context): pass
            def on_fit_task_end(self, estimator, context):
                if context.task_id == 0 and context.parent is not None:
                    print("running", flush=True)
                time.sleep(0.1)  # a fit of 20 passes would be over before anyone presses a key
            def teardown(self, estimator, context): pass

        rng = np.random.default_rng(0)
        X = rng.standard_normal((20_000, 50))
        y = (X[:, 0] + rng.standard_normal(20_000) > 0).astype(int)
        warnings.simplefilter("ignore")
        model = mm.SVMClassifier(C=10.0, tol=1e-14, max_iter=10**9, random_state=0).set_callbacks(Tell()).fit(X, y)
        print(model.certificate_.message, flush=True)
        assert model.certificate_.dual <= model.certificate_.primal and np.isfinite(model.coef_).all()
        print(model.score(X, y) > 0.55, flush=True)  # after some five passes
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    # A shell in the background ignores Ctrl-C, and its children with it: the child here gets Python's own handler.
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)
    )
    try:
        assert child.stdout.readline() == "running\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        rest, _ = child.communicate(timeout=60)
    finally:
        child.kill()
    assert rest.splitlines() == ["Stopped by Ctrl-C.", "True"] and child.returncode == 0


def test_fit_in_a_thread(default_handler):
    cls, X, y = few("binary")
    models = [cls(tol=1e-5, random_state=0) for _ in range(3)]
    threads = [threading.Thread(target=model.fit, args=(X, y)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = cls(tol=1e-5, random_state=0).fit(X, y)
    for model in models:
        assert model.certificate_ == alone.certificate_
        np.testing.assert_array_equal(model.coef_, alone.coef_)
    assert signal.getsignal(signal.SIGINT) is default_handler


# ---- callbacks: scikit-learn's mechanism, and the shim for releases before 1.9 ---------------------------------


@pytest.fixture(scope="module")
def shim():
    """`callbacks.py` as it is on a scikit-learn without callbacks."""
    spec = importlib.util.spec_from_file_location("maxmargin.old_callbacks", callbacks.__file__)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "sklearn.callback", None)
        spec.loader.exec_module(module)
    assert module.CallbackSupportMixin.__module__ == "maxmargin.old_callbacks"
    return module


@pytest.fixture(params=["scikit-learn", "shim"])
def classifier(request, shim):
    """SVMClassifier on either mechanism."""
    if request.param == "scikit-learn":
        return mm.SVMClassifier

    class OldClassifier(shim.CallbackSupportMixin, mm.SVMClassifier):
        fit = shim.with_callbacks(mm.SVMClassifier.fit.__wrapped__)

    return OldClassifier


def test_callback_sees_the_passes(classifier):
    _, X, y = few("binary")
    watcher = Watcher()
    model = classifier(tol=1e-6, random_state=0).set_callbacks(watcher)
    assert model.fit(X, y) is model
    passes = ["begin pass", "end pass"] * model.n_iter_
    assert watcher.names == ["setup", "begin fit", *passes, "end fit", "teardown"]
    assert [context.task_id for context in watcher.contexts] == list(range(model.n_iter_))
    context = watcher.contexts[0]
    assert context.estimator_name == context.parent.estimator_name == classifier.__name__
    assert context.parent.task_name == "fit" and context.parent.parent is None and context.parent.max_subtasks == model.max_iter
    model.fit(X, y)  # once more: nothing is left over from the first time
    assert watcher.names.count("setup") == watcher.names.count("teardown") == 2
    assert not [name for name in vars(model) if name.startswith("_callback")]


def test_history_is_visible_during_fit(classifier):
    _, X, y = few("binary")
    seen = []

    def look(estimator, number):
        seen.append(estimator.history_)
        assert all(record.primal >= record.dual for record in estimator.history_)

    watcher = Watcher(look)
    model = classifier(tol=1e-8, solver="bundle").set_callbacks(watcher).fit(X, y)
    assert all(history is model.history_ for history in seen)
    assert watcher.lengths[0] == 0 and 0 < watcher.lengths[-1] < len(model.history_)
    assert watcher.lengths == sorted(watcher.lengths)


def test_callback_stops_the_run(classifier):
    _, X, y = few("binary")
    silent, stopper = Watcher(), Watcher(lambda estimator, number: number == 2)
    model = classifier(tol=1e-9, random_state=0).set_callbacks(stopper, silent)
    text = unfinished(model, X, y)
    assert "callback" in text and model.certificate_.message == "Stopped by a callback." and model.n_iter_ == 2
    assert silent.names == stopper.names and silent.names[-2:] == ["end fit", "teardown"]
    assert_true(model, X, y, optimum("binary"))


def test_callback_may_stop_on_the_gap(classifier):
    _, X, y = few("binary")

    def enough(estimator, number):
        return len(estimator.history_) > 0 and estimator.history_[-1].gap < 0.05 * estimator.history_[-1].primal

    # A solver whose gap is known after every iteration, and falls by little in one.
    model = classifier(C=100.0, tol=1e-9, solver="bundle").set_callbacks(Watcher(enough))
    unfinished(model, X, y)
    assert 1e-9 < model.certificate_.relative_gap < 0.05


def test_callback_that_stops_a_run_which_has_converged_does_no_harm(classifier):
    _, X, y = few("binary")
    model = classifier(tol=0.99, random_state=0).set_callbacks(Watcher(lambda estimator, number: True)).fit(X, y)
    assert model.certificate_.converged and "Reached" in model.certificate_.message


@pytest.mark.parametrize("where", ["data", "pass", "begin"])
def test_teardown_also_when_fit_fails(classifier, where):
    _, X, y = few("binary")

    def fail(estimator, number):
        raise ZeroDivisionError

    first, second = Watcher(fail if where == "pass" else lambda estimator, number: None), Watcher()
    if where == "begin":
        first.on_fit_task_begin = lambda estimator, context: fail(estimator, 0)
    if where == "data":
        X = X.copy()
        X[0, 0] = 1e200
    model = classifier().set_callbacks(first, second)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # uncompiled kernels: NumPy remarks on the overflow
        with pytest.raises(ValueError if where == "data" else ZeroDivisionError):
            model.fit(X, y)
    assert first.names.count("teardown") == second.names.count("teardown") == 1
    assert first.names[-1] == second.names[-1] == "teardown"
    assert not hasattr(model, "coef_") and not [name for name in vars(model) if name.startswith("_callback")]


def test_refused_input_reaches_no_callback(classifier):
    _, X, y = few("binary")
    watcher = Watcher()
    with pytest.raises(ValueError, match="'C'"):
        classifier(C=-1.0).set_callbacks(watcher).fit(X, y)
    assert watcher.names == []


def test_every_callback_is_torn_down_though_one_fails_at_it(classifier):
    _, X, y = few("binary")
    bad, good = Watcher(), Watcher()

    def fail(estimator, context):
        raise ZeroDivisionError

    bad.teardown = fail
    with pytest.raises(ZeroDivisionError):
        classifier().set_callbacks(bad, good).fit(X, y)
    assert good.names[-1] == "teardown"


def test_only_what_was_set_up_is_torn_down(classifier):
    _, X, y = few("binary")
    bad, good = Watcher(), Watcher()

    def fail(estimator, context):
        raise ZeroDivisionError

    bad.setup = fail
    with pytest.raises(ZeroDivisionError):
        classifier().set_callbacks(bad, good).fit(X, y)
    assert good.names == []


def test_set_callbacks_takes_callbacks_only(classifier):
    model = classifier()
    three = ("setup", "on_fit_task_begin", "on_fit_task_end")
    incomplete = type("Incomplete", (), {name: lambda *args: None for name in three})()
    for wrong in (Watcher, print, None, object(), "callback", incomplete):
        with pytest.raises(TypeError, match="callbacks must be instances"):
            model.set_callbacks(Watcher(), wrong)
    assert model.set_callbacks(Watcher()) is model
    _, X, y = few("binary")
    watcher = Watcher()
    model.set_callbacks(watcher).set_callbacks().fit(X, y)  # taken away again
    assert watcher.names == []


def test_several_callbacks_are_called_in_order(classifier):
    _, X, y = few("binary")
    order = []
    first, second = (Watcher(lambda estimator, number, k=k: order.append(k)) for k in (1, 2))
    model = classifier(random_state=0).set_callbacks(first, second).fit(X, y)
    assert order == [1, 2] * model.n_iter_


def test_callbacks_do_not_change_the_result(classifier):
    _, X, y = few("binary")
    watched = classifier(random_state=0).set_callbacks(Watcher()).fit(X, y)
    alone = mm.SVMClassifier(random_state=0).fit(X, y)
    assert watched.certificate_ == alone.certificate_
    np.testing.assert_array_equal(watched.coef_, alone.coef_)


# ---- progress ------------------------------------------------------------------------------------------------


@pytest.fixture(params=["scikit-learn", "shim"])
def progress(request, shim):
    return mm.Progress if request.param == "scikit-learn" else shim.Progress


def test_progress_writes_to_stderr_only(classifier, progress, capsys):
    _, X, y = few("binary")
    model = classifier(random_state=0).set_callbacks(progress(every=0.0)).fit(X, y)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.split("\r")[1:]
    assert len(lines) == model.n_iter_ + 1 and err.endswith("\n") and err.count("\n") == 1
    assert lines[0].startswith(f"{classifier.__name__}: pass 1, ") and "gap not computed yet" in lines[0]
    assert f"done after {model.n_iter_} passes" in lines[-1]
    assert f"relative gap {model.certificate_.relative_gap:.2e}" in lines[-1]


def test_progress_is_not_written_more_often_than_asked(progress, capsys):
    _, X, y = few("binary")
    mm.SVMClassifier(random_state=0).set_callbacks(progress(every=1000.0)).fit(X, y)
    assert capsys.readouterr().err.count("\r") == 1  # the last line only


def test_progress_to_a_stream(progress, capsys):
    _, X, y = few("binary")
    stream = io.StringIO()
    mm.SVMClassifier(random_state=0).set_callbacks(progress(stream=stream)).fit(X, y)
    assert "done after" in stream.getvalue() and capsys.readouterr() == ("", "")


@pytest.mark.parametrize("kind", KINDS)
def test_verbose_writes_to_stderr_only(kind, capsys):
    cls, X, y = few(kind)
    model = cls(verbose=1, random_state=0).fit(X, y)
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"\r{cls.__name__}: ") and f"done after {model.n_iter_} passes" in err
    cls(random_state=0).fit(X, y)
    assert capsys.readouterr() == ("", "")


def test_progress_does_not_say_done_when_fit_failed(progress):
    """Not even when an earlier fit left a certificate behind."""
    _, X, y = few("binary")
    stream = io.StringIO()
    model = mm.SVMClassifier(random_state=0).fit(X, y).set_callbacks(progress(stream=stream))
    broken = X.copy()
    broken[0, 0] = 1e200
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(ValueError, match="too large"):
            model.fit(broken, y)
    assert "done" not in stream.getvalue()


def test_model_with_callbacks_can_be_pickled_and_copied():
    _, X, y = few("binary")
    model = mm.SVMClassifier(random_state=0).set_callbacks(mm.Progress(stream=None, every=1000.0)).fit(X, y)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert twin.certificate_ == model.certificate_
        np.testing.assert_array_equal(twin.predict(X), model.predict(X))


# ---- seeds ---------------------------------------------------------------------------------------------------


@kinds
def test_an_integer_seed_makes_runs_repeatable(kind):
    cls, X, y = few(kind)
    first, again, other = (cls(random_state=seed).fit(X, y) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first.coef_, again.coef_)
    assert first.certificate_ == again.certificate_ and first.n_iter_ == again.n_iter_
    assert not np.array_equal(first.coef_, other.coef_)  # the seed does something


def test_other_seeds():
    cls, X, y = few("binary")
    assert cls(random_state=None).fit(X, y).certificate_.converged
    np.random.seed(0)  # noqa: NPY002 - None stands for NumPy's global generator, as in scikit-learn
    first = cls(random_state=None).fit(X, y)
    second = cls(random_state=None).fit(X, y)
    assert not np.array_equal(first.coef_, second.coef_)
    generator = np.random.RandomState(3)
    drawn = [cls(random_state=generator).fit(X, y).coef_ for _ in range(2)]
    assert not np.array_equal(*drawn)
    np.testing.assert_array_equal(drawn[0], cls(random_state=np.random.RandomState(3)).fit(X, y).coef_)


def test_seed_of_solve():
    _, X, y = few("binary")
    problem = mm.ExplicitProblem(X * (2 * y - 1)[:, None], np.ones(48))
    first, again, other = (mm.solve(problem, random_state=seed).w for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


# ---- what is left behind -------------------------------------------------------------------------------------


def test_certificate_in_words():
    cls, X, y = few("binary")
    done = cls(tol=1e-4, random_state=0).fit(X, y).certificate_
    assert str(done).startswith("converged: primal ") and str(done).endswith(done.message) and " % of the primal)" in str(done)
    assert f"primal {done.primal:.9g}, dual {done.dual:.9g}" in str(done)
    assert "relative gap" in done.message and "tol=0.0001" in done.message and "passes" in done.message
    assert repr(done).startswith("Certificate(primal=") and "converged=True, verified=True" in repr(done)
    model = cls(max_iter=1, tol=1e-9, random_state=0)
    unfinished(model, X, y)
    assert str(model.certificate_).startswith("not converged: primal ")
    with pytest.raises(AttributeError):
        done.primal = 0.0


def test_history_is_a_sequence_of_records():
    cls, X, y = few("binary")
    model = cls(tol=1e-8, solver="bundle").fit(X, y)
    history = model.history_
    assert len(history) > 1 and list(history) == history[:] and history[-1] in history
    assert history[-1]._fields == ("iteration", "seconds", "primal", "dual", "gap")
    assert [record.iteration for record in history] == sorted(record.iteration for record in history)
    assert all(a.seconds <= b.seconds for a, b in pairwise(history))
    bounds = np.array([(-record.dual, record.primal) for record in history])
    assert np.all(np.diff(bounds, axis=0) <= 1e-14 * history[-1].primal)  # neither is ever worse, but for rounding
    assert all(record.gap == record.primal - record.dual for record in history)
    last, certificate = history[-1], model.certificate_
    assert (last.primal, last.dual, last.gap) == (certificate.primal, certificate.dual, certificate.gap)
    assert last.iteration == model.n_iter_
    assert repr(history) == f"History({len(history)} records, last {history[-1]})" and repr(mm.History()) == "History(0 records)"


def test_a_second_fit_has_its_own_history():
    cls, X, y = few("binary")
    model = cls(tol=1e-5, random_state=0).fit(X, y)
    first, length = model.history_, len(model.history_)
    model.fit(X, y)
    assert model.history_ is not first and len(first) == length


@pytest.mark.parametrize(("kind", "shape"), [("binary", (48,)), ("multiclass", (48, 3)), ("regression", (48,))])
def test_kept_duals_rebuild_the_weights_and_the_bound(kind, shape):
    cls, X, y = few(kind)
    model = cls(C=0.5, keep_duals=True, intercept_scaling=2.0, tol=1e-5, random_state=0).fit(X, y)
    duals = model.dual_coef_
    assert duals.shape == shape and duals.dtype == np.float64
    np.testing.assert_allclose(np.atleast_2d(duals.T @ X), np.atleast_2d(model.coef_), atol=1e-12)
    np.testing.assert_allclose(4.0 * np.atleast_1d(duals.sum(axis=0)), model.intercept_, atol=1e-12)
    if kind == "multiclass":
        truth = duals[np.arange(48), y]
        np.testing.assert_allclose(duals.sum(axis=1), 0.0, atol=1e-15)
        assert truth.max() <= 0.5 + 1e-15 and np.delete(duals.ravel(), np.arange(48) * 3 + y).max() <= 0.0
        reward = truth.sum()
    elif kind == "binary":
        signed = duals * (2 * y - 1)
        assert signed.min() >= 0.0 and signed.max() <= 0.5
        reward = signed.sum()
    else:
        assert np.abs(duals).max() <= 0.5
        reward = y @ duals - model.epsilon * np.abs(duals).sum()
    quadratic = np.sum(model.coef_**2) + np.sum((model.intercept_ / 2.0) ** 2)
    assert model.certificate_.dual == pytest.approx(reward - 0.5 * quadratic, rel=1e-9)


@kinds
def test_duals_are_not_kept_without_being_asked_for(kind):
    cls, X, y = few(kind)
    model = cls(random_state=0).fit(X, y)
    assert not hasattr(model, "dual_coef_") and not hasattr(model, "_duals")
    model.set_params(keep_duals=True, warm_start=True).fit(X, y)
    assert hasattr(model, "dual_coef_")
    model.set_params(keep_duals=False, warm_start=False).fit(X, y)
    assert not hasattr(model, "dual_coef_") and not hasattr(model, "_duals")


def test_result_of_solve():
    _, X, y = few("binary")
    problem = mm.ExplicitProblem(X * (2 * y - 1)[:, None], np.ones(48), np.arange(48) // 2)
    result = mm.solve(problem, C=0.5, tol=1e-6)
    assert [type(part) for part in (result, result.certificate, result.history)] == [mm.Result, mm.Certificate, mm.History]
    assert result.w.shape == (4,) and result.duals.shape == (48,) and result.message == result.certificate.message
    np.testing.assert_allclose(result.duals @ (X * (2 * y - 1)[:, None]), result.w, atol=5e-2)
    assert np.bincount(np.arange(48) // 2, result.duals).max() <= 0.5 + 1e-15 and result.duals.min() >= 0.0


def test_nothing_is_written_where_the_user_works(tmp_path, monkeypatch):
    cls, X, y = few("binary")
    monkeypatch.chdir(tmp_path)
    cls(verbose=1, random_state=0).fit(X, y)
    assert list(tmp_path.iterdir()) == []


def test_jobs_are_threads_also_in_a_worker_of_a_pool():
    """joblib would warn and give one job, as no processes can be started there."""
    with multiprocessing.get_context("spawn").Pool(1, warnings.simplefilter, ("error",)) as pool:
        assert pool.apply(thread_count, (2,)) == 2
    assert thread_count(None) == 1 and thread_count(-1) == joblib.cpu_count()
