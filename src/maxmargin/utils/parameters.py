"""Objects that are their parameters, as solvers and structures are.

What a parameter may be stands in `_parameter_constraints`, as in scikit-learn; one that is not named there may be anything.
"""

from numbers import Integral, Real
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval


class Number(Interval):
    """An interval of numbers; True and False are none."""

    def is_satisfied_by(self, val: Any) -> bool:
        return not isinstance(val, bool) and bool(super().is_satisfied_by(val))


POSITIVE = Number(Real, 0.0, None, closed="neither")
NOT_NEGATIVE = Number(Real, 0.0, None, closed="left")


def at_least(least: int) -> Number:
    """Integers."""
    return Number(Integral, least, None, closed="left")


class Parameters(BaseEstimator):
    """Base of these objects. `_validate_params` refuses the first value that is not allowed, in a sentence."""

    _parameter_constraints: dict[str, Any] = {}
