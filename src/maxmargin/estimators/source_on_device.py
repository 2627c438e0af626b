"""Sources with `device=`: their rows on the device where it has room for them, else in host memory, else read in every pass."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..data.sources.blocks import Block
from ..data.streamed import outgrows
from ..data.streamed_source import SourceMatrix, fits_host
from ..data.tensors import DeviceMatrix, device_of, library
from ..problems.blocked import stacked
from .by_block import check_finite_rows, labels_of_block
from .on_device import moved_to


class SourceSamples(NamedTuple):
    """The rows of a source for a device, and all its labels and weights."""

    X: DeviceMatrix
    y: Any
    weight: np.ndarray | None


def samples_on_device(source: Any, device: Any, dtype: Any) -> SourceSamples:
    """One pass over a source, which checks it; rows are kept where there is room for them. `dtype` is the parameter."""
    torch, wanted = library(), device_of(device)
    count, features = (int(each) for each in source.scan()[:2])
    dtype = np.dtype(source.dtype if dtype is None else dtype)
    nbytes, kind = count * features * dtype.itemsize, getattr(torch, dtype.name)
    if wanted.type == "cuda" and not outgrows(nbytes, wanted):
        there = torch.empty((count, features), dtype=kind, device=wanted)
        return SourceSamples(DeviceMatrix(there), *read_into(there, source, device))
    if fits_host(nbytes):
        held = np.empty((count, features), dtype)
        labels = read_into(torch.from_numpy(held), source, device)
        return SourceSamples(moved_to(device, held), *labels)
    labels = read_into(None, source, device)
    return SourceSamples(SourceMatrix(torch.empty((0, features), dtype=kind), source, wanted, count), *labels)


def read_into(rows: Any, source: Any, device: Any) -> tuple[Any, np.ndarray | None]:
    """All labels and weights by a pass, and what the rows hold in this tensor; None: nowhere."""
    labels, weights, weighed, done = [], [], False, 0
    for block in source.blocks():
        check_block(block, source, device, done)
        if rows is not None:
            rows[done : done + block.rows.size] = library().as_tensor(block.X)
        done += block.rows.size
        labels.append(labels_of_block(block))
        weighed = weighed or block.weight is not None
        weights.append(np.ones(block.rows.size) if block.weight is None else np.asarray(block.weight, np.float64))
    return stacked(labels), np.concatenate(weights) if weighed else None


def check_block(block: Block, source: Any, device: Any, done: int) -> None:
    """Refuse rows that no device takes."""
    if sp.issparse(block.X):
        raise ValueError(
            f"device={device!r} is for dense rows, and {source} is sparse: leave device out, and it is read on the processor."
        )
    if not np.array_equal(block.rows, np.arange(done, done + block.rows.size)):
        raise ValueError(
            f"{source} gives other rows after row {done}: with device= they must come in the order of their numbers."
        )
    check_finite_rows(block.X, block.rows)
