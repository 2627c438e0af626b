"""Where the duals of examples live that are not in memory: by row number, in an array while that is small, else in a file.

The file has no name (on POSIX), so that nothing of it is left whatever becomes of the process, and it is sparse: rows whose duals
were never other than zero take no space. Only the part that is read or written is mapped, for as long as that takes.
"""

import mmap
import tempfile
from collections.abc import Iterator

import numpy as np

PAGE = 1 << 16  # rows that are mapped together; a page of any row is a multiple of what the system maps


class DualStore:
    """`width` float64 numbers for each of `n_rows` examples, zero at first; in memory if they fit into `memory` bytes."""

    def __init__(self, n_rows: int, width: int, memory: float):
        self.n_rows, self.width = n_rows, width
        self.table: np.ndarray | None = None
        if n_rows * width * 8 <= memory:
            self.table = np.zeros((n_rows, width))
        else:
            self.file = tempfile.TemporaryFile(prefix="maxmargin-")  # noqa: SIM115 - it lives as long as the store
            pages = -(-n_rows // PAGE)
            self.file.truncate(pages * PAGE * width * 8)

    @property
    def on_disk(self) -> bool:
        return self.table is None

    def read(self, rows: np.ndarray) -> np.ndarray:
        """The duals of these rows, (rows, width)."""
        if self.table is not None:
            return self.table[rows]
        result = np.empty((rows.size, self.width))
        for page, here in self._pages(rows):
            with self._mapped(page) as mapped:
                result[here] = self._view(mapped)[rows[here] - page * PAGE]
        return result

    def write(self, rows: np.ndarray, duals: np.ndarray) -> None:
        if self.table is not None:
            self.table[rows] = duals
            return
        for page, here in self._pages(rows):
            with self._mapped(page) as mapped:
                self._view(mapped)[rows[here] - page * PAGE] = duals[here]

    def nonzero(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows whose duals are not all zero, and these; a part of the store at a time."""
        found: list[tuple[np.ndarray, np.ndarray]] = []
        for first in range(0, self.n_rows, PAGE):
            rows = np.arange(first, min(first + PAGE, self.n_rows))
            duals = self.read(rows)
            some = duals.any(axis=1)
            found.append((rows[some], duals[some]))
        rows, duals = zip(*found, strict=True)
        return np.concatenate(rows), np.concatenate(duals)

    def close(self) -> None:
        if self.table is None:
            self.file.close()
        self.table = np.zeros((0, self.width))

    def _pages(self, rows: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Each page that holds some of the rows, and which of them."""
        page_of = rows // PAGE
        for page in np.unique(page_of).tolist():
            yield page, np.flatnonzero(page_of == page)

    def _mapped(self, page: int) -> mmap.mmap:
        length = PAGE * self.width * 8
        return mmap.mmap(self.file.fileno(), length, offset=page * length)

    def _view(self, mapped: mmap.mmap) -> np.ndarray:
        return np.frombuffer(mapped, np.float64).reshape(PAGE, self.width)
