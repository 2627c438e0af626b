"""NumPy files: `.npy`, memory-mapped block by block, and `.npz` with a CSR matrix as `scipy.sparse.save_npz` writes it."""

import struct
import zipfile
import zlib
from collections.abc import Generator, Iterable
from contextlib import ExitStack
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .blocks import RawBlock, SourceChangedError
from .iterables import canonical
from .one_file import FileSource
from .options import SourceOptions
from .side_files import ONE_HEADER, is_side_file, mapped, side_files_of

WHOLE = "the whole file has one kind of rows"


def open_file(path: Path, options: SourceOptions) -> FileSource:
    options.refuse(path, zero_based="that is for text", cache="it is binary already")
    return NpySource(path, options) if path.suffix.lower() == ".npy" else NpzSource(path, options)


class NpySource(FileSource):
    """Rows of a matrix, or records of a structured array. Labels and weights are columns, fields or files beside it."""

    def __init__(self, path: Path, options: SourceOptions):
        given = {"y": options.label, "weight": options.weight}
        super().__init__(str(path), [path], options, side_files_of(path, **{k: v for k, v in given.items() if is_side_file(v)}))
        self.path = path
        matrix = mapped(path)
        self.shape, self.stored = matrix.shape, matrix.dtype
        names = matrix.dtype.names
        if matrix.ndim != (1 if names else 2):
            raise ValueError(f"{path} must be a matrix or a structured array with one dimension, its shape is {matrix.shape}.")
        own = {k: v for k, v in given.items() if v is not None and not is_side_file(v)}
        self.own = {field: self._column("label" if field == "y" else field, v) for field, v in own.items()}
        columns = list(names) if names else list(range(matrix.shape[1]))
        if options.features is None:
            self.columns = [column for column in columns if column not in self.own.values()]
        else:
            given_columns = [options.features] if isinstance(options.features, (str, Integral)) else options.features
            self.columns = [self._column("features", v) for v in given_columns]
        if not self.columns:
            raise ValueError(f"{path} has no columns left for X.")
        kinds = [matrix.dtype[c] for c in self.columns] if names else [matrix.dtype]
        bad = [kind for kind in kinds if kind.kind not in "fiub" or kind.shape]
        if bad:
            raise ValueError(f"{path} must hold real numbers, not {bad[0]}.")
        float32 = all(kind in (np.float16, np.float32) for kind in kinds)
        self._dtype = options.dtype or np.dtype(np.float32 if float32 else np.float64)
        row = self.stored.itemsize * (1 if names else matrix.shape[1])
        self.step = max(1, options.block_bytes // max(row, 1))

    @property
    def dtype(self) -> np.dtype:
        return self._dtype

    @property
    def feature_names(self) -> list[str] | None:
        return list(map(str, self.columns)) if self.stored.names else None

    def _said_rows(self) -> int:
        return self.shape[0]

    def _column(self, name: str, given: Any) -> Any:
        """A column by number, or a field by name."""
        if self.stored.names:
            if given in self.stored.names:
                return given
            raise ValueError(f"{name}={given!r} is no field of {self.path}; it has {', '.join(self.stored.names)}.")
        if isinstance(given, Integral) and not isinstance(given, bool) and -self.shape[1] <= given < self.shape[1]:
            return int(given) % self.shape[1]
        raise ValueError(
            f"{name}={given!r} is no column of {self.path}: a number below {self.shape[1]} or a path of a .npy file."
        )

    def _raw_blocks(self, first: int, stop: int | None) -> Generator[RawBlock]:
        last = -(-self.shape[0] // self.step)
        for k in range(first, last if stop is None else stop):
            matrix = mapped(self.path)
            if (matrix.shape, matrix.dtype) != (self.shape, self.stored):
                raise SourceChangedError(f"{self.path} has changed since it was opened; open the source again.")
            yield self._raw_block(matrix[k * self.step : (k + 1) * self.step])
            del matrix

    def _raw_block(self, part: np.ndarray) -> RawBlock:
        if self.stored.names:
            X = np.empty((part.shape[0], len(self.columns)), self.dtype)
            for j, name in enumerate(self.columns):
                X[:, j] = part[name]
            own = {field: np.array(part[column]) for field, column in self.own.items()}
        else:
            chosen = part if len(self.columns) == part.shape[1] else part[:, np.array(self.columns)]
            X = np.array(chosen, dtype=self.dtype, order="C")
            own = {field: np.array(part[:, column]) for field, column in self.own.items()}
        return RawBlock(X, own.get("y"), own.get("weight"))


class NpzSource(FileSource):
    """Rows of a CSR matrix. Members that are not compressed are mapped; compressed ones can only be read from their beginning, so
    the blocks come in the order of the file then."""

    def __init__(self, path: Path, options: SourceOptions):
        options.refuse(path, features=WHOLE)
        super().__init__(str(path), [path], options, side_files_of(path, y=options.label, weight=options.weight))
        self.path = path
        with opened(path) as archive:
            names = set(archive.namelist())
            if not {"data.npy", "indices.npy", "indptr.npy", "shape.npy", "format.npy"} <= names:
                raise ValueError(
                    f"{path} is not a matrix as scipy.sparse.save_npz writes it: it holds {', '.join(sorted(names))}."
                )
            kind = small(archive, "format.npy").item()
            if kind not in (b"csr", "csr"):
                raise ValueError(f"{path} holds a matrix of format {kind!r}; only CSR can be read by rows.")
            self.n, self.width = (int(v) for v in small(archive, "shape.npy"))
            self.members = {name: Member(path, archive, f"{name}.npy") for name in ("data", "indices", "indptr")}
        stored, entries = self.members["data"].dtype, self.members["data"].length
        if stored.kind not in "fiub" or self.members["indptr"].length != self.n + 1:
            raise ValueError(f"{path} is not a valid CSR matrix of real numbers.")
        self._dtype = options.dtype or np.dtype(np.float32 if stored in (np.float16, np.float32) else np.float64)
        row = entries / max(self.n, 1) * (stored.itemsize + 4) + 8
        self.step = max(1, int(options.block_bytes // row))

    @property
    def dtype(self) -> np.dtype:
        return self._dtype

    @property
    def mapped(self) -> bool:
        return all(member.offset is not None for member in self.members.values())

    def _said_rows(self) -> int:
        return self.n

    def _cuts(self) -> Iterable[int]:
        return super()._cuts() if self.mapped else [0]

    def _raw_blocks(self, first: int, stop: int | None) -> Generator[RawBlock]:
        last = -(-self.n // self.step) if stop is None else stop
        with ExitStack() as stack:
            data, indices, indptr = (stack.enter_context(member.reading()) for member in self.members.values())
            for k in range(first, last):
                begin, end = k * self.step, min((k + 1) * self.step, self.n)
                ends = indptr.part(begin, end + 1).astype(np.int64)
                if (
                    np.any(np.diff(ends, prepend=0) < 0)
                    or ends[-1] > self.members["data"].length
                    or (begin == 0 and ends[0] != 0)
                ):
                    raise ValueError(f"{self.path} is not a valid CSR matrix: indptr must start at 0 and not fall.")
                low, high = int(ends[0]), int(ends[-1])
                values, columns = data.part(low, high).astype(self.dtype, copy=False), indices.part(low, high)
                if columns.size and not 0 <= columns.min() <= columns.max() < self.width:
                    raise ValueError(f"{self.path} is not a valid CSR matrix: an index is not within its {self.width} columns.")
                arrays = values, columns.astype(np.int32, copy=False), (ends - low).astype(np.int32)
                X = sp.csr_matrix(arrays, (end - begin, self.width))
                yield RawBlock(canonical(X, str(self.path)))
                del X, arrays, values, columns, ends


class Member:
    """One array of a `.npz` file: where its numbers lie if they can be mapped."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, name: str):
        self.path, self.name = path, name
        info = archive.getinfo(name)
        with archive.open(info) as file:
            self.dtype, self.length = vector(path, file)
            header = file.tell()
        self.offset = None
        if info.compress_type == zipfile.ZIP_STORED:
            with open(path, "rb") as raw:
                raw.seek(info.header_offset + 26)  # a local header is 30 bytes, a name and extra fields long
                name_length, extra = struct.unpack("<HH", raw.read(4))
            self.offset = info.header_offset + 30 + name_length + extra + header

    def reading(self) -> "MemberReader":
        return MemberReader(self)


class MemberReader:
    """Parts of a member. A compressed one is read forwards only; the last entry read is kept, for parts that overlap by one."""

    def __init__(self, member: Member):
        self.member = member
        self.at, self.last = 0, np.empty(0, member.dtype)

    def __enter__(self) -> "MemberReader":
        if self.member.offset is None:
            self.archive = opened(self.member.path)
            self.file = self.archive.open(self.member.name)
            vector(self.member.path, self.file)
        return self

    def __exit__(self, *error) -> None:
        if self.member.offset is None:
            self.file.close()
            self.archive.close()

    def part(self, first: int, last: int) -> np.ndarray:
        member = self.member
        if member.offset is not None:
            entries = np.memmap(member.path, member.dtype, "r", member.offset, (member.length,))
            return np.array(entries[first:last])
        kept = self.at - first  # 1 where parts overlap
        size = (last - self.at) * member.dtype.itemsize
        try:
            read = self.file.read(size)
        except (EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(f"{member.path} is truncated or damaged: {error}.") from None
        if len(read) != size:
            raise ValueError(f"{member.path} is truncated or damaged: {member.name} is too short.")
        part = np.concatenate([self.last[self.last.size - kept :], np.frombuffer(read, member.dtype)])
        self.at, self.last = last, part[-1:].copy()
        return part


def opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path} is truncated or not a .npz file: {error}.") from None


def small(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name) as file, ONE_HEADER:
        return np.lib.format.read_array(file, allow_pickle=False)


def vector(path: Path, file) -> tuple[np.dtype, int]:
    """The dtype and the length of an array of one dimension; the file then stands at its first number."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        with ONE_HEADER:
            shape, _, dtype = read(file)
    except ValueError as error:
        raise ValueError(f"{path} is truncated or damaged: {error}.") from None
    if len(shape) != 1 or dtype.hasobject:
        raise ValueError(f"{path} is not a valid CSR matrix: an array has shape {shape} and dtype {dtype}.")
    return dtype, shape[0]
