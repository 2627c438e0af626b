"""Max-margin models, each with a certificate: a primal value, a dual value and the gap between them, computed."""

from . import projections, structures
from .callbacks import Progress
from .data.blocks import Samples
from .estimators.classifier import SVMClassifier
from .estimators.regressor import SVMRegressor
from .estimators.structured import StructuredSVM
from .estimators.topk import TopKSVMClassifier
from .explicit import ExplicitProblem
from .minimize import minimize
from .result import Certificate, History, Record, Result
from .solve import solve
from .solvers import Bundle, DualCoordinate, ExponentiatedGradient, FrankWolfe, OnlineDual, PartialLinearization
from .structures import Structure, StructureError, check_structure

__version__ = "0.1.0.dev0"

__all__ = [
    "Bundle",
    "Certificate",
    "DualCoordinate",
    "ExplicitProblem",
    "ExponentiatedGradient",
    "FrankWolfe",
    "History",
    "OnlineDual",
    "PartialLinearization",
    "Progress",
    "Record",
    "Result",
    "SVMClassifier",
    "SVMRegressor",
    "Samples",
    "Structure",
    "StructureError",
    "StructuredSVM",
    "TopKSVMClassifier",
    "check_structure",
    "minimize",
    "projections",
    "solve",
    "structures",
]
