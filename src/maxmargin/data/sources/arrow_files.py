"""Parquet and Arrow files. pyarrow is an extra and is imported only when such a file is opened.

Columns of numbers, and columns of lists of one length, are the features of dense rows; two columns of lists, indices and values,
are sparse rows. Parquet is read from row group to row group and Arrow from record batch to record batch, in blocks of bounded
size.
"""

from abc import abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..mistakes import shown
from .base import FileSource
from .blocks import WIDEST, LabelLists, RawBlock
from .iterables import canonical
from .options import SourceOptions

BUFFER = 1 << 16  # bytes read at a time from each column of a row group


def arrow():
    """pyarrow, or one sentence that says how to get it."""
    try:
        import pyarrow
    except ModuleNotFoundError:  # an installed one that cannot be loaded says why itself
        raise ImportError("Parquet and Arrow need pyarrow, which is not installed: pip install 'maxmargin[parquet]'.") from None
    return pyarrow


def open_file(path: Path, options: SourceOptions) -> FileSource:
    arrow()
    options.refuse(path, zero_based="its indices start at 0 always", cache="it is binary already")
    return ParquetSource(path, options) if path.suffix.lower() == ".parquet" else ArrowSource(path, options)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """What pyarrow says about a broken file, as a ValueError that names the file."""
    try:
        yield
    except arrow().lib.ArrowException as error:
        raise ValueError(f"{path} is truncated or damaged: {first_line(error)}.") from None
    except OSError as error:
        if error.errno is not None:  # the system's own, not one of the format
            raise
        raise ValueError(f"{path} is truncated or damaged: {first_line(error)}.") from None


def first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")


