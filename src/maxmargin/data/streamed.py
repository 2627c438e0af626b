"""Tables in host memory whose rows go to a device by pieces: for X that the device has no room for.

While a piece is worked on, the next one is on its way. A GPU fetches the numbers itself from memory that is pinned: an array is
pinned where it lies, for as long as its table is there; a memory map cannot be, so threads copy each piece to a pinned buffer.
Rows are visited piece by piece, pieces in random order, the rows of each in random order.
"""

import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from mmap import mmap
from typing import Any

import numpy as np

from ..utils.threads import in_threads, spans, thread_count
from .table import table_of
from .tensors import DeviceMatrix, TensorBlock, TensorTable, library, no_room, room_of

PIECE_BYTES = 1 << 28  # of a piece that is sent. 10.5 GB from host memory, H200: nothing else was tried, 2026-11-17.
BUFFERS = 2
READ_ONLY = 8  # cudaHostRegisterReadOnly
# Part of the room on a device that X may take as a whole: duals and tables of a block need the rest. By guess, 2026-11-17.
WHOLE_X = 0.6


@dataclass(frozen=True)
class HostMatrix(DeviceMatrix):
    """Checked samples in host memory, as a tensor that shares it, and the device that works on them."""

    place: Any = None
    mapped: bool = False  # whether it is the memory map of a file

    @property
    def device(self) -> Any:
        return self.place


def outgrows(nbytes: int, device: Any) -> bool:
    """Whether an X of so many bytes should stay in host memory."""
    return device.type == "cuda" and nbytes > WHOLE_X * room_of(device)


def from_a_file(X: Any) -> bool:
    """Whether an array is a memory map, or a part of one."""
    while isinstance(X, np.ndarray) and not isinstance(X, np.memmap):
        X = X.base
    return isinstance(X, np.memmap | mmap)


def pin_in_place(X: HostMatrix, owner: Any) -> bool:
    """Pin the memory of samples until their owner is gone; whether that was possible."""
    if X.tensor.is_pinned():
        return True
    array = X.tensor.numpy()
    if X.mapped or not array.flags.c_contiguous:
        return False
    runtime = library().cuda.cudart()
    if int(runtime.cudaHostRegister(array.ctypes.data, array.nbytes, READ_ONLY)) != 0:
        return False
    weakref.finalize(owner, unpin, array)
    return True


def unpin(array: np.ndarray) -> None:
    library().cuda.cudart().cudaHostUnregister(array.ctypes.data)


class Sender:
    """Sends pieces of a tensor in host memory to a GPU, one ahead of those that are worked on, on a stream of its own."""

    def __init__(self, matrix: Any, device: Any, rows: int, pinned: bool):
        self.torch, self.matrix, self.device = library(), matrix, device
        shape, self.cuda = (min(rows, len(matrix)), matrix.shape[1]), self.torch.cuda
        try:
            self.there = [self.torch.empty(shape, dtype=matrix.dtype, device=device) for _ in range(BUFFERS)]
        except self.cuda.OutOfMemoryError:
            raise no_room(f"{BUFFERS} pieces of X, {shape[0]} rows each", device) from None
        self.staged = None if pinned else [self.torch.empty(shape, dtype=matrix.dtype, pin_memory=True) for _ in range(BUFFERS)]
        self.stream = self.cuda.Stream(device)
        self.sent, self.used = ([self.cuda.Event() for _ in range(BUFFERS)] for _ in range(2))
        self.threads, self.helper = thread_count(-1), ThreadPoolExecutor(1)
        weakref.finalize(self, self.helper.shutdown, wait=False)

    def send(self, k: int, start: int, stop: int) -> None:
        """Put piece k on its way: what was in its buffer is no longer needed when the device comes to it."""
        place, source = k % BUFFERS, self.matrix[start:stop]
        if self.staged is not None:
            self.sent[place].synchronize()
            source = self.filled(self.staged[place], start, stop)
        with self.cuda.device(self.device), self.cuda.stream(self.stream):
            self.stream.wait_event(self.used[place])
            self.there[place][: stop - start].copy_(source, non_blocking=True)
            self.sent[place].record(self.stream)

    def filled(self, buffer: Any, start: int, stop: int) -> Any:
        """A pinned copy of these rows, by several threads."""
        source, target = self.matrix.numpy(), buffer.numpy()

        def copy(part: tuple[int, int]) -> None:
            target[part[0] : part[1]] = source[start + part[0] : start + part[1]]

        in_threads(copy, spans(stop - start, self.threads), self.threads)
        return buffer[: stop - start]

    def pieces(self, cuts: Sequence[tuple[int, int]]) -> Iterator[Any]:
        """The rows of each cut, on the device; a piece is gone when the one after the next is asked for."""
        current = self.cuda.current_stream(self.device)
        for each in self.used:  # whoever worked on these buffers before has told the device so
            each.record(current)
        ahead: Future | None = self.helper.submit(self.send, 0, *cuts[0]) if cuts else None
        for k, (start, stop) in enumerate(cuts):
            assert ahead is not None
            ahead.result()
            ahead = self.helper.submit(self.send, k + 1, *cuts[k + 1]) if k + 1 < len(cuts) else None
            current.wait_event(self.sent[k % BUFFERS])
            yield self.there[k % BUFFERS][: stop - start]
            self.used[k % BUFFERS].record(current)
        if ahead is not None:
            ahead.result()


