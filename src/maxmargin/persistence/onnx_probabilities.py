"""Probabilities in ONNX graphs: what `estimators/probability.py` makes of scores, node by node."""

from typing import Any

import numpy as np

from ..estimators.probability import Columns, Interpolated, LogisticCurve, Softmax, TwoOutcomes


def calibration_of(model: Any) -> Any:
    """What makes probabilities of the scores of a classifier; None where there are none."""
    return model._way_to_probabilities() if hasattr(model, "predict_proba") else None


def add_probabilities(graph: Any, calibration: Any, scores: str, out: str) -> None:
    """From the scores, (n,) of two classes or (n, columns), to `out`."""
    ADDED[type(calibration)](graph, calibration, scores, out)


def of_two(graph: Any, found: TwoOutcomes, scores: str, out: str) -> None:
    second = curve_nodes(graph, found.curve, graph.node("Reshape", [scores, graph.whole([-1, 1])]))
    first = graph.node("Sub", [graph.numbers(np.ones(1)), second])
    graph.node("Concat", [first, second], out=out, axis=1)


def of_columns(graph: Any, found: Columns, scores: str, out: str) -> None:
    pairs = [(each.slope, each.offset) for each in found.curves if isinstance(each, LogisticCurve)]
    if len(pairs) == len(found.curves):
        slopes, offsets = np.array(pairs).T
        said = sigmoid_nodes(graph, slopes, offsets, scores)
    else:
        parts = [graph.node("Gather", [scores, graph.whole([k])], axis=1) for k in range(len(found.curves))]
        said = graph.node("Concat", [curve_nodes(graph, *pair) for pair in zip(found.curves, parts, strict=True)], axis=1)
    if not found.shared:
        graph.node("Identity", [said], out=out)
        return
    total = graph.node("MatMul", [said, graph.numbers(np.ones((len(found.curves), 1)))])
    none = graph.node("Not", [graph.node("Greater", [total, graph.numbers(np.zeros(1))])])
    some = graph.node("Where", [none, graph.numbers(np.ones(1)), total])
    equal = graph.numbers(np.full(1, 1.0 / len(found.curves)))
    graph.node("Where", [none, equal, graph.node("Div", [said, some])], out=out)


def of_all(graph: Any, found: Softmax, scores: str, out: str) -> None:
    graph.node("Softmax", [graph.node("Mul", [scores, graph.numbers(np.full(1, found.factor))])], out=out, axis=1)


def curve_nodes(graph: Any, found: Any, scores: str) -> str:
    """Of one column, (n, 1)."""
    if isinstance(found, LogisticCurve):
        return sigmoid_nodes(graph, np.array([found.slope]), np.array([found.offset]), scores)
    return line_nodes(graph, found, scores)


def sigmoid_nodes(graph: Any, slope: np.ndarray, offset: np.ndarray, scores: str) -> str:
    return graph.node("Sigmoid", [graph.node("Sub", [graph.node("Mul", [scores, graph.numbers(-slope)]), graph.numbers(offset)])])


def line_nodes(graph: Any, found: Interpolated, scores: str) -> str:
    """The line of the last place at or below the score; before the first and from the last place on it is flat."""
    places, values = (np.asarray(part, np.float64) for part in (found.scores, found.values))
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.nan_to_num(np.diff(values) / np.diff(places.astype(graph.dtype).astype(np.float64)), posinf=0.0, neginf=0.0)
    passed = graph.node("Not", [graph.node("Less", [scores, graph.numbers(places[None, :])])])
    count = graph.node("MatMul", [graph.node("Cast", [passed], to=graph.kind), graph.numbers(np.ones((len(places), 1)))])
    line = graph.node("Cast", [count], to=graph.proto.INT64)

    def there(table: np.ndarray) -> str:
        return graph.node("Gather", [graph.numbers(table), line], axis=0)

    beyond = graph.node("Sub", [scores, there(places[[0, *range(len(places))]])])
    rise = graph.node("Mul", [beyond, there(np.array([0.0, *slopes, 0.0]))])
    return graph.node("Add", [there(values[[0, *range(len(values))]]), rise])


ADDED: dict[type, Any] = {TwoOutcomes: of_two, Columns: of_columns, Softmax: of_all}
