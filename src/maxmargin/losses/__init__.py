"""Losses of one example. A new loss is one new file: a `Loss`, the named tuple it makes, and functions of `base` for that."""

from .base import BinaryLoss, MulticlassLoss, MultilabelLoss, RegressionLoss
from .crammer_singer import CrammerSingerLoss
from .epsilon_insensitive import EpsilonInsensitiveLoss
from .hinge import HingeLoss
from .logistic import LogisticLoss
from .multilabel_hinge import MultilabelHingeLoss
from .multilabel_logistic import MultilabelLogisticLoss
from .multilabel_squared_error import MultilabelSquaredErrorLoss
from .multilabel_squared_hinge import MultilabelSquaredHingeLoss
from .multinomial import MultinomialLoss
from .squared_epsilon_insensitive import SquaredEpsilonInsensitiveLoss
from .squared_error import BinarySquaredErrorLoss, SquaredErrorLoss
from .squared_hinge import SquaredHingeLoss
from .topk_alpha import TopKAlphaLoss
from .topk_beta import TopKBetaLoss

BINARY: dict[str, type[BinaryLoss]] = {
    "hinge": HingeLoss,
    "squared_hinge": SquaredHingeLoss,
    "log_loss": LogisticLoss,
    "squared_error": BinarySquaredErrorLoss,
}
REGRESSION: dict[str, type[RegressionLoss]] = {
    "epsilon_insensitive": EpsilonInsensitiveLoss,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitiveLoss,
    "squared_error": SquaredErrorLoss,
}
MULTICLASS: dict[str, type[MulticlassLoss]] = {
    "hinge": CrammerSingerLoss,
    "log_loss": MultinomialLoss,
    "topk_alpha": TopKAlphaLoss,
    "topk_beta": TopKBetaLoss,
}
MULTILABEL: dict[str, type[MultilabelLoss]] = {
    "hinge": MultilabelHingeLoss,
    "squared_hinge": MultilabelSquaredHingeLoss,
    "log_loss": MultilabelLogisticLoss,
    "squared_error": MultilabelSquaredErrorLoss,
}
ALL = (*BINARY.values(), *REGRESSION.values(), *MULTICLASS.values(), *MULTILABEL.values())
