"""CSV: a row a line, cut into runs of whole lines as other text is, each parsed by pyarrow.

What a column holds is told by the first megabyte; all numbers are then read as float64. A row is a line: a quoted value that goes
on over the end of a line is refused, for nobody can tell from the middle of such a file where a row begins.
"""

import gzip
import lzma
import re
import zlib
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...utils.threads import in_threads
from ..mistakes import first_line
from .blocks import SourceChangedError
from .column_kinds import arrow, is_number
from .encoding import Encoding, Place
from .lines import PACKED, cut, opened_text, reread
from .one_file import FileSource
from .options import MEGABYTE, SourceOptions
from .svmlight import LEAST_BYTES, NEWLINE, RUNS, TextError, line_spans
from .tables import TableSource

RETURN = ord("\r")
WRONG_COUNT = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
WRONG_VALUE = re.compile(r"In CSV column #(\d+): Row #(\d+): CSV conversion error to (\w+): (?:invalid value '(.*)')?", re.DOTALL)
DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


def open_file(path: Path, options: SourceOptions) -> FileSource:
    arrow()
    options.refuse(path, zero_based="that is for svmlight text", cache="a cache is for svmlight text; write Parquet instead")
    if options.delimiter is None:
        tabs = ".tsv" in [suffix.lower() for suffix in path.suffixes[-2:]]
        options = replace(options, delimiter="\t" if tabs else ",")
    return CsvSource(path, options)


