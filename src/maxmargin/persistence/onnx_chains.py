"""Chains as ONNX graphs: Viterbi's recursion as two scans over the positions of a sequence, forth for the best scores and back
for the labels. The graph takes one sequence at a time."""

from typing import Any

import numpy as np

from ..jit import vectors
from ..structures.chain import Chain
from ..structures.transitions import PAIRS

OPSET = 18  # ReduceMax takes its axes as an input from there on
KINDS_OF_LABELS = {"i": "INT64", "u": "INT64", "b": "BOOL", "U": "STRING"}


def chain_graph(model: Any, dtype: np.dtype) -> Any:
    """Of a fitted StructuredSVM over chains: input `X` (length, features), outputs `label` (length,) and `score`."""
    from onnx import TensorProto, checker, helper, numpy_helper

    structure = model.structure_
    for besides, given in (("types", structure.edge_types), ("features", structure.edge_features)):
        if given:
            raise TypeError(
                "to_onnx takes chains of one input, their features; "
                f"this one has {besides} of edges besides (edge_{besides}=True)."
            )
    labels = label_constant(structure.labels_)
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    constants: dict[str, Any] = chain_weights(structure, model.w_, dtype)
    forward, backward = forth(helper, kind, constants.pop("pair")), back(helper, len(labels))
    whole: dict[str, Any] = {"zero": np.int64(0), "one": np.int64(1), "axis": np.zeros(1, np.int64), "column": np.array([-1, 1])}
    constants |= whole | {
        "labels": labels,
        "nothing": np.zeros(len(labels), dtype),
        "unit": np.ones((), dtype),
        "flat": np.array([-1]),
    }
    reverse: dict[str, Any] = {"scan_input_directions": [1], "scan_output_directions": [1]}
    nodes = [
        helper.make_node("MatMul", ["X", "coef"], ["products"]),
        helper.make_node("Add", ["products", "bias"], ["biased"]),
        helper.make_node("Shape", ["X"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["length"]),
        helper.make_node("Range", ["zero", "length", "one"], ["positions"]),
        helper.make_node("Sub", ["length", "one"], ["end"]),
        *at_one_place(helper, "first", "zero", kind),
        *at_one_place(helper, "last", "end", kind),
        helper.make_node("Add", ["biased", "first_part"], ["with_first"]),
        helper.make_node("Add", ["with_first", "last_part"], ["unary"]),
        helper.make_node("Sub", ["unit", "first_column"], ["later"]),
        helper.make_node("Scan", ["nothing", "unary", "later"], ["best", "steps"], body=forward, num_scan_inputs=2),
        helper.make_node("ReduceMax", ["best", "axis"], ["score"], keepdims=0),
        helper.make_node("ArgMax", ["best"], ["last_code"], axis=0, keepdims=1),
        helper.make_node("Scan", ["last_code", "steps"], ["before", "codes"], body=backward, num_scan_inputs=1, **reverse),
        helper.make_node("Reshape", ["codes", "flat"], ["code_list"]),
        helper.make_node("Gather", ["labels", "code_list"], ["label"], axis=0),
    ]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("X", kind, ["length", int(structure.n_features_)])],
        [
            helper.make_tensor_value_info(
                "label", getattr(TensorProto, KINDS_OF_LABELS[labels.dtype.kind.replace("O", "U")]), [None]
            ),
            helper.make_tensor_value_info("score", kind, []),
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    found = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    checker.check_model(found)
    return found


def chain_weights(structure: Chain, w: np.ndarray, dtype: np.dtype) -> dict[str, Any]:
    """Features by labels, biases, those of the ends, and pairs of labels."""
    K, d = len(structure.labels_), structure.n_features_
    table = vectors.unpack(structure.unflatten(w), K).astype(dtype)
    ends, pair = table[d + 1 : d + 3] if structure.first_last_bias else np.zeros((2, K), dtype), table[-K:]
    if structure.rules_ is not None:
        rules = np.maximum(structure.rules_, vectors.NEVER).astype(dtype)  # finite in float32, too: zero times it must be zero
        ends, pair = ends + rules[:PAIRS], pair + rules[PAIRS:]
    return {"coef": table[:d], "bias": table[d], "first": ends[0], "last": ends[1], "pair": pair}


def label_constant(labels: np.ndarray) -> np.ndarray:
    if labels.dtype.kind not in KINDS_OF_LABELS:
        raise ValueError(f"ONNX knows labels that are integers, booleans or texts; these are {labels.tolist()[:3]}.")
    return labels.astype(object) if labels.dtype.kind == "U" else labels.astype(np.int64 if labels.dtype.kind in "iu" else bool)


def at_one_place(helper: Any, name: str, place: str, kind: int) -> list[Any]:
    """Rows of zeros, but for one."""
    return [
        helper.make_node("Equal", ["positions", place], [f"{name}_here"]),
        helper.make_node("Cast", [f"{name}_here"], [f"{name}_number"], to=kind),
        helper.make_node("Reshape", [f"{name}_number", "column"], [f"{name}_column"]),
        helper.make_node("Mul", [f"{name}_column", name], [f"{name}_part"]),
    ]


def forth(helper: Any, kind: int, pair: np.ndarray) -> Any:
    """From the best scores of sequences that end with each label to those one position longer, and where they came from. At the
    first position `later` is zero: there is nothing before it."""
    from onnx import TensorProto, numpy_helper

    nodes = [
        helper.make_node("Reshape", ["scores", "upright"], ["standing"]),
        helper.make_node("Mul", ["pair", "later"], ["followed"]),
        helper.make_node("Add", ["standing", "followed"], ["reached"]),
        helper.make_node("ReduceMax", ["reached", "first_axis"], ["highest"], keepdims=0),
        helper.make_node("Add", ["highest", "here"], ["scores_out"]),
        helper.make_node("ArgMax", ["reached"], ["step"], axis=0, keepdims=0),
    ]
    K = len(pair)
    value = helper.make_tensor_value_info
    constants = {"pair": pair, "upright": np.array([-1, 1]), "first_axis": np.zeros(1, np.int64)}
    return helper.make_graph(
        nodes,
        "forth",
        [value("scores", kind, [K]), value("here", kind, [K]), value("later", kind, [1])],
        [value("scores_out", kind, [K]), value("step", TensorProto.INT64, [K])],
        [numpy_helper.from_array(held, name) for name, held in constants.items()],
    )


def back(helper: Any, K: int) -> Any:
    """The label of a position, and that of the one before it."""
    from onnx import TensorProto

    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Identity", ["code"], ["found"]),
        helper.make_node("Gather", ["step", "code"], ["code_out"], axis=0),
    ]
    return helper.make_graph(
        nodes,
        "back",
        [value("code", TensorProto.INT64, [1]), value("step", TensorProto.INT64, [K])],
        [value("code_out", TensorProto.INT64, [1]), value("found", TensorProto.INT64, [1])],
    )
