"""Max-margin models, each with a certificate: a primal value, a dual value and the gap between them, computed."""

from . import datasets, projections, structures
from .callbacks import Progress
from .data.sources.base import Source, SourceChangedError
from .data.sources.memory import Samples
from .data.sources.opening import open_source
from .estimators.block_transformer import BlockTransformer
from .estimators.classifier import SVMClassifier
from .estimators.classifier_cv import SVMClassifierCV
from .estimators.latent import LatentSVMClassifier
from .estimators.latent_structured import LatentStructuredSVM
from .estimators.multilabel import MultilabelSVMClassifier
from .estimators.multilabel_cv import MultilabelSVMClassifierCV
from .estimators.one_class import OneClassSVM
from .estimators.ordinal import OrdinalSVM
from .estimators.ranking import RankingSVM
from .estimators.regressor import SVMRegressor
from .estimators.regressor_cv import SVMRegressorCV
from .estimators.sequence_vectorizer import SequenceVectorizer
from .estimators.structured import StructuredSVM
from .estimators.structured_cv import StructuredSVMCV
from .estimators.topk import TopKSVMClassifier
from .estimators.topk_cv import TopKSVMClassifierCV
from .estimators.zero_shot import ZeroShotClassifier
from .losses.check import LossError, check_loss
from .persistence.checkpoint import Checkpoint
from .persistence.container import ModelFileError
from .persistence.models import load_model as load
from .persistence.models import save_model as save
from .persistence.names import skops_types
from .persistence.onnx_models import register_onnx, to_onnx
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
    "Checkpoint",
    "DualCoordinate",
    "ExplicitProblem",
    "ExponentiatedGradient",
    "FrankWolfe",
    "History",
    "LatentSVMClassifier",
    "LatentStructure",
    "LatentStructuredSVM",
    "LossError",
    "ModelFileError",
    "MultilabelSVMClassifier",
    "MultilabelSVMClassifierCV",
    "Newton",
    "OneClassSVM",
    "OnlineDual",
    "OrdinalSVM",
    "PartialLinearization",
    "Progress",
    "RankingSVM",
    "Record",
    "Result",
    "SVMClassifier",
    "SVMClassifierCV",
    "SVMRegressor",
    "SVMRegressorCV",
    "Samples",
    "SequenceVectorizer",
    "Source",
    "SourceChangedError",
    "Structure",
    "StructureError",
    "StructuredSVM",
    "StructuredSVMCV",
    "TopKSVMClassifier",
    "TopKSVMClassifierCV",
    "ZeroShotClassifier",
    "check_loss",
    "check_structure",
    "datasets",
    "label_correlation",
    "load",
    "minimize",
    "open_source",
    "prior_from_signatures",
    "projections",
    "register_onnx",
    "save",
    "skops_types",
    "solve",
    "structures",
    "to_onnx",
]
