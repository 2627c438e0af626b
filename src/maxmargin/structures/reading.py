"""Reading what users give: lists of samples, features, labels and costs, each refused in a sentence that names the sample."""

from collections.abc import Mapping, Sequence
from numbers import Integral

import numpy as np
import scipy.sparse as sp

from ..data.matrices import checked_matrix, numbers
from ..data.mistakes import cost_rows, quoted, shown, trouble, uneven
from ..data.ones import rows_of_ones
from ..data.rows import Indicators
from .encoded.statistics import starts

GATHERED = 2**18  # entries of features that are stacked at a time. By guess, 2026-11-17

# ---- samples -------------------------------------------------------------------------------------------------


def check_lists(X, y) -> None:
    """X, and y where it is given, are lists of the same length."""
    for name, given in (("X", X), ("y", y)):
        if given is None and name == "y":
            continue
        if isinstance(given, str) or not hasattr(given, "__len__") or sp.issparse(given):
            raise ValueError(f"{name} must be a list with an entry for each sample; got {type(given).__name__}.")
    if y is not None and len(X) != len(y):
        raise ValueError(f"X has {len(X)} samples, y has {len(y)}.")
    if len(X) == 0:
        raise ValueError("There are no samples: X is empty.")


def is_count(value, least: int = 1) -> bool:
    """Whether a value is an integer of at least `least`."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def checked_cost(given, labels: np.ndarray) -> np.ndarray:
    """The loss of a node by true label and guess; without `given` 1 for every wrong label."""
    K = len(labels)
    if given is None:
        return 1.0 - np.eye(K)
    if isinstance(given, Mapping):
        given = cost_rows(given, labels.tolist(), "labels")
    try:
        cost = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"cost must be a matrix of numbers of shape ({K}, {K}): {uneven(given) or error}.") from None
    if cost.shape != (K, K):
        raise ValueError(f"cost must have shape ({K}, {K}), a row and a column for each label; got {cost.shape}.")
    if not np.all(np.isfinite(cost)) or np.any(cost < 0) or np.any(np.diag(cost) != 0):
        raise ValueError("cost must be finite and not negative, with a zero diagonal.")
    return cost


def label_factors(given, labels: list, mass: np.ndarray) -> np.ndarray:
    """The factor of `class_weight` on each label; `mass` says how often each is true. Labels that a dict leaves out have 1."""
    if isinstance(given, str):
        return np.divide(mass.sum(), len(labels) * mass, out=np.zeros(len(labels)), where=mass > 0)
    unknown = [label for label in given if label not in labels]
    if unknown:
        raise ValueError(f"class_weight names {quoted(unknown[0])}, which is not among the labels {shown(labels)}.")
    factors = numbers("class_weight", [given.get(label, 1.0) for label in labels])
    if np.any(factors < 0) or not np.any(factors > 0):
        raise ValueError("class_weight must hold finite numbers >= 0, at least one of them positive.")
    return factors


# ---- features ------------------------------------------------------------------------------------------------


def numeric(features, which: str, sequence: bool = False):
    """An ndarray or a CSR matrix of real numbers, of any number of dimensions; `sequence`: rows are positions of a sequence."""
    given = features
    if not sp.issparse(features):
        try:
            features = np.asarray(features)
            if features.dtype == object:
                features = features.astype(np.float64)
        except (TypeError, ValueError):
            reason = trouble(given, sequence) or "an entry is something else"
            raise ValueError(f"{which} is not an array of numbers with rows of one length: {reason}.") from None
    elif features.format != "csr" and features.ndim == 2:
        features = features.tocsr()
    if features.dtype.kind not in "fiub":
        raise ValueError(f"{which} must hold real numbers; {trouble(given, sequence) or f'its dtype is {features.dtype}'}.")
    return features


def floating(dtype) -> np.dtype:
    """The dtype that kernels read: float32 stays, everything else becomes float64."""
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def stacked_nodes(features: list, taken: np.ndarray, start: np.ndarray, merged: bool = True):
    """The rows of all samples below each other, row p being the taken[p]-th; `merged`: each column once in a row."""
    dtype = floating(np.result_type(*{part.dtype for part in features}))
    filled = [part for part in features if part.shape[0]]  # empty sequences need not say how many features they have not
    if filled and all(sp.issparse(part) for part in filled):
        found = stacked_rows(filled, taken, dtype, merged)
        if found is not None:
            return sp.csr_array(found, shape=(taken.size, filled[0].shape[1]))
    features = filled or features[:1]
    start = start[np.concatenate([[True], np.diff(start) > 0])]
    if not any(sp.issparse(part) for part in features):
        result = np.empty((int(start[-1]), features[0].shape[1]), dtype)
        for first, last, part in zip(start[:-1].tolist(), start[1:].tolist(), features):
            result[first:last] = part[taken[first:last] - first]
        return result
    sparse = [part if sp.issparse(part) else sp.csr_array(part) for part in features]
    return checked_matrix(sp.vstack(sparse, format="csr", dtype=dtype))[taken]


def stacked_rows(
    features: list, taken: np.ndarray, dtype: np.dtype, merged: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """As `gathered_rows`, which takes several times the memory of its result, for so few samples at a time that it is little."""
    rows, entries = starts([part.shape[0] for part in features]), starts([part.data.size for part in features])
    kind = _index_kind(int(entries[-1]), features[0].shape[1])
    data, indices, indptr = np.empty(entries[-1], dtype), np.empty(entries[-1], kind), np.zeros(taken.size + 1, kind)
    first = 0
    while first < len(features):
        last = max(int(np.searchsorted(entries, entries[first] + GATHERED, side="right")) - 1, first + 1)
        here, at = slice(int(rows[first]), int(rows[last])), slice(int(entries[first]), int(entries[last]))
        found = gathered_rows(features[first:last], taken[here] - here.start, dtype, merged)
        if found is None:
            return None
        data[at], indices[at], indptr[here.start + 1 : here.stop + 1] = found[0], found[1], found[2][1:] + kind(at.start)
        first = last
    return data, indices, indptr


def _index_kind(entries: int, width: int) -> type[np.signedinteger]:
    """One to compile for, wherever it will do."""
    return np.int32 if max(entries, width) <= np.iinfo(np.int32).max else np.int64


def gathered_rows(
    features: list, taken: np.ndarray, dtype: np.dtype, merged: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The data, indices and indptr of the same, for CSR matrices that are in order, as nearly all are, in a few passes: to stack
    a sentence must not take longer than to decode it. None for others."""
    found = rows_in_order(features, merged)
    if found is None:
        return None
    counts, first, indices = found
    data = features[0].data if len(features) == 1 else np.concatenate([part.data for part in features])
    counts = counts[taken]
    kind = _index_kind(indices.size, features[0].shape[1])
    indptr = np.zeros(counts.size + 1, kind)
    np.cumsum(counts, out=indptr[1:])
    at = np.arange(indices.size, dtype=kind)
    at += np.repeat((first[taken] - indptr[:-1]).astype(kind, copy=False), counts)
    return data[at].astype(dtype, copy=False), indices[at].astype(kind, copy=False), indptr


