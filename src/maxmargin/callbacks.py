"""Callbacks: scikit-learn's own mechanism where it exists (1.9 and later), a shim of the same shape below it.

A callback has `setup`, `on_fit_task_begin`, `on_fit_task_end` and `teardown`; it is attached with
`estimator.set_callbacks(...)`. `fit` is a task, each pass of the solver a subtask of it; returning True from
`on_fit_task_end` of a pass stops the run, and the model is certified as it stands. While `fit` runs,
`estimator.history_` holds the exact evaluations so far.
"""

import functools
import sys
import time
from abc import ABC, abstractmethod
from typing import Any

from .result import relative

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class Context:  # pragma: no cover - exercised only with older scikit-learn, and by name in the tests
        """A task in progress: its name, number and parent."""

        def __init__(self, callbacks, estimator, task_name="fit", task_id=0, max_subtasks=0, parent=None):
            self._callbacks, self.estimator_name, self.parent = callbacks, type(estimator).__name__, parent
            self.task_name, self.task_id, self.max_subtasks, self._count = task_name, task_id, max_subtasks, 0

        def subcontext(self, task_name="", max_subtasks=0):
            self._count += 1
            return Context(self._callbacks, _Named(self.estimator_name), task_name, self._count - 1, max_subtasks, self)

        def call_on_fit_task_begin(self, *, estimator, **ignored):
            for callback in self._callbacks:
                callback.on_fit_task_begin(estimator, self)
            return self

        def call_on_fit_task_end(self, *, estimator, **ignored):
            return any([bool(callback.on_fit_task_end(estimator, self)) for callback in self._callbacks])

    def _Named(name):  # noqa: N802 - an object whose type has this name
        return type(name, (), {})()

    class CallbackSupportMixin:  # type: ignore[no-redef]  # the import above has failed
        """`set_callbacks` as scikit-learn 1.9 has it."""

        def set_callbacks(self, *callbacks):
            needed = ("setup", "on_fit_task_begin", "on_fit_task_end", "teardown")
            if not all(hasattr(callback, name) for callback in callbacks for name in needed) or any(
                isinstance(callback, type) for callback in callbacks
            ):
                raise TypeError(f"callbacks must be instances with the methods {', '.join(needed)}.")
            self._skl_callbacks = list(callbacks)
            return self

        def _init_callback_context(self, task_name="fit", max_subtasks=0):
            callbacks = getattr(self, "_skl_callbacks", [])
            self._callback_fit_ctx = Context(callbacks, self, task_name, 0, max_subtasks)
            self._skl_callbacks_to_teardown = []
            for callback in callbacks:
                self._skl_callbacks_to_teardown.append(callback)
                callback.setup(self, self._callback_fit_ctx)
            return self._callback_fit_ctx

    def with_callbacks(method):
        """Tear the callbacks down however `method` ends."""

        @functools.wraps(method)
        def managed(estimator, *args, **kwargs):
            try:
                return method(estimator, *args, **kwargs)
            finally:
                context = estimator.__dict__.pop("_callback_fit_ctx", None)
                errors = []
                for callback in estimator.__dict__.pop("_skl_callbacks_to_teardown", []):
                    try:
                        callback.teardown(estimator, context)
                    except Exception as error:  # the others are torn down all the same
                        errors.append(error)
                if errors:
                    raise errors[0]

        return managed


__all__ = ["CallbackSupportMixin", "Keeping", "Progress", "with_callbacks"]


class Unheard:
    """The context of a fit that nobody listens to: to make one takes as long as to check the samples of a small fit."""

    def call_on_fit_task_begin(self, *, estimator) -> None:
        """Nobody is told."""

    def call_on_fit_task_end(self, *, estimator) -> None:
        """Nobody is told."""


UNHEARD = Unheard()


def is_heard(estimator: CallbackSupportMixin) -> bool:
    """Whether somebody listens to its fits: callbacks of its own, or of who has it fitted."""
    return "_skl_callbacks" in vars(estimator) or hasattr(estimator, "_parent_callback_ctx")


class Keeping(ABC):
    """A callback that keeps the state of one fit, for another process to go on from. It has nothing to do after a pass."""

    @abstractmethod
    def keeper(self, estimator: Any, solver: Any, problem: Any, seed: int, n_jobs: int) -> Any:
        """The `FitKeeper` of a fit that begins: what an earlier process left, if it fits."""

    def setup(self, estimator, context) -> None:  # noqa: B027 - nothing to do, here and in the following
        """The solver is asked for its state, not the estimator."""

    def on_fit_task_begin(self, estimator, context) -> None:  # noqa: B027
        """Nothing to do."""

    def on_fit_task_end(self, estimator, context) -> bool:
        return False

    def teardown(self, estimator, context) -> None:  # noqa: B027
        """What a fit that failed has kept stays."""


class Progress:
    """One line on stderr that follows the run: passes, seconds, and the last exact gap.

    Parameters
    ----------
    every : float, default=0.5
        Seconds between two updates of the line.
    stream : file, optional
        Where to write; None is stderr.
    """

    def __init__(self, every: float = 0.5, stream: Any = None):
        self.every = every
        self.stream = stream

    def setup(self, estimator, context) -> None:
        self._start = self._last = time.monotonic()
        self._before = getattr(estimator, "certificate_", None)

    def on_fit_task_begin(self, estimator, context) -> None:
        """Nothing to say yet."""

    def on_fit_task_end(self, estimator, context) -> bool:
        now = time.monotonic()
        if context.parent is not None and now - self._last >= self.every:
            self._last = now
            self._write(estimator, f"pass {context.task_id + 1}", end="")
        return False

    def teardown(self, estimator, context) -> None:
        certificate = getattr(estimator, "certificate_", None)
        if certificate is not self._before:  # otherwise fit has failed
            self._write(estimator, f"done after {estimator.n_iter_} passes", end="\n")

    def _write(self, estimator, what: str, end: str) -> None:
        history = getattr(estimator, "history_", None)
        gap = f"relative gap {relative(history[-1].primal, history[-1].dual):.2e}" if history else "gap not computed yet"
        line = f"{type(estimator).__name__}: {what}, {time.monotonic() - self._start:.1f} s, {gap}"
        stream = self.stream or sys.stderr
        stream.write(f"\r{line:<90}{end}")
        stream.flush()
