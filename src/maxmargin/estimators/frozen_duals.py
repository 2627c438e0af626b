"""What `partial_fit` goes on from after a `fit`: duals that stay as they are, and the objective that they belong to."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from ..result import Certificate, Result

# Parameters that say what is minimised. Duals are feasible, and their reward is right, for the same ones only.
OBJECTIVE = (
    "C",
    "loss",
    "multi_class",
    "epsilon",
    "k",
    "smoothing",
    "cost",
    "class_weight",
    "label_weight",
    "label_prior",
    "fit_intercept",
    "intercept_scaling",
    "positive",
    "prior_mean",
    "prior_scale",
    "prior_covariance",
)
NOTHING_KEPT = (
    "This model keeps nothing that partial_fit could go on from, as one has that was fitted with standardize=True, by a solver "
    "without duals (Bundle) or on a device, or was saved by an earlier version: fit it without these, or begin anew with "
    "partial_fit on sklearn.base.clone(model)."
)


def objective_of(model: Any) -> dict[str, Any]:
    """The parameters of a model that say what it minimises."""
    return {name: getattr(model, name) for name in OBJECTIVE if hasattr(model, name)}


def kept_by(model: Any) -> Any:
    """What `partial_fit` goes on from; None where nothing was learned before."""
    kept = vars(model).get("_kept")
    if kept is None and "certificate_" in vars(model):
        raise ValueError(NOTHING_KEPT)
    return kept


def check_same_objective(model: Any, told: Mapping[str, Any] | None) -> None:
    """Refuse to go on with frozen duals under other parameters than those they belong to; `told` are these."""
    for name, then in (told or {}).items():
        now = getattr(model, name)
        if not same(now, then):
            plain = all(isinstance(value, Real | str | None) for value in (now, then))
            which = f"{name}={then!r}, not to {name}={now!r}" if plain else f"another {name}"
            raise ValueError(f"This model has frozen duals, which belong to {which}: set it back, or fit all samples together.")


def same(a: Any, b: Any) -> bool:
    """Whether two values of a parameter mean the same."""
    if a is b:
        return True
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if hasattr(a, "get_params") or hasattr(b, "get_params"):
        return type(a) is type(b) and same(a.get_params(), b.get_params())
    return np.array_equal(np.asarray(a), np.asarray(b))


def proves_nothing(certificate: Certificate) -> bool:
    """Whether the dual value of a fit is no bound: it overflows, or lies above the primal one."""
    return not np.isfinite(certificate.dual) or (certificate.gap < 0.0 and not certificate.verified)


def found_at_duals(result: Result) -> Any:
    """What the duals of a fit stand for, where they are good to go on from; else None."""
    return None if proves_nothing(result.certificate) else result.at_duals
