"""`OneClassSVM`: samples of one kind, told from the origin by a half-space; what lies outside is an outlier."""

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils._param_validation import Interval

from ..data.rows import SPARSE_BELOW
from ..data.sources.memory import is_source
from ..data.table import of_own_kind, table_of
from ..losses.hinge import HingeLoss
from ..problems.linear import ScalarProblem
from ..solvers import resolve
from .base import checked_Cs
from .linear import LinearModel, Posed, Prepared


class OneClassSVM(OutlierMixin, LinearModel):
    """A linear one-class support vector machine with a certificate, after Schölkopf et al. (2001).

    Minimises 1/2 ||w||^2 - rho + rho^2 / (2 a^2) + 1 / (nu S) sum_i s_i max(0, rho - <w, x_i>), S = sum_i s_i. A sample with
    <w, x> < rho is an outlier. Without the third term this is the problem of scikit-learn's `SGDOneClassSVM` and of
    `OneClassSVM(kernel="linear")`, which leave the offset rho free. Here it has a prior as every intercept has, a weak one: a is
    `intercept_scaling` times the root of the mean squared norm of the samples. It does not change the kind of model: w and rho
    are those of the free offset at another nu, `nu_` = nu (1 - rho / a^2), times a factor. For kernels put
    `sklearn.kernel_approximation.Nystroem` before it, in a pipeline.

    Parameters
    ----------
    nu : float, default=0.5
        In (0, 1]. At the optimum at most the part `nu_` of the samples, by weight, are outliers among those learned from, and at
        least that part lies on the boundary or beyond it.
    intercept_scaling : float, default=3.0
        The larger, the freer the offset, and the larger a^2 that `tol` is relative to. nu_ / nu is at most 1 and at least
        1 / (1 + 1 / ((1 - nu) intercept_scaling^2)): with the default 0.89 for nu = 0.1, 0.82 for nu = 0.5.
    tol, max_iter, max_time, solver, warm_start, keep_duals, random_state, n_jobs, verbose, dtype
        As in `SVMClassifier`. The gap is relative to the objective plus a^2 / 2, see `certificate_`.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    offset_ : float
        rho. decision_function = score_samples - offset_.
    intercept_ : float
        -rho.
    nu_ : float
        The nu that the model is exactly that of a free offset at.
    offset_scale_ : float
        a.
    certificate_ : Certificate
        Of the objective above plus a^2 / 2, which makes it 1/2 ||w||^2 + (rho - a^2)^2 / (2 a^2) + losses and never negative.
    dual_coef_ : array of shape (n_samples,), with keep_duals=True
        coef_ = sum_i dual_coef_[i] x_i.
    history_, n_iter_, n_features_in_, feature_names_in_
        As in `SVMClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> import maxmargin as mm
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) + 4.0
    >>> model = mm.OneClassSVM(nu=0.1, random_state=0).fit(X)
    >>> model.predict([[4.0, 4.0], [0.5, 0.5]]).tolist()
    [1, -1]
    """

    _parameter_constraints = {
        **{
            name: rule
            for name, rule in LinearModel._parameter_constraints.items()
            if name not in ("C", "fit_intercept", "standardize")
        },
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    fit_intercept = True  # the offset
    standardize = False  # columns without their means would have the origin in their midst

    def __init__(
        self,
        nu=0.5,
        *,
        intercept_scaling=3.0,
        tol=1e-3,
        max_iter=10_000,
        max_time=None,
        solver="auto",
        warm_start=False,
        keep_duals=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
        dtype=None,
    ):
        self.nu = nu
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.solver = solver
        self.warm_start = warm_start
        self.keep_duals = keep_duals
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.dtype = dtype

    @property
    def C(self) -> float:  # noqa: N802 - as all models call it
        """The weight of the losses: 1 / nu, of weights that sum to one."""
        return 1.0 / float(self.nu)

    def score_samples(self, X) -> np.ndarray:
        """<w, x> of each sample, (n_samples,): the smaller, the less it is like those learned from."""
        return self._scores(X) + self.offset_

    def decision_function(self, X) -> np.ndarray:
        """<w, x> - offset_ of each sample, (n_samples,); negative for outliers."""
        return self._scores(X)

    def predict(self, X) -> np.ndarray:
        """1 for each sample like those learned from, -1 for each outlier."""
        return np.where(self._scores(X) >= 0.0, 1, -1)

    def regularization_path(self, X, y, Cs, sample_weight=None) -> list:
        """Fitted copies of this estimator with nu = 1 / C for each C >= 1 in `Cs`, each started from the one before it and
        certified. y is not looked at."""
        values = checked_Cs(Cs)
        if min(values, default=1.0) < 1.0:
            raise ValueError(f"Cs of OneClassSVM are 1 / nu and at least 1, since nu <= 1; got {min(values):g}.")
        return [step.model for step in self._rising((X, None, sample_weight), [{"nu": 1.0 / C} for C in values])]

    def _learned(self) -> dict[str, Any]:
        return super()._learned() | {"offset_scale_": self.offset_scale_}

    def _bias(self) -> float:
        return self.offset_scale_

    def _prepared(self, X, y, sample_weight) -> Prepared:
        if is_source(X):
            raise ValueError("OneClassSVM needs its samples in memory; read the source first, or give arrays.")
        solver = resolve(self.solver)
        X = self._read(X, reset=True, dtype=self._dtypes(), order="C")
        if of_own_kind(X):
            raise ValueError(f"OneClassSVM takes arrays, data frames and CSR matrices, not {type(X).__name__}.")
        weight = np.ones(X.shape[0]) if sample_weight is None else self._checked_weight(sample_weight, X)
        weight = weight / weight.sum()
        self.offset_scale_ = float(self.intercept_scaling) * self._root_mean_square(X, weight)
        # 1/2 u^2 + a u with -rho = a u is 1/2 (u + a)^2 less a constant: the hinge of margin a^2 with v = u + a in the place of u
        table = table_of(X, self._bias(), SPARSE_BELOW["scalar"])
        sign, margin = np.ones(X.shape[0]), np.full(X.shape[0], self._bias() ** 2)

        def pose(model, share=1.0) -> Posed:
            return Posed(ScalarProblem(table, HingeLoss(), (sign, margin), weight * share))

        return Prepared(pose, self._learned(), solver, X, None, weight)

    def _root_mean_square(self, X, weight: np.ndarray) -> float:
        """The norm of the samples."""
        found = float(np.sqrt(weight @ table_of(X, 0.0, SPARSE_BELOW["scalar"]).norms()))
        if found == 0.0:
            raise ValueError("Every sample of positive weight is a row of zeros: nothing tells such samples from the origin.")
        return found

    def _keep(self, result, weights, constant) -> None:
        super()._keep(result, weights, constant)
        a = self.offset_scale_
        self.offset_ = a * (a - float(constant))
        self.intercept_ = -self.offset_
        self.nu_ = float(self.nu) * float(constant) / a

    def _shaped(self, coef, intercept) -> tuple[np.ndarray, Any]:
        return coef, float(intercept)