class CsvSource(TableSource):
    """A CSV file, plain or packed. Packed text is read from its beginning only: its blocks come in the order of the file."""

    def __init__(self, path: Path, options: SourceOptions):
        self.path = path
        self.packed = path.suffix.lower() in PACKED
        self._ranges: list[tuple[int, int, int]] = []  # offset, length and lines before, of each block
        super().__init__(str(path), [path], options)

    def _again(self, encoding: Encoding) -> "CsvSource":
        return CsvSource(self.path, replace(self.options, categorical=encoding))

    # ---- columns ------------------------------------------------------------------------------------------

    def _schema(self) -> Any:
        """Names and types, by the first megabyte. A column that is empty there is one of numbers."""
        import pyarrow.csv as csv

        pa = arrow()
        with opened_text(self.path) as file, closing(cut(file, min(self.options.block_bytes, MEGABYTE))) as runs:
            try:
                text, _ = next(runs, (np.empty(0, np.uint8), 0))
            except DAMAGED as error:
                raise ValueError(f"{self.path} is truncated or damaged: {error}.") from None
            spans = lines_of(text)
            if not len(spans):
                raise ValueError(f"{self.path} is empty: there is no line of names, and no row.")
            names = self._names(text[slice(*spans[0])])
            self.names = names
            self.skip = 1 if self.options.header in (None, True) else 0  # lines that are no rows
            sample = text[spans[self.skip, 0] if len(spans) > self.skip else text.size :]
            if not sample.size:
                return pa.schema([(name, pa.float64()) for name in names])
            found = self._read(sample, csv.ConvertOptions(), names)
            if isinstance(found, TextError):
                raise ValueError(self._told(text, sample, 0, found))
        kinds = [pa.float64() if pa.types.is_null(kind) else kind for kind in found.schema.types]
        return pa.schema(list(zip(names, kinds)))

    def _names(self, line: np.ndarray) -> list[str]:
        """Of the columns: in the first line, given, or f0, f1, ..."""
        import pyarrow.csv as csv

        header = self.options.header
        reading = csv.ReadOptions(use_threads=False, autogenerate_column_names=header not in (None, True))
        kinds = csv.ConvertOptions(check_utf8=False)
        try:
            found = csv.read_csv(source_of(line), reading, self._format(), kinds).column_names
        except (arrow().lib.ArrowException, UnicodeDecodeError) as error:
            raise ValueError(f"{self.path}: the first line cannot be read: {first_line(error)}.") from None
        if isinstance(header, list):
            if len(header) != len(found):
                raise ValueError(f"header names {len(header)} columns, the first line of {self.path} has {len(found)} fields.")
            return header
        return list(found)

    def _format(self) -> Any:
        import pyarrow.csv as csv

        quote = {None: '"', "": False}.get(self.options.quote, self.options.quote)
        return csv.ParseOptions(delimiter=self.options.delimiter, quote_char=quote, newlines_in_values=False)

    def _conversion(self, columns: list[str]) -> Any:
        """All numbers as float64, categories as texts, an empty field is a missing value."""
        import pyarrow.csv as csv

        pa = arrow()
        types, elsewhere = {}, dict(self.options.partitions)
        for name in columns:
            kind = self.kinds.get(name)
            if name in elsewhere:
                continue
            if kind in ("onehot", "hash"):
                types[name] = pa.string()
            else:
                found = self._types[name]
                types[name] = pa.float64() if is_number(found) and not pa.types.is_boolean(found) else found
        return csv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )

    def _choose(self, schema: Any) -> None:
        super()._choose(schema)
        self._types = {name: schema.field(name).type for name in (*self.features, *self.labels, *self.weights, *self.groups)}

    # ---- rows ---------------------------------------------------------------------------------------------

    def _cuts(self) -> Iterable[int]:
        return [0] if self.packed else super()._cuts()

    def _tables(self, first: int, stop: int | None, columns: list[str]) -> Generator[tuple[Any, Place]]:
        conversion = self._conversion(columns)
        if stop is None:
            self._ranges = []
        for text, offset, before in self._text(first, stop):
            rows = self._rows(text, offset)
            table = self._table(text, rows, before, conversion)
            if table.num_rows:
                if stop is None:
                    self._ranges.append((offset, text.size, before))
                yield table, LinePlace(rows, text.size - rows.size, before, text)
            del text, rows, table

    def _text(self, first: int, stop: int | None) -> Generator[tuple[np.ndarray, int, int]]:
        """Runs of text, their offsets and the lines before them."""
        known = None if stop is None else self._ranges[first:stop]
        before = 0
        with opened_text(self.path) as file:
            try:
                runs = cut(file, self.options.block_bytes) if known is None else reread(file, known, self.path)
                for k, (text, offset) in enumerate(runs):
                    if known is not None:
                        before = known[k][2]
                    yield text, offset, before
                    before += int(np.count_nonzero(text == NEWLINE))
                    del text
            except TextError as error:  # of `cut`: a line too long
                raise ValueError(f"{self.path}, line {before + 1}: {error.reason}.") from None
            except DAMAGED as error:
                raise ValueError(f"{self.path} is truncated or damaged behind line {before}: {error}.") from None

    def _rows(self, text: np.ndarray, offset: int) -> np.ndarray:
        """A run without the line of names."""
        if offset or not self.skip:
            return text
        spans = lines_of(text)
        return text[spans[1, 0] if len(spans) > 1 else text.size :]

    def _table(self, text: np.ndarray, rows: np.ndarray, before: int, conversion: Any) -> Any:
        """A record batch of the rows of a run, parsed on `n_jobs` threads."""
        pa, jobs = arrow(), self.options.n_jobs
        parts = line_spans(rows, min(jobs * RUNS, rows.size // LEAST_BYTES) if jobs > 1 else 1)
        found = in_threads(lambda part: self._read(rows[slice(*part)], conversion, self.names), parts, jobs)
        for (start, end), one in zip(parts, found):
            if isinstance(one, TextError):
                raise ValueError(self._told(text, rows[start:end], before, one, text.size - rows.size + start))
        table = pa.concat_tables(found).combine_chunks()
        batches = table.to_batches()
        return batches[0] if batches else pa.RecordBatch.from_arrays([[]] * table.num_columns, schema=table.schema)

    def _read(self, text: np.ndarray, conversion: Any, names: list[str]) -> Any:
        """The rows of a run as a table; or a TextError at a row: what is wrong and where comes later."""
        import pyarrow.csv as csv

        count = len(lines_of(text))
        if not count:
            kinds = conversion.column_types
            return arrow().schema([(name, kinds[name]) for name in conversion.include_columns]).empty_table()
        reading = csv.ReadOptions(use_threads=False, column_names=names, block_size=max(text.size + 1, 1 << 10))
        try:
            table = csv.read_csv(source_of(text), reading, self._format(), conversion)
            return table if table.num_rows == count else TextError(count, "its lines cannot be told apart")
        except arrow().lib.ArrowException as error:
            said, reason = str(error), first_line(error)
        if (found := WRONG_COUNT.search(said)) is not None:
            row, expected, got = map(int, found.groups())
            return TextError(row - 1, f"there are {got} fields for {expected} columns")
        if (found := WRONG_VALUE.search(said)) is not None:
            name, value = names[int(found[1])], found[4]
            what = (
                "is not UTF-8 text" if value is None else f"holds {value!r}, which is not a {KIND_WORDS.get(found[3], found[3])}"
            )
            way = f" (categorical={{{name!r}: 'onehot'}} reads texts)" if value is not None else ""
            return TextError(int(found[2]) - 1, f"column {name!r} {what}{way}")
        return TextError(
            0, f"this line or one of the {count - 1} behind it cannot be read ({reason})"
        )

    def _told(self, text: np.ndarray, part: np.ndarray, before: int, error: TextError, start: int | None = None) -> str:
        """What is wrong, with its line. A value that goes on over a line end makes rows that are no lines: that is told first."""
        start = text.size - part.size if start is None else start
        spans = lines_of(part)
        delimiter, quote = self.options.delimiter or ",", '"' if self.options.quote is None else self.options.quote
        row, reason = min(error.at, len(spans) - 1), error.reason
        for k in range(row + 1 if row == error.at else len(spans)) if quote else ():
            if goes_on(part[slice(*spans[k])].tobytes(), delimiter.encode(), quote.encode()):
                row, reason = k, "a quoted value goes on over the end of the line; a row must be one line here (or write Parquet)"
                break
        line = before + 1 + int(np.count_nonzero(text[: start + spans[row, 0]] == NEWLINE))
        return f"{self.path}, line {line}: {reason}."

    def _place(self, block: int, row: int) -> str:
        if block >= len(self._ranges):
            return super()._place(block, row)
        for k, (text, offset, before) in enumerate(self._text(0 if self.packed else block, block + 1)):
            if k == (block if self.packed else 0):
                rows = self._rows(text, offset)
                return LinePlace(rows, text.size - rows.size, before, text)(row)
        raise SourceChangedError(f"{self.path} has changed while it was read; open the source again.")


KIND_WORDS = {"double": "number", "bool": "truth value"}


class LinePlace:
    """The line of a row of a run."""

    def __init__(self, rows: np.ndarray, start: int, before: int, text: np.ndarray):
        self.rows, self.start, self.before, self.text = rows, start, before, text

    def __call__(self, row: int) -> str:
        at = self.start + int(lines_of(self.rows)[row, 0])
        return f"line {self.before + 1 + int(np.count_nonzero(self.text[:at] == NEWLINE))}"


def source_of(text: np.ndarray) -> Any:
    pa = arrow()
    return pa.BufferReader(pa.py_buffer(np.ascontiguousarray(text)))


def lines_of(text: np.ndarray) -> np.ndarray:
    """Where each line begins and where the next one does, of those that are not empty; the text ends with a line end."""
    ends = np.flatnonzero(text == NEWLINE)
    starts = np.concatenate([[0], ends[:-1] + 1])[: ends.size]
    empty = (ends == starts) | ((ends == starts + 1) & (text[starts] == RETURN))
    return np.column_stack([starts, ends + 1])[~empty]


def goes_on(line: bytes, delimiter: bytes, quote: bytes) -> bool:
    """Whether a quoted value of a line has not ended with it."""
    inside, opens = False, True  # whether a quote here begins a value, or goes on with it where it was doubled
    for k in range(len(line)):
        c = line[k : k + 1]
        if inside:
            inside, opens = c != quote, c == quote
        else:
            inside, opens = c == quote and opens, c == delimiter
    return inside