class TableSource(FileSource):
    """What both formats share: which columns are what."""

    def __init__(self, path: Path, options: SourceOptions):
        super().__init__(str(path), [path], options)
        self.path = path
        with readable(path):
            schema = self._schema()
        label, features = options.label, options.features
        if not isinstance(label, (str, list, tuple, NoneType)):
            raise ValueError(f"label must be the name of a column of {path} or a list of names, got {label!r}.")
        self.labels = [] if label is None else [label] if isinstance(label, str) else list(label)
        self.one_label = isinstance(label, str)
        if not isinstance(options.weight, (str, NoneType)):
            raise ValueError(f"weight must be the name of a column of {path}, got {type(options.weight).__name__}.")
        self.weights = [] if options.weight is None else [options.weight]
        self.sparse = isinstance(features, Mapping)
        if isinstance(features, Mapping):
            if set(features) != {"indices", "values"}:
                raise ValueError(
                    f'features must be names of columns or {{"indices": column, "values": column}}, got {features!r}.'
                )
            self.features = [features["indices"], features["values"]]
        elif features is not None and not isinstance(features, (str, list, tuple)):
            raise ValueError(f"features must be a list of names of columns of {path}, got {features!r}.")
        elif features is None:
            taken = {*self.labels, *self.weights}
            self.features = [name for name in schema.names if name not in taken]
        else:
            self.features = [features] if isinstance(features, str) else list(features)
        for name in (*self.labels, *self.weights, *self.features):
            if schema.names.count(name) != 1:
                raise ValueError(f"{name!r} is not the name of one column of {path}; it has {', '.join(map(str, schema.names))}.")
        if not self.features:
            raise ValueError(f"{path} has no columns left for X.")
        self._check_kinds(schema)
        kinds = [number_type(path, name, schema.field(name).type) for name in self.features]
        self.listed = [is_list(schema.field(name).type) for name in self.features]
        self.widths: list[int] | None = None  # how many features each of them is, once a block has been read
        narrow = kinds[1:] if self.sparse else kinds
        pa = arrow()
        float32 = all(kind in (pa.float16(), pa.float32()) for kind in narrow)
        self._dtype = options.dtype or np.dtype(np.float32 if float32 else np.float64)
        self.columns = list(dict.fromkeys([*self.features, *self.labels, *self.weights]))

    @property
    def dtype(self) -> np.dtype:
        return self._dtype

    @property
    def feature_names(self) -> list[str] | None:
        """Columns by their names, the entries of a column of lists as name[0], name[1], ...; None of sparse rows."""
        if self.sparse:
            return None
        self.scan()
        assert self.widths is not None
        named = zip(self.features, self.listed, self.widths, strict=True)
        return [f"{name}[{j}]" if listed else name for name, listed, width in named for j in range(width)]

    @abstractmethod
    def _schema(self) -> Any:
        """The columns of the file; each format has its own way to them."""

    def _check_kinds(self, schema) -> None:
        """Where some columns hold no numbers, say which do."""
        fit = [name for name in self.features if is_number(schema.field(name).type)]
        if len(fit) < len(self.features):
            name = next(name for name in self.features if name not in fit)
            raise ValueError(
                f"{self.path}: column {name!r} must hold numbers or lists of numbers to be a feature, not "
                f"{schema.field(name).type}. Name the columns of X, features=[{shown(fit)}], or label={name!r} if it is that."
            )

    def _step(self, rows: int, size: int) -> int:
        """Rows in a block, by the bytes that all of them take when decoded."""
        return max(1, int(self.options.block_bytes // max(size / max(rows, 1), 1)))

    def _raw_block(self, table, first_row: int) -> RawBlock:
        """Of a record batch."""
        by_name = {name: self._whole(table, name, first_row) for name in self.columns}
        X = self._sparse(by_name) if self.sparse else self._dense(by_name, table.num_rows)
        weight = (
            np.asarray(column_numbers(self.path, self.weights[0], by_name[self.weights[0]]), np.float64) if self.weights else None
        )
        return RawBlock(X, self._labels(by_name), weight)

    def _whole(self, table, name: str, first_row: int):
        column = table.column(name)
        if column.null_count:
            row = first_row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise ValueError(f"{self.path}, row {row}: column {name!r} is empty (null).")
        if is_list(column.type) and (entries := column.flatten()).null_count:
            entry = int(np.argmax(entries.is_null().to_numpy(zero_copy_only=False)))
            ends = np.cumsum(column.value_lengths().to_numpy(zero_copy_only=False))
            row = first_row + int(np.searchsorted(ends, entry, side="right"))
            raise ValueError(f"{self.path}, row {row}: a list in column {name!r} holds an empty entry (null).")
        return column

    def _dense(self, by_name: dict[str, Any], rows: int) -> np.ndarray:
        widths = [column_width(self.path, name, by_name[name]) for name in self.features]
        if self.widths is not None and widths != self.widths:
            k = next(k for k, (now, before) in enumerate(zip(widths, self.widths)) if now != before)
            raise ValueError(
                f"{self.path}: the lists of column {self.features[k]!r} must have one length; they have {self.widths[k]} and "
                f"{widths[k]}."
            )
        self.widths = widths
        X = np.empty((rows, sum(widths)), self.dtype)
        for name, end in zip(self.features, accumulate(widths)):
            column = by_name[name]
            values = column.flatten() if is_list(column.type) else column
            part = values.to_numpy(zero_copy_only=False).reshape(rows, -1)
            X[:, end - part.shape[1] : end] = part
        return X

    def _sparse(self, by_name: dict[str, Any]) -> sp.csr_matrix:
        (indptr, indices), (other, values) = (lists(self.path, name, by_name[name]) for name in self.features)
        if not np.array_equal(indptr, other):
            raise ValueError(
                f"{self.path}: columns {self.features[0]!r} and {self.features[1]!r} have lists of different lengths."
            )
        if indices.dtype.kind not in "iu":
            raise ValueError(f"{self.path}: column {self.features[0]!r} must hold lists of integers.")
        limit = self.options.n_features or WIDEST
        bad = indices[(indices < 0) | (indices >= limit)]
        if bad.size:
            raise ValueError(f"{self.path}: column {self.features[0]!r} holds the index {bad[0]}, not from 0 to {limit - 1}.")
        width = int(indices.max()) + 1 if indices.size else 0
        arrays = values.astype(self.dtype), indices.astype(np.int32), indptr.astype(np.int32)
        return canonical(sp.csr_matrix(arrays, (indptr.size - 1, width)), str(self.path))

    def _labels(self, by_name: dict[str, Any]) -> Any:
        if not self.labels:
            return None
        pa = arrow()
        if not self.one_label:
            return sp.csr_matrix(np.column_stack([column_numbers(self.path, name, by_name[name]) for name in self.labels]))
        column = by_name[self.labels[0]]
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if is_list(column.type):
            indptr, values = lists(self.path, self.labels[0], column)
            return LabelLists(values.astype(np.float64), indptr.astype(np.int32))
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            return np.array(column.to_pylist(), dtype=str)
        return column_numbers(self.path, self.labels[0], column)


class ParquetSource(TableSource):
    """Row groups come in any order, the blocks of one row group in the order of the file. Small row groups are read together."""

    def _schema(self):
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path) as file:
            self.metadata_rows = file.metadata.num_rows
            groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
            self.step = self._step(self.metadata_rows, sum(group.total_byte_size for group in groups))
            self.groups: list[list[int]] = []  # row groups that are read together
            rows = self.step
            for k, group in enumerate(groups):
                if rows + group.num_rows > self.step:
                    self.groups.append([])
                    rows = 0
                self.groups[-1].append(k)
                rows += group.num_rows
            return file.schema_arrow

    def _said_rows(self) -> int:
        return self.metadata_rows

    def _cuts(self) -> Iterable[int]:
        return self.starts

    def _raw_blocks(self, first: int, stop: int | None) -> Generator[RawBlock]:
        import pyarrow.parquet as pq

        if stop is None:
            self.starts: list[int] = []  # the first block of each run of row groups
        count, row = 0, self._first_rows[first]
        with readable(self.path), pq.ParquetFile(self.path, buffer_size=BUFFER, pre_buffer=False) as file:
            for groups in self.groups if stop is None else [self.groups[self.starts.index(first)]]:
                start = count
                for batch in file.iter_batches(self.step, row_groups=groups, columns=self.columns, use_threads=False):
                    if batch.num_rows:
                        yield self._raw_block(batch, row)
                        count, row = count + 1, row + batch.num_rows
                    del batch
                if stop is None and count > start:
                    self.starts.append(start)


class ArrowSource(TableSource):
    """Record batches come in any order, and so do the blocks of a large one; those of a compressed one come in the order of the
    file, for it has to be unpacked whole."""

    def _schema(self):
        pa = arrow()
        with pa.memory_map(str(self.path)) as file, pa.ipc.open_file(file) as reader:
            self.batches = reader.num_record_batches
            self.cuts: list[
                tuple[int, int, int, bool]
            ] = []  # of each block: record batch, first row, one beyond the last, mapped
            return reader.schema

    def _batch(self, k: int) -> tuple[Any, bool]:
        """A record batch, and whether it is a view of the file. A new map each time: pages of an old one are memory in use."""
        pa = arrow()
        with pa.memory_map(str(self.path)) as file:
            whole = file.read_buffer()
        batch = pa.ipc.open_file(whole).get_batch(k)
        buffers = [buffer for column in batch.columns for buffer in column.buffers() if buffer is not None and buffer.size]
        return batch, all(whole.address <= buffer.address < whole.address + whole.size for buffer in buffers)

    def _cut(self) -> Iterator[tuple[int, int, int, bool]]:
        self.cuts = []
        for k in range(self.batches):
            batch, mapped = self._batch(k)
            rows, step = batch.num_rows, self._step(batch.num_rows, batch.nbytes)
            del batch
            for row in range(0, rows, step):
                self.cuts.append((k, row, min(row + step, rows), mapped))
                yield self.cuts[-1]

    def _cuts(self) -> Iterable[int]:
        return [block for block, (_, row, _, mapped) in enumerate(self.cuts) if mapped or row == 0]

    def _raw_blocks(self, first: int, stop: int | None) -> Generator[RawBlock]:
        batch: Any = None
        row, held = self._first_rows[first], None
        with readable(self.path):
            for k, start, end, mapped in self._cut() if stop is None else self.cuts[first:stop]:
                if mapped or held != k:
                    (batch, _), held = self._batch(k), k
                raw = self._raw_block(batch.slice(start, end - start), row)
                if mapped:
                    batch = None
                row += end - start
                yield raw
                del raw


def is_list(kind) -> bool:
    types = arrow().types
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def number_type(path: Path, name: str, kind):
    """The type of the numbers of a column of features."""
    if not is_number(kind):
        raise ValueError(f"{path}: column {name!r} must hold numbers or lists of numbers, not {kind}.")
    return kind.value_type if is_list(kind) else kind


def is_number(kind) -> bool:
    """Whether a type is that of numbers, or of lists of them."""
    kind = kind.value_type if is_list(kind) else kind
    types = arrow().types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def column_numbers(path: Path, name: str, column) -> np.ndarray:
    """A column of numbers, as an array of ours: Arrow's own memory may go away with the file."""
    if is_list(column.type):
        raise ValueError(f"{path}: column {name!r} must hold numbers, not {column.type}.")
    number_type(path, name, column.type)
    return np.array(column.to_numpy(zero_copy_only=False))


def lists(path: Path, name: str, column) -> tuple[np.ndarray, np.ndarray]:
    """Where the lists of a column end, from 0 on, and their numbers one after the other."""
    if not is_list(column.type):
        raise ValueError(f"{path}: column {name!r} must hold lists, not {column.type}.")
    values = column.flatten()
    number_type(path, name, column.type)
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return indptr, np.array(values.to_numpy(zero_copy_only=False))


def column_width(path: Path, name: str, column) -> int:
    """How many features a column holds: one, or the length of its lists, if they have one length."""
    if not is_list(column.type):
        return 1
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    if lengths.size and np.any(lengths != lengths[0]):
        raise ValueError(
            f"{path}: the lists of column {name!r} must have one length; they have {lengths.min()} to {lengths.max()}."
        )
    return int(lengths[0]) if lengths.size else 0
