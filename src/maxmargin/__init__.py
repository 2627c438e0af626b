"""Max-margin models, each with a certificate: a primal value, a dual value and the gap between them, computed."""

from . import datasets, projections, structures
from .callbacks import Progress
from .data.sources.base import Source, SourceChangedError
from .data.sources.memory import Samples
from .data.sources.opening import open_source
from .estimators.block_transformer import BlockTransformer
from .estimators.classifier import SVMClassifier
from .estimators.latent import LatentSVMClassifier
from .estimators.latent_structured import LatentStructuredSVM
from .estimators.multilabel import MultilabelSVMClassifier
from .estimators.regressor import SVMRegressor
from .estimators.structured import StructuredSVM
from .estimators.topk import TopKSVMClassifier
from .estimators.zero_shot import ZeroShotClassifier
from .problems.explicit import ExplicitProblem
from .regularizers.label_prior import label_correlation, prior_from_signatures
from .result import Certificate, History, Record, Result
from .solve import minimize, solve
from .solvers import Bundle, DualCoordinate, ExponentiatedGradient, FrankWolfe, Newton, OnlineDual, PartialLinearization
from .structures import LatentStructure, Structure, StructureError, check_structure

__version__ = "0.1.0.dev0"

__all__ = [
    "BlockTransformer",
    "Bundle",
    "Certificate",
    "DualCoordinate",
    "ExplicitProblem",
    "ExponentiatedGradient",
    "FrankWolfe",
    "History",
    "LatentSVMClassifier",
    "LatentStructure",
    "LatentStructuredSVM",
    "MultilabelSVMClassifier",
    "Newton",
    "OnlineDual",
    "PartialLinearization",
    "Progress",
    "Record",
    "Result",
    "SVMClassifier",
    "SVMRegressor",
    "Samples",
    "Source",
    "SourceChangedError",
    "Structure",
    "StructureError",
    "StructuredSVM",
    "TopKSVMClassifier",
    "ZeroShotClassifier",
    "check_structure",
    "datasets",
    "label_correlation",
    "minimize",
    "open_source",
    "prior_from_signatures",
    "projections",
    "solve",
    "structures",
]
