"""Max-margin models, each with a certificate: a primal value, a dual value and the gap between them, computed."""

from .callbacks import Progress
from .estimators.classifier import SVMClassifier
from .estimators.regressor import SVMRegressor
from .explicit import ExplicitProblem
from .result import Certificate, History, Record, Result
from .solve import solve
from .solvers.dual_coordinate import DualCoordinate

__version__ = "0.1.0.dev0"

__all__ = [
    "Certificate",
    "DualCoordinate",
    "ExplicitProblem",
    "History",
    "Progress",
    "Record",
    "Result",
    "SVMClassifier",
    "SVMRegressor",
    "solve",
]
