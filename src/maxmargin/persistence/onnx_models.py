"""Linear models as ONNX graphs: converters for skl2onnx (the extra `onnx`), and `to_onnx`.

Scores are a matrix product, in the type of the input: the linear operators of ONNX know float32 only.
"""

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..estimators.classifier import SVMClassifier
from ..estimators.classifier_cv import SVMClassifierCV
from ..estimators.multilabel import MultilabelSVMClassifier
from ..estimators.multilabel_cv import MultilabelSVMClassifierCV
from ..estimators.regressor import SVMRegressor
from ..estimators.regressor_cv import SVMRegressorCV
from ..estimators.structured import StructuredSVM
from ..estimators.topk import TopKSVMClassifier
from ..estimators.topk_cv import TopKSVMClassifierCV
from ..structures.chain import Chain
from .onnx_chains import chain_graph
from .onnx_probabilities import add_probabilities, calibration_of

CONVERTED: tuple[Any, ...] = (
    SVMClassifier,
    SVMClassifierCV,
    TopKSVMClassifier,
    TopKSVMClassifierCV,
    MultilabelSVMClassifier,
    MultilabelSVMClassifierCV,
    SVMRegressor,
    SVMRegressorCV,
)
NEEDED = "ONNX needs skl2onnx: pip install 'maxmargin[onnx]'."


def to_onnx(model: Any, *, dtype: Any = np.float32, target_opset: int | None = None) -> Any:
    """A fitted linear model as an ONNX model, for runtimes without Python.

    Its input `X` is (n_samples, n_features). Its outputs are `label` and `scores`: what `predict` and `decision_function` say, in
    the type of the input; then `probabilities`, where the model has `predict_proba`. A regression has `variable`, a column.

    Of a `StructuredSVM` over chains the input is one sequence, (length, n_features); its outputs are `label`, the best labels,
    and `score`, what they are worth.

    For a whole pipeline call `register_onnx()` once, then skl2onnx's own `to_onnx`.

    Parameters
    ----------
    model : fitted linear SVMClassifier, SVMRegressor, TopKSVMClassifier or MultilabelSVMClassifier, StructuredSVM with a Chain, \
or the search of one of these
    dtype : {float32, float64}, default=float32
        Of the input.
    target_opset : int, optional
        The version of the operators; by default the latest that skl2onnx knows. Chains have one of their own.

    Returns
    -------
    onnx.ModelProto
    """
    types = register_onnx()
    kinds = {np.dtype(np.float32): types.FloatTensorType, np.dtype(np.float64): types.DoubleTensorType}
    if np.dtype(dtype) not in kinds:
        raise ValueError(f"dtype must be float32 or float64; got {dtype!r}.")
    if isinstance(model, StructuredSVM) and type(vars(model).get("structure_")) is Chain:
        return chain_graph(model, np.dtype(dtype))
    check_convertible(model)
    from skl2onnx import convert_sklearn

    kind = kinds[np.dtype(dtype)]([None, int(model.n_features_in_)])
    return convert_sklearn(model, initial_types=[("X", kind)], target_opset=target_opset)


def register_onnx() -> Any:
    """Tell skl2onnx how the linear estimators of this package are converted, so that its `to_onnx` takes pipelines with them."""
    try:
        from skl2onnx import update_registered_converter
        from skl2onnx.common import data_types
    except ImportError:
        raise ImportError(NEEDED) from None
    for cls in CONVERTED:
        update_registered_converter(cls, f"Maxmargin{cls.__name__}", tell_shapes, convert_linear, overwrite=True, parser=declare)
    return data_types


def check_convertible(model: Any) -> None:
    """Refuse what has no graph, in a sentence."""
    if type(model) not in CONVERTED:
        names = ", ".join(cls.__name__ for cls in CONVERTED)
        raise TypeError(f"to_onnx takes linear models ({names}) and fitted chains; got a {type(model).__name__}.")
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise ValueError(f"This {type(model).__name__} is not fitted: there is nothing to convert.") from None
    if "coef_" not in vars(model):
        raise ValueError(f"kernel={model.kernel!r} has no weights of features; to_onnx takes kernel='linear'.")


# ---- what skl2onnx calls -----------------------------------------------------------------------------------------------


def declare(scope: Any, model: Any, inputs: list[Any], custom_parsers: Any = None) -> list[Any]:
    """The operator and its outputs."""
    operator = scope.declare_local_operator(f"Maxmargin{type(model).__name__}", model)
    operator.inputs.append(inputs[0])
    names = ("label", "scores", "probabilities") if is_classifier(model) else ("variable",)
    for name, kind in zip(names, types_of(model, inputs[0]), strict=False):  # not all have probabilities
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return operator.outputs


def tell_shapes(operator: Any) -> None:
    for output, kind in zip(operator.outputs, types_of(operator.raw_operator, operator.inputs[0]), strict=True):
        output.type = kind


