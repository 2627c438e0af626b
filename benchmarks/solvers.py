"""One adapter a solver. All of them minimise the objective of `objectives`, without an intercept, at the same C.

An adapter splits a fit in three, of which only `fit` is timed: `prepare` brings the data into the form a user would already
hold, `fit` is the library's own call, `read` takes the answer out. scikit-learn and maxmargin get NumPy arrays or CSR matrices
and convert within `fit`. LIBLINEAR's interface wants its own problem object; making it is left out of its time and memory, in
its favour.
"""

import ctypes
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .objectives import BINARY, EPSILON, LOSSES, REGRESSION

MANY = 1_000_000  # a limit on passes that never binds: the stopping parameter alone decides
TOLERANCES = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6)
CERTIFIED = 1e-3  # the relative gap of the multiclass target


class Answer(NamedTuple):
    """What came out of a fit. `finished` is False if the solver gave up before its stopping rule held: a finer one is useless."""

    coef: np.ndarray
    epochs: int
    finished: bool
    primal: float | None = None
    dual: float | None = None


@dataclass(frozen=True)
class Solver:
    """Name, what it can minimise, and the values of its stopping parameter to try, coarse first."""

    name: str
    module: str
    losses: tuple[str, ...]
    grid: tuple[float, ...] = TOLERANCES
    dtype: str = "float64"
    threads: int = 1  # -1: all cores
    compiled: bool = False  # compiles on first use, so that the first fit of a kind is not like later ones

    @property
    def installed(self) -> bool:
        return find_spec(self.module) is not None

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        return X.astype(self.dtype, copy=False), y

    def fit(self, data: Any, loss: str, C: float, setting: float, max_time: float | None = None) -> Any:
        """Only maxmargin heeds `max_time`; it is used for the reference fit."""
        raise NotImplementedError

    def read(self, model: Any) -> Answer:
        raise NotImplementedError


class MaxMargin(Solver):
    """maxmargin; the setting is the relative duality gap to certify."""

    def fit(self, data: Any, loss: str, C: float, setting: float, max_time: float | None = None) -> Any:
        import maxmargin as mm

        X, y = data
        n_jobs = None if self.threads == 1 else self.threads
        common = dict(C=C, tol=setting, fit_intercept=False, max_iter=MANY, max_time=max_time, random_state=0, n_jobs=n_jobs)
        if loss in REGRESSION:
            return mm.SVMRegressor(loss=loss, epsilon=EPSILON, **common).fit(X, y)
        return mm.SVMClassifier(loss="squared_hinge" if loss == "squared_hinge" else "hinge", **common).fit(X, y)

    def read(self, model: Any) -> Answer:
        found = model.certificate_
        coef = np.atleast_2d(model.coef_)
        return Answer(coef, int(model.n_iter_), bool(found.converged), float(found.primal), float(found.dual))


class ScikitLearn(Solver):
    """LinearSVC and LinearSVR, which wrap an older LIBLINEAR; the setting is `tol`."""

    def fit(self, data: Any, loss: str, C: float, setting: float, max_time: float | None = None) -> Any:
        from sklearn.svm import LinearSVC, LinearSVR

        X, y = data
        common = dict(C=C, tol=setting, fit_intercept=False, dual=True, max_iter=MANY, random_state=0)
        if loss in REGRESSION:
            return LinearSVR(loss=loss, epsilon=EPSILON, **common).fit(X, y)
        if loss in BINARY:
            return LinearSVC(loss=loss, **common).fit(X, y)
        return LinearSVC(multi_class=loss, **common).fit(X, y)

    def read(self, model: Any) -> Answer:
        epochs = int(model.n_iter_)
        return Answer(np.atleast_2d(model.coef_), epochs, epochs < MANY)


class Liblinear(Solver):
    """LIBLINEAR by its own Python interface; the setting is `-e`. Its limit on passes is fixed (300 for most problems).

    Epochs are read from its messages; the Newton method (-s 11) reports none. It shuffles by the C library's `rand`, which is
    seeded before each fit, so that a repetition repeats.
    """

    TYPES = {"hinge": 3, "squared_hinge": 1, "crammer_singer": 4, "epsilon_insensitive": 13, "squared_epsilon_insensitive": 11}

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        from liblinear.liblinearutil import problem

        return problem(y.astype(np.float64), sp.csr_matrix(X))

    def fit(self, data: Any, loss: str, C: float, setting: float, max_time: float | None = None) -> Any:
        from liblinear.liblinear import PRINT_STRING_FUN
        from liblinear.liblinearutil import parameter, train

        param = parameter(f"-s {self.TYPES[loss]} -c {C!r} -e {setting!r} -p {EPSILON!r} -B -1")
        messages: list[bytes] = []
        ctypes.CDLL(None).srand(1)
        param.print_func = PRINT_STRING_FUN(messages.append)
        return train(data, param), b"".join(messages).decode()

    def read(self, model: Any) -> Answer:
        fitted, messages = model
        classes, columns = fitted.get_nr_class(), fitted.get_nr_feature()
        one = classes <= 2
        flat = np.ctypeslib.as_array(fitted.w, (columns * (1 if one else classes),))
        coef = flat.reshape(columns, -1).T.copy()
        labels = fitted.get_labels()
        if one and labels and labels[0] < 0:  # LIBLINEAR calls the first label it meets positive
            coef = -coef
        elif not one:
            coef = coef[np.argsort(labels)]
        lines = messages.splitlines()
        epochs = sum(int(line.split("=")[1]) for line in lines if "#iter" in line)
        gave_up = any("reaching max" in line for line in lines) and "Switching" not in messages
        return Answer(coef, epochs, not gave_up)


class Rehline(Solver):
    """ReHLine; the setting is `tol`, its C is the C of the objective."""

    NAMES = {"hinge": "svm", "squared_hinge": "squared svm", "epsilon_insensitive": "SVR"}

    def fit(self, data: Any, loss: str, C: float, setting: float, max_time: float | None = None) -> Any:
        from rehline import plqERM_Ridge

        X, y = data
        description: dict[str, Any] = {"name": self.NAMES[loss]}
        if loss in REGRESSION:
            description["epsilon"] = EPSILON
        return plqERM_Ridge(loss=description, C=C, tol=setting, max_iter=MANY).fit(X, y)

    def read(self, model: Any) -> Answer:
        return Answer(np.atleast_2d(model.coef_), int(model.n_iter_), bool(model.converged_))


def maxmargin(dtype: str = "float64", threads: int = 1) -> MaxMargin:
    grid = tuple(tol for tol in TOLERANCES if tol <= 0.1)
    return MaxMargin("maxmargin", "maxmargin", LOSSES, grid, dtype, threads, compiled=True)


SCIKIT_LEARN = ScikitLearn("scikit-learn", "sklearn", LOSSES)
LIBLINEAR = Liblinear("liblinear", "liblinear", LOSSES)
REHLINE = Rehline("rehline", "rehline", tuple(Rehline.NAMES))
SOLVERS: tuple[Solver, ...] = (
    SCIKIT_LEARN,
    LIBLINEAR,
    REHLINE,
    maxmargin(),
    maxmargin("float32"),
    maxmargin(threads=-1),
    maxmargin("float32", threads=-1),
)


def peers(loss: str) -> tuple[Solver, ...]:
    """What a user would pick: LinearSVC for Crammer-Singer, LIBLINEAR for the others, then LinearSVC where that ends early."""
    return (SCIKIT_LEARN,) if loss == "crammer_singer" else (LIBLINEAR, SCIKIT_LEARN)
