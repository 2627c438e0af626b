"""A source that is one file, or one Python object: what formats derive."""

import os
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ...utils.threads import read_ahead
from .base import Source
from .blocks import WIDEST, Block, LabelLists, RawBlock, Scan, SourceChangedError, checksum, indicator, widened
from .options import SourceOptions
from .scan import Scanner

# Columns that indices may name where `n_features` is not given: as many in any file, and as many for each byte of it. Models have
# a weight for each column. 2^24 are those of hashed features.
COLUMNS, COLUMNS_A_BYTE = 1 << 24, 4


class FileSource(Source):
    """A source that is one file, or one Python object: what formats derive.

    `files` are watched for changes. `side_files` holds arrays in files of their own, with an entry for each row: "y", "weight".
    """

    columns_of_x: dict[str, str] | None = None  # of tables: the names of the columns of X, and what they are
    told_by_files = True  # whether files and options say what is read; else the checksums of the scan do

    def __init__(self, name: str, files: Sequence[Path], options: SourceOptions, side_files: dict[str, Any] | None = None):
        super().__init__()
        self.name, self.options, self._side_files = name, options, side_files or {}
        watched = [*files, *(array.path for array in self._side_files.values())]
        self._stamps = [(path, stamp(path)) for path in watched]
        self.file_bytes = sum(size for _, (size, _) in self._stamps[: len(files)])  # of all files, where this is one of several
        self._first_rows = [0]  # of each block and one beyond
        self._sums: list[int] = []
        self._tally = Scanner(self.name, options, self._place)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def n_features(self) -> int:
        return self.options.n_features or self.scan().n_features

    @property
    def most_features(self) -> int:
        """One more than the largest index that sparse rows may have."""
        return self.options.n_features or min(max(COLUMNS, COLUMNS_A_BYTE * self.file_bytes), WIDEST)

    def _beyond(self) -> str:
        """What an error says of an index that is not below `most_features`."""
        if self.options.n_features is not None:
            return f"too large for n_features={self.options.n_features}"
        most = self.most_features
        return f"too large for {self.file_bytes} bytes of data; give n_features if there are more than {most} features"

    @property
    def multilabel(self) -> bool:
        self.scan()
        return self._tally.multilabel

    @property
    def label_range(self) -> tuple[float, float] | None:
        self.scan()
        return self._tally.range

    @property
    def n_labels(self) -> int | None:
        self.scan()
        return self._tally.n_labels if self._tally.multilabel else None

    def check_unchanged(self) -> None:
        for path, before in self._stamps:
            if stamp(path) != before:
                raise SourceChangedError(
                    f"{path} has changed since it was opened (its size or its time is another); open the source again."
                )

    def _identity(self) -> Any:
        """Files by name, size and time, or a checksum of each block; and the options."""
        if self.told_by_files:
            return [(path.name, *found) for path, found in self._stamps], self.options.identity()
        return self.scan(), self._first_rows, self._sums, self._tally.state(), str(self.dtype), self.options.identity()

    @abstractmethod
    def _raw_blocks(self, first: int, stop: int | None) -> Generator[RawBlock]:
        """Blocks first ... stop - 1 of the file; in the scan all, (0, None). The cuts are the same every time."""

    def _cuts(self) -> Iterable[int]:
        """After the scan: the numbers of the blocks at which reading can begin, 0 among them."""
        return range(len(self._sums))

    def _place(self, block: int, row: int) -> str:
        """Where a row of a block stands, for messages."""
        return f"row {self._first_rows[block] + row}"

    def _scan(self) -> Scan:
        self._first_rows, self._sums, self._tally = [0], [], Scanner(self.name, self.options, self._place)
        with closing(read_ahead(self._raw_blocks(0, None))) as raw_blocks:
            for raw in raw_blocks:
                raw = self._with_side_files(raw)
                self._tally.add(len(self._sums), raw)
                self._first_rows.append(self._first_rows[-1] + raw.X.shape[0])
                self._sums.append(checksum(raw, self.options.n_jobs))
                del raw
        for array in self._side_files.values():
            array.check_length(self._first_rows[-1])
        return self._tally.finish(self._first_rows[-1])

    def _runs(self) -> list[Callable[[], Iterator[Block]]]:
        return [partial(self._run, first, stop) for first, stop in pairwise([*self._cuts(), len(self._sums)])]

    def _run(self, first: int, stop: int) -> Generator[Block]:
        k = first
        try:
            for raw in self._raw_blocks(first, stop):
                if k == stop:
                    raise self._differs(k)
                raw = self._with_side_files(raw, k)
                if not self._same(k, raw):
                    raise self._differs(k)
                yield self._block(k, raw)
                k += 1
                del raw
        except SourceChangedError:
            raise
        except OSError:
            self.check_unchanged()  # the likely reason, if it holds
            raise
        except ValueError as error:  # what the scan has read without one
            self.check_unchanged()
            raise SourceChangedError(f"{self} was fine in its first pass and is not now: {error}") from error
        if k < stop:
            raise self._differs(k)

    def _same(self, k: int, raw: RawBlock) -> bool:
        """Whether block k is what it was in the scan."""
        return checksum(raw, self.options.n_jobs) == self._sums[k]

    def _differs(self, k: int) -> SourceChangedError:
        return SourceChangedError(
            f"{self} gives other data than in its first pass, from row {self._first_rows[k]} on; open the source again."
        )

    def _with_side_files(self, raw: RawBlock, block: int | None = None) -> RawBlock:
        """A raw with the labels and weights that lie in files of their own."""
        if not self._side_files:
            return raw
        first = self._first_rows[-1 if block is None else block]
        last = first + raw.X.shape[0]
        return raw._replace(**{field: array.part(first, last) for field, array in self._side_files.items()})

    def _block(self, k: int, raw: RawBlock) -> Block:
        y = raw.y
        if self._tally.multilabel:
            y = indicator(y, self._tally.n_labels)
        elif isinstance(y, LabelLists):
            y = y.values
        rows = np.arange(self._first_rows[k], self._first_rows[k + 1])
        return Block(rows, widened(raw.X, self.n_features), y, raw.weight, raw.group)


def stamp(path: Path) -> tuple[int, int]:
    """The size and the time of a file."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise SourceChangedError(f"{path} cannot be opened any more: {error.strerror}.") from None
    return found.st_size, found.st_mtime_ns
