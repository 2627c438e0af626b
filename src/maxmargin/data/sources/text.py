"""Text files as sources: cut into runs of whole lines, plain or packed, with a cache of what was parsed on request."""

import gzip
import lzma
import warnings
import zlib
from collections.abc import Generator, Iterable
from contextlib import closing, suppress
from itertools import accumulate
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from ...utils.threads import read_ahead
from .blocks import NO_GROUP, LabelLists, RawBlock, Scan, SourceChangedError
from .lines import PACKED, BinaryFile, TextBuffers, cut, opened_text, reread
from .one_file import FileSource
from .options import SourceOptions
from .scan import Scanner
from .side_files import side_files_of
from .svmlight import BEYOND, REASONS, ParsedRows, TextError, line_and_column, parsed
from .text_cache import BlockCache, CacheError, CacheFile, CacheWriter

# ---- the source ----------------------------------------------------------------------------------------------


class TextSource(FileSource):
    """A text file, plain or packed. Blocks of plain text are found again by their offsets; packed text can only be read from its
    beginning, so its blocks come in the order of the file unless there is a cache of them."""

    def __init__(self, path: Path, options: SourceOptions):
        super().__init__(str(path), [path], options, side_files_of(path, weight=options.weight))
        self.path = path
        self.packed = path.suffix.lower() in PACKED
        self._ranges: list[tuple[int, int, int]] = []  # offset, length and lines before, of each block
        self._cache = BlockCache.of(path, options)
        self._stored: CacheFile | None = None
        self._writer: CacheWriter | None = None  # while a scan writes the cache

    @property
    def dtype(self) -> np.dtype:
        return self.options.dtype or np.dtype(np.float64)

    def _scan(self) -> Scan:
        if self._cache is None:
            return super()._scan()
        self._stored = self._cache.find()
        if self._stored is not None:
            try:
                if self._stored.found["width"] <= self.most_features:
                    return self._remembered() if not self._side_files else super()._scan()
            except CacheError as error:
                warnings.warn(f"{error} It is written anew.", stacklevel=4)
            self._stored = None  # the text itself tells where it is wrong
        with self._cache.writing() as writer:
            self._writer = writer
            try:
                found = super()._scan()
            finally:
                self._writer = None
            self.check_unchanged()
            self._stored = writer.finish(self._ranges, self._tally.state())
        return found

    def _remembered(self) -> Scan:
        """What the scan that wrote the cache has found."""
        assert self._stored is not None
        self._ranges = self._stored.ranges
        self._sums = [block[1] for block in self._stored.blocks]
        self._first_rows = [0, *accumulate(block[2] for block in self._stored.blocks)]
        self._tally = Scanner(self.name, self.options, self._place)
        self._tally.restore(self._stored.found)
        return self._tally.finish(self._first_rows[-1])

    def _cuts(self) -> Iterable[int]:
        return [0] if self.packed and self._stored is None else super()._cuts()

    def _raw_blocks(self, first: int, stop: int | None) -> Generator[RawBlock]:
        if self._stored is not None:
            try:
                for raw in self._stored.raw_blocks(first, stop):
                    yield raw
                    first += 1
                    del raw
                return
            except CacheError as error:
                if stop is None:  # the scan knows what to do
                    raise
                warnings.warn(f"{error} It is removed, and the text is parsed.", stacklevel=2)
                self._forget_cache()
        if stop is None:
            self._ranges = []
        for text, _, rows in self._parsed(first, stop):
            del text
            raw = as_raw_block(rows)
            if stop is None and self._writer is not None:
                self._writer.add(raw)
            yield raw
            del raw, rows

    def _forget_cache(self) -> None:
        assert self._stored is not None
        with suppress(OSError):  # it may not be ours to remove
            self._stored.path.unlink()
        self._stored = None

    def _same(self, k: int, raw: RawBlock) -> bool:
        """A block of the cache was compared with its checksum when it was read."""
        return (self._stored is not None and not self._side_files) or super()._same(k, raw)

    def _parsed(self, first: int, stop: int | None) -> Generator[tuple[np.ndarray, int, ParsedRows]]:
        """Runs of text with the lines before them and their rows; those without rows are left out."""
        known = None if stop is None else self._ranges[first:stop]
        with opened_text(self.path) as file, closing(self._texts(file, known)) as runs:
            before = 0
            try:
                for k, (text, offset) in enumerate(runs):
                    if known is not None:
                        before = known[k][2]
                    try:
                        rows, lines = parsed(
                            text, self.options.zero_based, self.most_features, self.dtype, self.options.n_jobs
                        )
                    except TextError as error:
                        line, column = line_and_column(text, error.at)
                        reason = f"the index is {self._beyond()}" if error.reason == REASONS[BEYOND] else error.reason
                        raise ValueError(f"{self.path}, line {before + line}, column {column}: {reason}.") from None
                    if rows.starts.size:
                        if known is None:
                            self._ranges.append((offset, text.size, before))
                        yield text, before, rows
                    before += lines
                    del text, rows
            except TextError as error:  # of `cut`: a line too long
                raise ValueError(f"{self.path}, line {before + 1}, column 1: {error.reason}.") from None
            except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
                raise ValueError(f"{self.path} is truncated or damaged behind line {before}: {error}.") from None

    def _texts(self, file: BinaryFile, known: list[tuple[int, int, int]] | None) -> Generator[tuple[np.ndarray, int]]:
        """Runs of text, each with its offset; where several threads parse one, the next is read meanwhile. A run is gone when
        the next one is asked for."""
        room = TextBuffers().room
        runs = cut(file, self.options.block_bytes, room) if known is None else reread(file, known, self.path, room)
        return read_ahead(runs) if self.options.n_jobs > 1 else runs

    def _place(self, block: int, row: int) -> str:
        if self._stored is not None or block >= len(self._ranges):
            return super()._place(block, row)
        for k, (text, before, rows) in enumerate(self._parsed(0, block + 1)):
            if k == block:
                line, column = line_and_column(text, int(rows.starts[row]))
                return f"line {before + line}, column {column}"
        raise SourceChangedError(f"{self.path} has changed while it was read; open the source again.")


def as_raw_block(rows: ParsedRows) -> RawBlock:
    width = int(rows.indices.max()) + 1 if rows.indices.size else 0
    X = sp.csr_matrix((rows.values, rows.indices, rows.indptr), shape=(rows.starts.size, width))
    X.has_sorted_indices = X.has_canonical_format = True
    return RawBlock(X, LabelLists(rows.labels, rows.label_indptr), group=rows.qids if np.any(rows.qids != NO_GROUP) else None)


def open_file(path: Path, options: SourceOptions) -> TextSource:
    options.refuse(path, label="labels stand at the beginning of each line", features="text has no columns to choose from")
    return TextSource(path, options)