class StreamedTable(TensorTable):
    """Samples in host memory, worked on by pieces on a device."""

    resident = False

    def __init__(self, X: HostMatrix, bias: float = 0.0):
        super().__init__(X, bias)
        self._sender: Sender | None = None
        self._sends = X.device.type == "cuda"
        self._pinned = self._sends and pin_in_place(X, self)

    @property
    def piece_rows(self) -> int:
        return max((PIECE_BYTES >> self.halved) // (self.tensor.element_size() * self.shape[1]), 1)

    def smaller(self) -> bool:
        self._sender = None
        return super().smaller()

    def like(self, X: Any) -> "StreamedTable":
        return StreamedTable(X, self.bias)

    def ready(self) -> int:
        """The rows of a piece, for which the device has room."""
        while self._sender is None and self._sends:
            try:
                self._sender = Sender(self.tensor, self.device, self.piece_rows, self._pinned)
            except MemoryError:
                if not self.smaller():
                    raise
        return self.piece_rows

    def sent(self, cuts: Sequence[tuple[int, int]]) -> Iterator[Any]:
        """The rows of each cut, on the device."""
        if self._sender is None:
            return (self.tensor[start:stop].to(self.device) for start, stop in cuts)
        return self._sender.pieces(cuts)

    def blocks(self, size: int = 1 << 16) -> Iterator[TensorBlock]:
        n, size = self.shape[0], min(size, self.ready())
        cuts = [(start, min(start + size, n)) for start in range(0, n, size)]
        for (start, stop), X in zip(cuts, self.sent(cuts)):
            yield TensorBlock(X, self.bias, start, stop)

    def arranged(self, order: Any) -> Any:
        """Rows of a piece together, pieces as the first of their rows come."""
        piece = order // self.piece_rows
        first = piece.new_full((self.pieces,), order.numel())
        first.scatter_reduce_(0, piece, library().arange(order.numel(), device=order.device), "amin")
        return order[first[piece].argsort(stable=True)]

    @property
    def pieces(self) -> int:
        return -(-self.shape[0] // self.piece_rows)

    def visits(self, order: Any, size: int, dtype: Any) -> Iterator[tuple[Any, Any]]:
        """As of any table; rows of `order` are arranged."""
        if order is None:
            yield from super().visits(None, size, dtype)
            return
        rows, n = self.ready(), self.shape[0]
        which, counts = library().unique_consecutive(order // rows, return_counts=True)
        ends = [0, *np.cumsum(counts.cpu().numpy()).tolist()]
        cuts = [(k * rows, min((k + 1) * rows, n)) for k in which.tolist()]
        for (begin, end), (start, _), X in zip(pairwise(ends), cuts, self.sent(cuts)):
            for part in order[begin:end].split(size):
                yield part, X.index_select(0, part - start).to(dtype)


@table_of.register
def _(X: HostMatrix, bias: float = 0.0, sparse_below: float = 0.0) -> StreamedTable:
    return StreamedTable(X, bias)