def types_of(model: Any, given: Any) -> list[Any]:
    """The types of the outputs, from that of the input."""
    from skl2onnx.common import data_types as types

    check_convertible(model)
    count = given.get_first_dimension()
    numbers = types.FloatTensorType if isinstance(given.type, types.FloatTensorType) else types.DoubleTensorType
    if not is_classifier(model):
        return [numbers([count, 1])]
    columns = len(np.atleast_2d(model.coef_))
    if isinstance(model, MultilabelSVMClassifier):
        found = [types.Int64TensorType([count, columns]), numbers([count, columns])]
    else:
        found = [label_kind(model, types)([count]), numbers([count, columns] if columns > 2 else [count])]
    return found if calibration_of(model) is None else [*found, numbers([count, max(columns, len(model.classes_))])]


def label_kind(model: Any, types: Any) -> Any:
    kinds = {"i": types.Int64TensorType, "u": types.Int64TensorType, "b": types.BooleanTensorType, "f": types.DoubleTensorType}
    return kinds.get(model.classes_.dtype.kind, types.StringTensorType)


def convert_linear(scope: Any, operator: Any, container: Any) -> None:
    """The nodes of the graph."""
    graph = Graphed(scope, operator, container)
    model = operator.raw_operator
    scores = graph.scores(np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_))
    if not is_classifier(model):
        graph.node("Identity", [scores], out=operator.outputs[0].full_name)
        return
    label, shown, *chances = (output.full_name for output in operator.outputs)
    columns = len(np.atleast_2d(model.coef_))
    if isinstance(model, MultilabelSVMClassifier):
        above = graph.node("Greater", [scores, graph.numbers(rounded_down(model._cuts(), graph.dtype))])
        graph.node("Cast", [above], out=label, to=graph.proto.INT64)
    else:
        if columns > 2:
            best = graph.node("ArgMax", [scores], axis=1, keepdims=0)
        else:
            scores = graph.single(scores, columns)
            best = graph.node("Cast", [graph.node("Greater", [scores, graph.numbers(np.zeros(1))])], to=graph.proto.INT64)
        graph.node("Gather", [graph.classes(model.classes_), best], out=label, axis=0)
    graph.node("Identity", [scores], out=shown)
    if chances:
        add_probabilities(graph, calibration_of(model), scores, chances[0])


def rounded_down(thresholds: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """In the type of the scores, of which the same ones are above them."""
    found = thresholds.astype(dtype)
    return np.where(found > thresholds, np.nextafter(found, dtype.type(-np.inf)), found)


class Graphed:
    """Nodes and constants of one operator."""

    def __init__(self, scope: Any, operator: Any, container: Any):
        from onnx import TensorProto
        from skl2onnx.common.data_types import FloatTensorType

        self.scope, self.container, self.proto = scope, container, TensorProto
        given = operator.inputs[0]
        single = isinstance(given.type, FloatTensorType)
        self.kind = TensorProto.FLOAT if single else TensorProto.DOUBLE
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self.input = given.full_name if single else self.node("Cast", [given.full_name], to=self.kind)

    def node(self, kind: str, inputs: list[str], out: str | None = None, **attributes: Any) -> str:
        """Adds a node, and returns the name of its output."""
        name = out or self.scope.get_unique_variable_name(kind.lower())
        container_name = self.scope.get_unique_operator_name(kind)
        self.container.add_node(kind, inputs, [name], name=container_name, **attributes)
        return name

    def numbers(self, values: np.ndarray) -> str:
        """A constant in the type of the input."""
        return self.constant(self.kind, np.asarray(values, self.dtype))

    def whole(self, values: list[int]) -> str:
        """A constant of integers: places and shapes."""
        return self.constant(self.proto.INT64, np.array(values))

    def constant(self, kind: int, values: np.ndarray) -> str:
        name = self.scope.get_unique_variable_name("constant")
        self.container.add_initializer(name, kind, list(values.shape), values.ravel().tolist())
        return name

    def scores(self, weights: np.ndarray, intercept: np.ndarray) -> str:
        return self.node("Add", [self.node("MatMul", [self.input, self.numbers(weights)]), self.numbers(intercept)])

    def single(self, scores: str, columns: int) -> str:
        """The score of the second of two classes, as a vector; that of a loss of rows is a difference."""
        if columns == 2:
            scores = self.node("MatMul", [scores, self.numbers(np.array([[-1.0], [1.0]]))])
        return self.node("Reshape", [scores, self.whole([-1])])

    def classes(self, found: np.ndarray) -> str:
        kind = {"i": self.proto.INT64, "u": self.proto.INT64, "b": self.proto.BOOL, "f": self.proto.DOUBLE}.get(found.dtype.kind)
        if kind is None:
            texts = [str(name).encode() for name in found.tolist()]  # old versions of onnx encode letters of English only
            return self.constant(self.proto.STRING, np.array(texts, object))
        return self.constant(kind, found)
