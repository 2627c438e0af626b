"""Dense rows of a source that neither a device nor host memory has room for: every pass reads them again, block by block.

A thread reads the next block while one is worked on. With an order, blocks come as the source deals them for a seed, which the
order gives, and the rows of each as the order has them: the same order is the same way through the rows.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .table import table_of
from .tensors import DeviceMatrix, TensorBlock, TensorTable, library

# Part of the host memory that is free that rows of a source may take as a whole. By guess, 2026-11-17.
WHOLE_SOURCE = 0.5
AVAILABLE = "/proc/meminfo", "MemAvailable:"  # where Linux says it
LIMIT, TAKEN_OF_LIMIT = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"


@dataclass(frozen=True)
class SourceMatrix(DeviceMatrix):
    """Checked rows of a source and the device that works on them; the tensor has their dtype and width, and no rows."""

    source: Any = None
    place: Any = None
    count: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.count, int(self.tensor.shape[1])

    @property
    def device(self) -> Any:
        return self.place


class SourceTable(TensorTable):
    """Rows of a source, worked on block by block on a device."""

    resident = False
    X: SourceMatrix

    def like(self, X: Any) -> TensorTable:
        found = table_of(X, self.bias)
        assert isinstance(found, TensorTable)
        return found

    def read(self, seed: int | None = None) -> Iterator[tuple[Any, Any]]:
        """The numbers of the rows of each block, on the device, and what they hold, in host memory."""
        torch, source = library(), self.X.source
        with closing(source.blocks() if seed is None else source.blocks(seed, shuffle_rows=False)) as blocks:
            for block in blocks:
                yield torch.as_tensor(block.rows, device=self.device), torch.as_tensor(block.X, dtype=self.tensor.dtype)

    def blocks(self, size: int = 1 << 16) -> Iterator[TensorBlock]:
        start = 0
        for _, held in self.read():
            for part in held.split(size):
                yield TensorBlock(part.to(self.device), self.bias, start, start + len(part))
                start += len(part)

    def visits(self, order: Any, size: int, dtype: Any) -> Iterator[tuple[Any, Any]]:
        """As of any table, but rows come as they are read."""
        if order is None:
            yield from super().visits(None, size, dtype)
            return
        if not order.numel():
            return
        place = order.new_full((self.shape[0],), -1)
        place[order] = library().arange(order.numel(), device=order.device)
        for rows, held in self.read(int(order[0])):
            chosen = library().nonzero(place[rows] >= 0).flatten()
            if not chosen.numel():
                continue
            there = held.to(self.device)
            for part in chosen[place[rows[chosen]].argsort()].split(size):
                yield rows[part], there.index_select(0, part).to(dtype)


@table_of.register
def _(X: SourceMatrix, bias: float = 0.0, sparse_below: float = 0.0) -> SourceTable:
    return SourceTable(X, bias)


def fits_host(nbytes: int) -> bool:
    """Whether rows of so many bytes may be held in host memory as a whole."""
    return nbytes <= WHOLE_SOURCE * room_of_host()


def room_of_host() -> int:
    """Bytes of host memory that are free, within what a container may have; half of all memory where the system says no more
    than that, and none where it says nothing."""
    if (told := Path(AVAILABLE[0])).exists():
        found = 1024 * next(int(line.split()[1]) for line in told.read_text().splitlines() if line.startswith(AVAILABLE[1]))
        limit = Path(LIMIT).read_text().strip() if Path(LIMIT).exists() else "max"
        return found if limit == "max" else min(found, int(limit) - int(Path(TAKEN_OF_LIMIT).read_text()))
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return 0
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
