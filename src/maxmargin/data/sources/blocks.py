"""What is read from a source: raw blocks as a format gives them, blocks as they are used."""

from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import scipy.sparse as sp

from ...utils.threads import in_threads

WIDEST = 2**31 - 2  # features and labels: their numbers fit into 32 bits
PIECE = 1 << 20  # bytes whose checksum one thread computes. By guess, 2026-11-17
NO_GROUP = -(2**62)  # of a row of text without qid, where others have one


class SourceChangedError(ValueError):
    """A source gives other data than it did in its first pass."""


def no_array(source) -> TypeError:
    """What NumPy, and by it scikit-learn's scalers and searches, get to hear of a source."""
    return TypeError(
        f"{source} is a source, which is read in blocks and is no array: only maxmargin's own fit, predict and score take it. To "
        "scale, use standardize=True, source.map(transformer), or in a pipeline maxmargin.BlockTransformer(transformer)."
    )


class Block(NamedTuple):
    """Some rows: their numbers, which are the same in every pass; X (C order or CSR); labels (a CSR indicator matrix for
    multi-label sources), weights and groups, None where there are none."""

    rows: np.ndarray
    X: Any
    y: Any = None
    weight: np.ndarray | None = None
    group: np.ndarray | None = None


class Scan(NamedTuple):
    """What the first pass found. `labels` are the different labels in order (multi-label: the numbers of the indicator's
    columns); None without labels, and where there are more than 65,536 different ones."""

    n_rows: int
    n_features: int
    labels: np.ndarray | None


class LabelLists(NamedTuple):
    """Any number of labels for each row, as text and list columns have them."""

    values: np.ndarray
    indptr: np.ndarray


class RawBlock(NamedTuple):
    """A block as a format reads it: X is as wide as was needed, labels may be lists."""

    X: Any
    y: Any = None
    weight: np.ndarray | None = None
    group: np.ndarray | None = None


def arrays_of(part) -> list[np.ndarray]:
    if part is None:
        return []
    if isinstance(part, LabelLists):
        return [part.values, part.indptr]
    return [part.data, part.indices, part.indptr] if sp.issparse(part) else [part]


def pieces_of(raw: RawBlock) -> list[memoryview]:
    """The bytes of a raw block, in pieces that do not depend on who reads them."""
    found = []
    for part in raw:
        for array in arrays_of(part):
            if array.size:
                held = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
                found += [held[start : start + PIECE] for start in range(0, len(held), PIECE)]
    return found


def checksum(raw: RawBlock, n_jobs: int = 1) -> int:
    """Of everything in a raw block, the same on any number of threads. At 2 GB/s it costs less than any parser, and it reads the
    block ahead of its use."""
    shapes = repr([None if part is None else part.shape for part in (raw.X, raw.weight)]).encode()
    sums = in_threads(crc32, pieces_of(raw), n_jobs)
    return crc32(np.array(sums, "<u4").tobytes(), crc32(shapes))


def widened(X, width: int):
    """A CSR matrix with as many columns as the whole source; its arrays are shared."""
    if X.shape[1] == width:
        return X
    return sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


def indicator(y, columns: int) -> sp.csr_matrix:
    """Labels as a matrix of zeros and ones with sorted indices."""
    if isinstance(y, LabelLists):
        indices = y.values.astype(np.int32)
        result = sp.csr_matrix((np.ones(indices.size), indices, y.indptr), shape=(y.indptr.size - 1, columns))
    elif sp.issparse(y):
        result = sp.csr_matrix(y, dtype=np.float64)
    elif y.ndim == 2:
        result = sp.csr_matrix(np.asarray(y, np.float64))
    else:
        return indicator(LabelLists(y, np.arange(y.size + 1, dtype=np.int32)), columns)
    result.sort_indices()
    return widened(result, columns)


def shuffled(block: Block, seed: int) -> Block:
    """The rows of a block in another order, always the same one for a seed and a block."""
    order = np.random.default_rng([seed, int(block.rows[0])]).permutation(block.rows.size)
    return part_of(block, order)


def part_of(block: Block, chosen: np.ndarray) -> Block:
    """Some rows of a block."""
    y, weight, group = (None if part is None else part[chosen] for part in (block.y, block.weight, block.group))
    return Block(block.rows[chosen], block.X[chosen], y, weight, group)