def rows_in_order(features: list, merged: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The sizes of the rows of CSR matrices, where each begins among the entries of all, and the columns of these; None unless
    columns are within the matrices, and rise in each row. Rows need not be `merged` where nothing but their scores is wanted."""
    for part in features:
        indptr = part.indptr
        if indptr.size != part.shape[0] + 1 or indptr[0] != 0 or not indptr[-1] == part.indices.size == part.data.size:
            return None
    lengths, indices = [part.indptr[1:] - part.indptr[:-1] for part in features], features[0].indices
    counts, first = lengths[0], features[0].indptr[:-1]
    if len(features) > 1:
        counts, indices = np.concatenate(lengths), np.concatenate([part.indices for part in features])
        first = np.cumsum(counts) - counts
    if counts.min() < 0 or (indices.size and not 0 <= indices.min() <= indices.max() < features[0].shape[1]):
        return None
    if not merged:
        return counts, first, indices
    rising = indices[1:] > indices[:-1]
    rising[first[(first > 0) & (first < indices.size)] - 1] = True
    return (counts, first, indices) if rising.all() else None


def indicator_rows(features: list, taken: np.ndarray, merged: bool = True) -> Indicators | None:
    """The rows of CSR matrices all of whose entries are 1, row p being the taken[p]-th: in the user's memory where the columns of
    one matrix lie after those of the other, as those of `SequenceVectorizer` do. None for others."""
    filled = [part for part in features if part.shape[0]]
    if not filled or not all(sp.issparse(part) and (part.data == 1.0).all() for part in filled):
        return None
    entries, width = starts([part.data.size for part in filled]), filled[0].shape[1]
    kind = _index_kind(int(entries[-1]), width)
    indices = joined_memory([part.indices for part in filled], kind)
    shared, counts, first = indices is not None, [], 0
    indices = indices if indices is not None else np.empty(int(entries[-1]), kind)
    while first < len(filled):  # so few at a time that what is made of them is small
        last = max(int(np.searchsorted(entries, entries[first] + GATHERED, side="right")) - 1, first + 1)
        found = rows_in_order(filled[first:last], merged)
        if found is None:
            return None
        counts.append(found[0])
        if not shared:
            indices[entries[first] : entries[last]] = found[2]
        first = last
    begins = starts(np.concatenate(counts))
    ends = np.stack([begins[taken], begins[taken + 1]], axis=1).astype(kind)
    return rows_of_ones(indices, ends, width)


def joined_memory(arrays: list[np.ndarray], kind: type) -> np.ndarray | None:
    """The memory of arrays of this dtype as one, where each lies behind the one before it; else None."""
    whole = arrays[0].base
    if not isinstance(whole, np.ndarray) or whole.dtype != kind or whole.ndim != 1 or not whole.flags.c_contiguous:
        return None
    begin = at = arrays[0].__array_interface__["data"][0]
    for array in arrays:
        if array.base is not whole or array.dtype != kind or array.__array_interface__["data"][0] != at:
            return None
        at += array.nbytes
    first = (begin - whole.__array_interface__["data"][0]) // whole.itemsize
    return whole[first : first + (at - begin) // whole.itemsize]


def check_finite(matrix, spot) -> None:
    """Refuse NaN and infinity; `spot(row)` says where a row comes from."""
    values = matrix.data if sp.issparse(matrix) else matrix
    with np.errstate(over="ignore", invalid="ignore"):
        fine = np.isfinite(values.sum(dtype=np.float64))
    if fine or np.isfinite(values).all():  # the sum says it for nearly all matrices, without an array of flags
        return
    if sp.issparse(matrix):
        row = np.searchsorted(matrix.indptr, np.flatnonzero(~np.isfinite(values))[0], side="right") - 1
    else:
        row = np.flatnonzero(~np.isfinite(values).all(axis=1))[0]
    raise ValueError(f"{spot(int(row))} NaN or infinity.")


# ---- labels --------------------------------------------------------------------------------------------------


def distinct_labels(labels: Sequence, which: str) -> dict:
    """The distinct labels, in the order in which they come."""
    try:
        found: dict = dict.fromkeys(labels)
    except TypeError:
        bad = next(label for label in labels if not _hashable(label))
        raise ValueError(f"{which} holds {quoted(bad)}, which cannot be a label: it is not hashable.") from None
    for label in found:
        if label is None or label != label:  # NaN is not itself
            raise ValueError(f"{which} holds {quoted(label)}, which cannot be a label.")
    return found


def _hashable(label) -> bool:
    try:
        hash(label)
    except TypeError:
        return False
    return True


def ordered_labels(labels: list) -> list:
    labels = [label.item() if isinstance(label, np.generic) else label for label in labels]
    try:
        return sorted(labels)
    except TypeError:  # labels that cannot be compared stay as they came
        return labels


def label_array(labels: list) -> np.ndarray:
    """Labels as an array that can be indexed by their numbers; an array of objects where NumPy would change them."""
    if all(isinstance(label, str) for label in labels) or all(type(label) in (int, bool, float) for label in labels):
        array = np.array(labels)
        if array.tolist() == labels:
            return array
    result = np.empty(len(labels), object)
    for k, label in enumerate(labels):
        result[k] = label
    return result

