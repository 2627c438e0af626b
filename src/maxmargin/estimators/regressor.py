"""`SVMRegressor`: regression, linear or with a kernel, epsilon-insensitive or by least squares."""

from numbers import Real

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions

from ..data.matrices import numbers
from ..data.tensors import is_tensor
from ..losses import REGRESSION
from ..losses.base import RegressionLoss
from .by_block import Scored, blockwise, real_codes
from .kernel import KernelSVM
from .posing import RealTargets


class SVMRegressor(Scored, RegressorMixin, KernelSVM):
    """Support vector regression with a certificate, linear or with a kernel.

    Minimises 1/2 ||w||^2 + C sum_i s_i max(0, |y_i - <w, x_i>| - epsilon), or the squares of these, as LinearSVR does; or plain
    squares of y_i - <w, x_i>, as Ridge does. With a kernel it is the same in the feature space of that.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the regulariser.
    epsilon : float, default=0.1
        Deviations up to this cost nothing. "squared_error" does not look at it.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive", "squared_error"} or loss object, default="epsilon_insensitive"
        "squared_error" is Ridge with alpha = 1 / (2 C), where no intercept is fitted (Ridge leaves its own free). An object
        is a `RegressionLoss` of your own (`maxmargin.extend`); `epsilon` is then its own affair.
    kernel, gamma, degree, coef0, positive, prior_mean, prior_scale, prior_covariance, cache_size, tol, max_iter, max_time, \
fit_intercept, intercept_scaling, standardize, solver, warm_start, keep_duals, random_state, n_jobs, verbose, dtype, \
device
        As in `SVMClassifier`; means and scales have shape (n_features,).

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Of the linear kernel only.
    intercept_ : array of shape (1,)
    certificate_, history_, n_iter_, n_features_in_, feature_names_in_, support_
        As in `SVMClassifier`.
    dual_coef_ : array of shape (n_samples,), with keep_duals=True or a kernel
        coef_ = sum_i dual_coef_[i] x_i (without prior and signs); with a kernel scores are as in `SVMClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import maxmargin as mm
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = mm.SVMRegressor(C=100.0, random_state=0).fit(X, y)
    >>> model.certificate_.relative_gap <= model.tol
    True
    """

    _parameter_constraints = {
        **KernelSVM._parameter_constraints,
        "epsilon": [Interval(Real, 0.0, None, closed="left")],
        "loss": [StrOptions(set(REGRESSION)), RegressionLoss],
        "device": "no_validation",
    }

    def __init__(
        self,
        C=1.0,
        *,
        epsilon=0.1,
        loss="epsilon_insensitive",
        kernel="linear",
        gamma="scale",
        degree=3,
        coef0=0.0,
        positive=False,
        prior_mean=None,
        prior_scale=None,
        prior_covariance=None,
        cache_size=500.0,
        tol=1e-3,
        max_iter=10_000,
        max_time=None,
        fit_intercept=True,
        intercept_scaling=1.0,
        standardize=False,
        solver="auto",
        warm_start=False,
        keep_duals=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
        dtype=None,
        device=None,
    ):
        self.C = C
        self.epsilon = epsilon
        self.loss = loss
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.positive = positive
        self.prior_mean = prior_mean
        self.prior_scale = prior_scale
        self.prior_covariance = prior_covariance
        self.cache_size = cache_size
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.standardize = standardize
        self.solver = solver
        self.warm_start = warm_start
        self.keep_duals = keep_duals
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.dtype = dtype
        self.device = device

    @blockwise
    def predict(self, X) -> np.ndarray:
        """The predicted targets."""
        return self._scores(X).ravel()

    def _target_checks(self):
        return {"y_numeric": True}

    def _checked_target(self, y, sample_weight):
        return y if is_tensor(y) else numbers("y", y), None

    def _codes(self, y, rows):
        return real_codes(y, rows)

    def _posing(self, factors):
        if isinstance(self.loss, RegressionLoss):
            return RealTargets(self.loss)
        found = REGRESSION[self.loss]()
        return RealTargets(found.set_params(epsilon=float(self.epsilon)) if "epsilon" in found.get_params() else found)

    def _shaped(self, coef, intercept):
        return coef, np.atleast_1d(intercept)
