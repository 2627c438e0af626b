"""Tables with named columns: what Parquet, Arrow, CSV and datasets of Arrow share. pyarrow is an extra and is imported only when
such a table is opened.

Columns of numbers, and columns of lists of one length, are the features of dense rows; two columns of lists, indices and values,
are sparse rows. With columns of categories, which `encoding.py` turns into features, rows are sparse too.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...utils.threads import read_ahead
from ..mistakes import first_line, nearest, shown
from .blocks import WIDEST, LabelLists, RawBlock, Scan
from .column_kinds import (
    arrow,
    category_width,
    check_label,
    column_numbers,
    column_width,
    is_list,
    kind_of_feature,
    lists,
    narrow_number,
)
from .column_names import check_same_names
from .encoding import Categories, ColumnCode, Encoding, Place
from .iterables import canonical
from .one_file import FileSource
from .options import SourceOptions

CODED_BYTES = 32  # of an entry of a coded matrix while it is made: its place, its value and copies of both


@contextmanager
def readable(name: str) -> Iterator[None]:
    """What pyarrow says about a broken file, as a ValueError that names the file."""
    try:
        yield
    except (arrow().lib.ArrowException, UnicodeDecodeError) as error:
        raise ValueError(f"{name} is truncated or damaged: {first_line(error)}.") from None
    except OSError as error:
        if error.filename is not None or name in str(error):  # it could not be opened, and says so itself
            raise
        raise ValueError(f"{name} is truncated or damaged: {first_line(error)}.") from None


def row_place(first: int, row: int) -> str:
    return f"row {first + row}"


class TableSource(FileSource):
    """Which columns are what, and how they become rows. A format tells the names and types of its columns (`_schema`) and reads
    some of them block by block (`_tables`)."""

    def __init__(self, name: str, files: Sequence[Path], options: SourceOptions):
        super().__init__(name, files, options)
        with readable(name):
            schema = self._with_partitions(self._schema())
            self._choose(schema)
        self._check_kinds(schema)
        self.widths: list[int] | None = None  # how many features each of them is, once a block has been read
        given = options.categorical
        self._encoding: Encoding | None = given if isinstance(given, Encoding) else None
        float32 = all(narrow_number(schema.field(name).type) for name in self._numbers()) and bool(self._numbers())
        self._dtype = options.dtype or np.dtype(np.float32 if float32 else np.float64)
        self.columns = list(dict.fromkeys([*self.features, *self.labels, *self.weights, *self.groups]))

    # ---- what the columns are -----------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype:
        return self._dtype

    @property
    def feature_names(self) -> list[str] | None:
        """Columns by their names, the entries of a column of lists as name[0], name[1], ..., categories as `Encoding` has them;
        None of sparse rows."""
        if self.sparse:
            return None
        if (encoding := self.encoding) is not None:
            return encoding.feature_names
        self.scan()
        assert self.widths is not None
        codes = [ColumnCode(name, self.kinds[name], width) for name, width in zip(self.features, self.widths, strict=True)]
        return Encoding(tuple(codes)).feature_names

    @property
    def encoding(self) -> Encoding | None:
        if self._encoding is None and {"onehot", "hash"} & {*self.kinds.values()}:
            self._encoding = self._found_encoding()
        return self._encoding

    def encoded(self, encoding: Encoding) -> "TableSource":
        return self if self._encoding == encoding else self._again(encoding)

    @abstractmethod
    def _again(self, encoding: Encoding) -> "TableSource":
        """The same table, its categories encoded so."""

    @abstractmethod
    def _schema(self) -> Any:
        """Names and types of the columns; each format has its own way to them."""

    @abstractmethod
    def _tables(self, first: int, stop: int | None, columns: list[str]) -> Generator[tuple[Any, Place]]:
        """Record batches with these columns, as `_raw_blocks` has its blocks, and where their rows stand."""

    def _with_partitions(self, schema: Any) -> Any:
        """With the columns that stand in the names of folders."""
        pa = arrow()
        for name, value in self.options.partitions:
            if name in schema.names:
                raise ValueError(f"{self} has a column {name!r}, and stands in a folder that is called {name}={value}: drop one.")
            schema = schema.append(pa.field(name, pa.scalar(value).type))
        return schema

    def _choose(self, schema: Any) -> None:
        """The columns by what they are."""
        label, features, weight, group = (getattr(self.options, name) for name in ("label", "features", "weight", "group"))
        if label is not None and not isinstance(label, (str, list, tuple)):
            raise ValueError(f"label must be the name of a column of {self} or a list of names, got {label!r}.")
        self.labels = [] if label is None else [label] if isinstance(label, str) else list(label)
        self.one_label = isinstance(label, str)
        for name, given in (("weight", weight), ("group", group)):
            if given is not None and not isinstance(given, str):
                raise ValueError(f"{name} must be the name of a column of {self}, got {type(given).__name__}.")
        self.weights, self.groups = ([] if given is None else [given] for given in (weight, group))
        self.sparse = isinstance(features, Mapping)
        if isinstance(features, Mapping):
            if set(features) != {"indices", "values"}:
                raise ValueError(
                    f'features must be names of columns or {{"indices": column, "values": column}}, got {features!r}.'
                )
            self.features = [features["indices"], features["values"]]
        elif features is not None and not isinstance(features, (str, list, tuple)):
            raise ValueError(f"features must be a list of names of columns of {self}, got {features!r}.")
        elif features is None:
            taken = {*self.labels, *self.weights, *self.groups}
            self.features = [name for name in schema.names if name not in taken]
        else:
            self.features = [features] if isinstance(features, str) else list(features)
        names = Counter(schema.names)
        chosen = {"label": self.labels, "weight": self.weights, "group": self.groups, "features": self.features}
        for what, name in ((what, name) for what, given in chosen.items() for name in given):
            if name not in names:
                raise ValueError(f"{what} names {name!r}{nearest(name, names)}; the columns of {self} are {shown(names)}.")
            if names[name] > 1:
                raise ValueError(
                    f"{self} has {names[name]} columns of the name {name!r}, which cannot be told apart: rename them, or leave "
                    "them out with features=[...]."
                )
        if not self.features:
            raise ValueError(f"{self} has no columns left for X.")
        if twice := [name for name, count in Counter(self.features).items() if count > 1]:
            raise ValueError(f"features names the column {twice[0]!r} of {self} twice.")

    def _check_kinds(self, schema: Any) -> None:
        """`kinds`: what each column of X is, by its type and by what is asked for; refuse others with the way out."""
        given, types = self.options.categorical, {name: schema.field(name).type for name in schema.names}
        if given is not None and (self.sparse or self.options.n_features is not None):
            other = "sparse rows" if self.sparse else "n_features"
            raise ValueError(f"categorical cannot be given with {other}: the categories of {self} say how wide X is.")
        asked: dict[str, Any] = {}
        if isinstance(given, Encoding):
            check_same_names(self, self.features, "the known encoding has", given.names)
            asked = {code.name: code.kind for code in given.columns}
        elif isinstance(given, Mapping):
            asked = dict(given)
            known = {*self.features}
            if unknown := [name for name in asked if name not in known]:
                raise ValueError(
                    f"categorical names {unknown[0]!r}{nearest(unknown[0], self.features)}; the columns of X of {self} are "
                    f"{shown(self.features)}."
                )
        else:
            asked = dict.fromkeys(self.features, given)
        strictly = isinstance(given, (Mapping, Encoding))  # a column that is named is coded whatever its type is
        self.kinds = {
            name: kind_of_feature(str(self), name, types, asked.get(name), strictly, self.features) for name in self.features
        }
        for name in self.labels:
            check_label(str(self), name, types[name])
        self.columns_of_x = None if self.sparse else self.kinds

    def _numbers(self) -> list[str]:
        """The columns whose types say what dtype X has."""
        return self.features[1:] if self.sparse else [name for name in self.features if self.kinds[name] in ("number", "list")]

    # ---- categories ---------------------------------------------------------------------------------------

    def _found_encoding(self) -> Encoding:
        """By a pass over the columns that have to be seen first: one-hot ones and, for their lengths, lists."""
        names = [name for name in self.features if self.kinds[name] in ("onehot", "list")]
        found = Categories(str(self), [name for name in names if self.kinds[name] == "onehot"])
        widths: dict[str, int] = {}
        if names:
            self.check_unchanged()
            with closing(read_ahead(self._valid_tables(0, None, names))) as tables:
                for table, place in tables:
                    for name in names:
                        column = self._whole(table, name, place)
                        if self.kinds[name] == "onehot":
                            found.add(name, column)
                        else:
                            widths[name] = column_width(str(self), name, column)
            self.check_unchanged()
        codes = []
        for name in self.features:
            kind = self.kinds[name]
            if kind == "onehot":
                codes.append(found.code(name))
            else:
                width = category_width(self.options.categorical, name) if kind == "hash" else widths.get(name, 1)
                codes.append(ColumnCode(name, kind, width))
        if (total := sum(code.width for code in codes)) > WIDEST:
            raise ValueError(f"The columns of {self} are {total} features, more than {WIDEST}; hash some to fewer.")
        return Encoding(tuple(codes), self.options.handle_unknown)

    def _scan(self) -> Scan:
        _ = self.encoding  # found before the first block
        return super()._scan()

    # ---- rows ---------------------------------------------------------------------------------------------

    def _step(self, rows: int, size: int) -> int:
        """Rows in a block, by the bytes that all of them take when decoded."""
        row = max(size / max(rows, 1), 1, CODED_BYTES * len(self.features) if self._codes else 1)
        return max(1, int(self.options.block_bytes // row))

    @property
    def _codes(self) -> bool:
        return bool({"onehot", "hash"} & {*self.kinds.values()})

    def _valid_tables(self, first: int, stop: int | None, columns: list[str]) -> Generator[tuple[Any, Place]]:
        """As `_tables`; offsets and codes of a damaged file that lead out of its memory are refused."""
        for table, place in self._tables(first, stop, columns):
            with readable(str(self)):
                table.validate(full=True)
            yield table, place
            del table

    def _raw_blocks(self, first: int, stop: int | None) -> Generator[RawBlock]:
        for table, place in self._valid_tables(first, stop, self.columns):
            raw = self._raw_block(table, place)
            del table
            yield raw
            del raw

    def _raw_block(self, table: Any, place: Place) -> RawBlock:
        """Of a record batch."""
        by_name = {name: self._whole(table, name, place) for name in self.columns}
        if self.sparse:
            X = self._sparse(by_name, place)
        elif self._encoding is not None:
            self._found_widths(by_name, [code.width if code.kind == "list" else 1 for code in self._encoding.columns])
            X = self._encoding.matrix(by_name, table.num_rows, self.dtype, lambda row: f"{self}, {place(row)}")
        else:
            X = self._dense(by_name, table.num_rows)
        weight = (
            np.asarray(column_numbers(str(self), self.weights[0], by_name[self.weights[0]]), np.float64) if self.weights else None
        )
        group = plain_values(str(self), self.groups[0], by_name[self.groups[0]]) if self.groups else None
        return RawBlock(X, self._labels(by_name), weight, group)

    def _whole(self, table: Any, name: str, place: Place) -> Any:
        pa, partitions = arrow(), dict(self.options.partitions)
        if name in partitions:
            return pa.repeat(partitions[name], table.num_rows)
        column = table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise ValueError(f"{self}, {place(row)}: column {name!r} is empty (null).")
        if is_list(column.type) and (entries := column.flatten()).null_count:
            entry = int(np.argmax(entries.is_null().to_numpy(zero_copy_only=False)))
            ends = np.cumsum(column.value_lengths().to_numpy(zero_copy_only=False))
            row = int(np.searchsorted(ends, entry, side="right"))
            raise ValueError(f"{self}, {place(row)}: a list in column {name!r} holds an empty entry (null).")
        return column

    def _found_widths(self, by_name: dict[str, Any], known: list[int] | None) -> list[int]:
        """How many features each column of X holds; lists are as long as those before."""
        widths = [column_width(str(self), name, by_name[name]) for name in self.features]
        for name, now, before in zip(self.features, widths, widths if known is None else known):
            if now != before:
                raise ValueError(f"{self}: the lists of column {name!r} must have one length; they have {before} and {now}.")
        return widths

    def _dense(self, by_name: dict[str, Any], rows: int) -> np.ndarray:
        self.widths = widths = self._found_widths(by_name, self.widths)
        X = np.empty((rows, sum(widths)), self.dtype)
        for name, end in zip(self.features, accumulate(widths)):
            column = by_name[name]
            values = column.flatten() if is_list(column.type) else column
            part = values.to_numpy(zero_copy_only=False).reshape(rows, -1)
            X[:, end - part.shape[1] : end] = part
        return X

    def _sparse(self, by_name: dict[str, Any], place: Place) -> sp.csr_matrix:
        (indptr, indices), (other, values) = (lists(str(self), name, by_name[name]) for name in self.features)
        if not np.array_equal(indptr, other):
            raise ValueError(f"{self}: columns {self.features[0]!r} and {self.features[1]!r} have lists of different lengths.")
        if indices.dtype.kind not in "iu":
            raise ValueError(f"{self}: column {self.features[0]!r} must hold lists of integers.")
        bad = np.flatnonzero((indices < 0) | (indices >= self.most_features))
        if bad.size:
            row = int(np.searchsorted(indptr, bad[0], side="right")) - 1
            why = "negative" if indices[bad[0]] < 0 else self._beyond()
            raise ValueError(
                f"{self}, {place(row)}: column {self.features[0]!r} holds the index {indices[bad[0]]}, which is {why}."
            )
        width = int(indices.max()) + 1 if indices.size else 0
        arrays = values.astype(self.dtype), indices.astype(np.int32), indptr.astype(np.int32)
        return canonical(sp.csr_matrix(arrays, (indptr.size - 1, width)), str(self))

    def _labels(self, by_name: dict[str, Any]) -> Any:
        if not self.labels:
            return None
        if not self.one_label:
            return sp.csr_matrix(np.column_stack([column_numbers(str(self), name, by_name[name]) for name in self.labels]))
        column = by_name[self.labels[0]]
        if is_list(column.type):
            indptr, values = lists(str(self), self.labels[0], column)
            return LabelLists(values.astype(np.float64), indptr.astype(np.int32))
        return plain_values(str(self), self.labels[0], column)


def plain_values(source: str, name: str, column: Any) -> np.ndarray:
    """Texts or numbers."""
    types = arrow().types
    if types.is_string(column.type) or types.is_large_string(column.type):
        return np.array(column.to_pylist(), dtype=str)
    return column_numbers(source, name, column)


def placed(first: int) -> Callable[[int], str]:
    """Where the rows of a block stand that begins with row `first`."""
    return partial(row_place, first)


def coded_frame(encoding: Encoding, frame: Any) -> sp.csr_matrix:
    """The rows of a data frame of pandas or polars, with the columns of the encoding."""
    pa = arrow()
    table = frame.to_arrow() if hasattr(frame, "to_arrow") else pa.Table.from_pandas(frame, preserve_index=False)
    columns: dict[str, Any] = {}
    types = dict(zip(table.schema.names, table.schema.types))
    for code in encoding.columns:
        kind_of_feature("X", code.name, types, code.kind, True, encoding.names)
        column = table.column(code.name).combine_chunks()
        column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        if column.null_count:
            raise ValueError(
                f"X, row {int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))}: column {code.name!r} is empty."
            )
        columns[code.name] = column
    numbers = [types[code.name] for code in encoding.columns if code.kind in ("number", "list")]
    dtype = np.dtype(np.float32 if numbers and all(map(narrow_number, numbers)) else np.float64)
    return encoding.matrix(columns, table.num_rows, dtype, lambda row: f"X, row {row}")
