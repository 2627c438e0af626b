"""What may stand in a file, by name: a file names these and nothing else, and reading one imports nothing."""

from typing import Any

from sklearn import model_selection

from .. import losses, solvers, structures
from ..data.indicators import LabelColumns
from ..data.kernel_functions import RBF, Linear, Poly, Sigmoid
from ..data.sources.encoding import ColumnCode, Encoding
from ..estimators.by_block import SupportSamples
from ..estimators.classifier import SVMClassifier
from ..estimators.classifier_cv import SVMClassifierCV
from ..estimators.kernel import KernelModel
from ..estimators.latent import LatentSVMClassifier
from ..estimators.latent_structured import LatentStructuredSVM
from ..estimators.multilabel import MultilabelSVMClassifier
from ..estimators.multilabel_cv import MultilabelSVMClassifierCV
from ..estimators.multilabel_partial_fit import LabelledSupport
from ..estimators.one_class import OneClassSVM
from ..estimators.ordinal import OrdinalSVM
from ..estimators.probability import Columns, Interpolated, LogisticCurve, Softmax, TwoOutcomes
from ..estimators.ranking import RankingSVM
from ..estimators.regressor import SVMRegressor
from ..estimators.regressor_cv import SVMRegressorCV
from ..estimators.sequence_vectorizer import SequenceVectorizer
from ..estimators.structured import StructuredSVM
from ..estimators.structured_cv import StructuredSVMCV
from ..estimators.structured_partial_fit import KeptOutputs
from ..estimators.topk import TopKSVMClassifier
from ..estimators.topk_cv import TopKSVMClassifierCV
from ..estimators.zero_shot import ZeroShotClassifier
from ..problems.blocked import Examples
from ..result import Certificate, History, Record
from ..solvers.polytope.sets import Sets

# Estimators that `save` takes.
MODELS: tuple[type, ...] = (
    SVMClassifier,
    SVMClassifierCV,
    SVMRegressor,
    RankingSVM,
    OrdinalSVM,
    OneClassSVM,
    SVMRegressorCV,
    TopKSVMClassifier,
    TopKSVMClassifierCV,
    MultilabelSVMClassifier,
    MultilabelSVMClassifierCV,
    StructuredSVM,
    StructuredSVMCV,
    LatentSVMClassifier,
    LatentStructuredSVM,
    ZeroShotClassifier,
)
# scikit-learn's own ways to split samples: what `cv` of a search may be.
SPLITTERS: tuple[type, ...] = (
    model_selection.KFold,
    model_selection.StratifiedKFold,
    model_selection.GroupKFold,
    model_selection.StratifiedGroupKFold,
    model_selection.ShuffleSplit,
    model_selection.StratifiedShuffleSplit,
    model_selection.GroupShuffleSplit,
    model_selection.TimeSeriesSplit,
    model_selection.LeaveOneOut,
    model_selection.PredefinedSplit,
)
# Objects that are their parameters, and what they have learned.
WITH_PARAMETERS: dict[str, type] = {
    cls.__name__: cls for cls in (*MODELS, *losses.ALL, *solvers.NAMES.values(), *solvers.ALL, *structures.ALL)
}
# Objects that are all that they hold.
PLAIN_OBJECTS: dict[str, type] = {cls.__name__: cls for cls in SPLITTERS}
# Dataclasses and named tuples.
RECORDS: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        Certificate,
        KernelModel,
        Linear,
        RBF,
        Poly,
        Sigmoid,
        LogisticCurve,
        Interpolated,
        TwoOutcomes,
        Columns,
        Softmax,
        LabelColumns,
        Encoding,
        ColumnCode,
        Examples,
        SupportSamples,
        LabelledSupport,
        KeptOutputs,
        Sets,
    )
}
# Attributes of estimators that are no part of a model: what a warm start goes on from, callbacks, and copies made for speed.
NOT_KEPT = frozenset(
    {
        "_last",
        "_packed",
        "_skl_callbacks",
        "_callback_fit_ctx",
        "_skl_callbacks_to_teardown",
        "_silent",
        "_state_bytes",
        "_under_way",
    }
)


def skops_types() -> list[str]:
    """What `skops.io.load(..., trusted=)` has to be told to read any model of this package and pipelines with it: it
    knows scikit-learn's own only."""
    classes = (SequenceVectorizer, *WITH_PARAMETERS.values(), *PLAIN_OBJECTS.values(), *RECORDS.values(), History, Record)
    return sorted({f"{cls.__module__}.{cls.__qualname__}" for cls in classes} | {"numpy.dtype"})
