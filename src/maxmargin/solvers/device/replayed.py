"""Blocks of rows as one command to a GPU: the kernels of a block are recorded once and then replayed, for a GPU does them faster
than Python tells it to.

Recorded are addresses: what a block changes is changed in place, and nothing in it may wait for the device.
"""

from collections.abc import Callable
from typing import Any

from ...data.tensors import library

EAGER = 2  # blocks that are done as usual first: kernels are compiled and libraries made ready by them


class Replayed:
    """A block of `size` rows of a tensor, recorded. `work(rows, X)` does one."""

    def __init__(self, X: Any, size: int, dtype: Any, work: Callable[[Any, Any], None]):
        torch = library()
        self.key = X.data_ptr(), size, dtype
        self.rows = torch.zeros(size, dtype=torch.int64, device=X.device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(X.device), torch.cuda.graph(self.graph):
            work(self.rows, X.index_select(0, self.rows).to(dtype))

    def __call__(self, rows: Any) -> None:
        self.rows.copy_(rows)
        self.graph.replay()
