"""NumPy files: `.npy`, memory-mapped block by block, and `.npz` with arrays X and y as `numpy.savez` writes them, or with a CSR
matrix as `scipy.sparse.save_npz` does."""

import math
import struct
import zipfile
from collections.abc import Generator, Iterable
from contextlib import ExitStack
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..mistakes import nearest, shown
from .blocks import WIDEST, RawBlock, SourceChangedError
from .iterables import canonical
from .one_file import FileSource
from .options import SourceOptions
from .side_files import ONE_HEADER, is_side_file, mapped, side_files_of, sound

CSR = {"data", "indices", "indptr", "shape", "format"}  # the arrays that scipy.sparse.save_npz writes


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
        if not matrix.shape[0]:
            raise ValueError(f"{path} holds no rows.")
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
            fields = self.stored.names
            raise ValueError(f"{name} names {given!r}{nearest(given, fields)}; the fields of {self.path} are {shown(fields)}.")
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
    """Rows of a matrix X or of a CSR matrix; labels and weights are the arrays y and sample_weight, others, or files beside it.
    Arrays that are not compressed are mapped; compressed ones can only be read from their beginning, so the blocks come in the
    order of the file then."""

    def __init__(self, path: Path, options: SourceOptions):
        options.refuse(path, features="all columns of X are features")
        given = {"y": options.label, "weight": options.weight}
        super().__init__(str(path), [path], options, side_files_of(path, **{k: v for k, v in given.items() if is_side_file(v)}))
        self.path = path
        with opened(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            self.sparse = {*names} >= CSR
            if not self.sparse and "X" not in names:
                raise ValueError(
                    f"{path} holds {shown(sorted(names)) or 'nothing'}; it must hold X (and y), as numpy.savez(path, X=X, y=y) "
                    "writes them, or a CSR matrix as scipy.sparse.save_npz writes it."
                )
            self.members = {name: Member(path, archive, name) for name in (("data", "indices", "indptr") if self.sparse else "X")}
            self.own = {
                field: Member(path, archive, name)
                for field, usual in (("y", "y"), ("weight", "sample_weight"))
                if (name := self._array(field, given[field], usual, names)) is not None
            }
            self.n, self.width = self._csr_shape(archive) if self.sparse else self._shape()
        for field, member in self.own.items():
            if len(member.shape) not in ((1, 2) if field == "y" else (1,)) or member.shape[0] != self.n:
                raise ValueError(f"{path} has {self.n} rows, but its array {member.name} has the shape {member.shape}.")
        if not 0 < self.width <= WIDEST:
            raise ValueError(f"{path} must have from 1 to {WIDEST} columns, it has {self.width}.")
        stored = [self.members["data" if self.sparse else "X"].dtype]
        if stored[0].kind not in "fiub":
            raise ValueError(f"{path} must hold real numbers, not {stored[0]}.")
        self._dtype = options.dtype or np.dtype(np.float32 if stored[0] in (np.float16, np.float32) else np.float64)
        size = sum(member.size for member in self.members.values())
        self.step = max(1, int(options.block_bytes // (size / max(self.n, 1) + 1)))

    def _array(self, field: str, given: Any, usual: str, names: list[str]) -> str | None:
        """The name of the array of labels or weights, if there is one in the file."""
        if given is None or is_side_file(given):
            return usual if given is None and usual in names else None
        if isinstance(given, str) and given in names:
            return given
        what = "label" if field == "y" else field
        raise ValueError(
            f"{what} must be the path of a .npy file or the name of an array in {self.path}, which holds {shown(names)}; got "
            f"{given!r}{nearest(given, names)}."
        )

    def _shape(self) -> tuple[int, int]:
        """Of X."""
        X = self.members["X"]
        if len(X.shape) != 2:
            raise ValueError(f"X in {self.path} must be a matrix, its shape is {X.shape}.")
        if X.by_columns and X.offset is None:
            raise ValueError(
                f"X in {self.path} is stored by columns and compressed, so that its rows cannot be read one after another; save "
                "numpy.ascontiguousarray(X)."
            )
        return X.shape[0], X.shape[1]

    def _csr_shape(self, archive: zipfile.ZipFile) -> tuple[int, int]:
        kind, shape = (Member(self.path, archive, name).values(archive) for name in ("format", "shape"))
        if kind.ravel().tolist() not in ([b"csr"], ["csr"]):
            raise ValueError(f"{self.path} holds a matrix of format {kind.ravel().tolist()}; only CSR can be read by rows.")
        data, indices, indptr = (self.members[name] for name in ("data", "indices", "indptr"))
        integers = all(array.dtype.kind in "iu" for array in (indices, indptr, shape))
        if not integers or shape.shape != (2,) or indptr.shape != (shape[0] + 1,):
            raise ValueError(f"{self.path} is not a valid CSR matrix: its arrays do not belong together.")
        if len(data.shape) != 1 or indices.shape != data.shape:
            raise ValueError(
                f"{self.path} is not a valid CSR matrix: data and indices must have one length, their shapes are "
                f"{data.shape} and {indices.shape}."
            )
        return int(shape[0]), int(shape[1])

    @property
    def dtype(self) -> np.dtype:
        return self._dtype

    @property
    def mapped(self) -> bool:
        return all(member.offset is not None for member in (*self.members.values(), *self.own.values()))

    def _said_rows(self) -> int:
        return self.n

    def _cuts(self) -> Iterable[int]:
        return super()._cuts() if self.mapped else [0]

    def _raw_blocks(self, first: int, stop: int | None) -> Generator[RawBlock]:
        if stop is None:
            self._check_sums()
        last = -(-self.n // self.step) if stop is None else stop
        with ExitStack() as stack:
            arrays = {name: stack.enter_context(MemberReader(member)) for name, member in self.members.items()}
            own = {field: stack.enter_context(MemberReader(member)) for field, member in self.own.items()}
            for k in range(first, last):
                begin, end = k * self.step, min((k + 1) * self.step, self.n)
                if self.sparse:
                    X = self._csr_rows(arrays, begin, end)
                else:
                    X = np.ascontiguousarray(arrays["X"].part(begin, end), dtype=self.dtype)
                beside = {field: reader.part(begin, end) for field, reader in own.items()}
                yield RawBlock(X, beside.get("y"), beside.get("weight"))
                del X, beside

    def _check_sums(self) -> None:
        """Compare arrays that will be mapped with their checksums; others are compared where they are read."""
        if any(member.offset is not None for member in (*self.members.values(), *self.own.values())):
            with opened(self.path) as archive, sound(self.path):
                wrong = archive.testzip()
            if wrong is not None:
                raise ValueError(f"{self.path} is truncated or damaged: the checksum of {wrong} is another.")

    def _csr_rows(self, arrays: dict[str, "MemberReader"], begin: int, end: int) -> sp.csr_matrix:
        ends = arrays["indptr"].part(begin, end + 1).astype(np.int64)
        entries = self.members["data"].shape[0]
        if np.any(np.diff(ends, prepend=0) < 0) or ends[-1] > entries or (begin == 0 and ends[0] != 0):
            raise ValueError(f"{self.path} is not a valid CSR matrix: indptr must start at 0, not fall and end at {entries}.")
        low, high = int(ends[0]), int(ends[-1])
        values, columns = arrays["data"].part(low, high).astype(self.dtype), arrays["indices"].part(low, high)
        if columns.size and not 0 <= columns.min() <= columns.max() < self.width:
            raise ValueError(f"{self.path} is not a valid CSR matrix: an index is not within its {self.width} columns.")
        parts = values, columns.astype(np.int32, copy=False), (ends - low).astype(np.int32)
        return canonical(sp.csr_matrix(parts, (end - begin, self.width)), str(self.path))


class Member:
    """One array of a `.npz` file: where its numbers lie if they can be mapped."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, name: str):
        self.path, self.name = path, name
        self.offset: int | None = None
        with sound(path):
            info = archive.getinfo(f"{name}.npy")
            with archive.open(info) as file, ONE_HEADER:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                self.shape, by_columns, self.dtype = read(file)
                header = file.tell()
            if info.compress_type == zipfile.ZIP_STORED:
                with open(path, "rb") as raw:
                    raw.seek(info.header_offset + 26)  # a local header is 30 bytes, a name and extra fields long
                    name_length, extra = struct.unpack("<HH", raw.read(4))
                self.offset = info.header_offset + 30 + name_length + extra + header
        self.by_columns = by_columns and len(self.shape) > 1
        if self.dtype.hasobject:
            raise ValueError(f"The array {name} in {path} holds Python objects, which are not read; save numbers or texts.")
        self.header, self.size = header, math.prod(self.shape) * self.dtype.itemsize
        if info.file_size != self.header + self.size:
            raise ValueError(f"{path} is truncated or damaged: the array {name} is not as long as its shape {self.shape} says.")

    def values(self, archive: zipfile.ZipFile) -> np.ndarray:
        """The whole of a small array."""
        with sound(self.path):
            content = archive.read(f"{self.name}.npy")
            return np.frombuffer(content, self.dtype, math.prod(self.shape), len(content) - self.size).reshape(self.shape)


class MemberReader:
    """Parts of a member, by rows. A compressed one is read forwards only; the last row read is kept, for parts that overlap by
    one."""

    def __init__(self, member: Member):
        self.member = member
        self.at, self.last = 0, np.empty((0, *member.shape[1:]), member.dtype)

    def __enter__(self) -> "MemberReader":
        member = self.member
        if member.offset is None:
            self.archive = opened(member.path)
            with sound(member.path):
                self.file = self.archive.open(f"{member.name}.npy")
                self.file.read(member.header)
        return self

    def __exit__(self, *error) -> None:
        if self.member.offset is None:
            self.file.close()
            self.archive.close()

    def part(self, first: int, last: int) -> np.ndarray:
        member = self.member
        if first == last:
            return self.last[:0]
        if member.offset is not None:
            with sound(member.path):
                array = np.memmap(
                    member.path, member.dtype, "r", member.offset, member.shape, order="F" if member.by_columns else "C"
                )
                return np.array(array[first:last])
        kept = self.at - first  # 1 where parts overlap
        size = (last - self.at) * math.prod(member.shape[1:]) * member.dtype.itemsize
        with sound(member.path):
            read = self.file.read(size)
            if last == member.shape[0]:
                self.file.read(1)  # the end of the array, where its checksum is compared
        if len(read) != size:
            raise ValueError(f"{member.path} is truncated or damaged: the array {member.name} is too short.")
        found = np.frombuffer(read, member.dtype).reshape(-1, *member.shape[1:])
        part = np.concatenate([self.last[len(self.last) - kept :], found])
        self.at, self.last = last, part[-1:].copy()
        return part


def opened(path: Path) -> zipfile.ZipFile:
    with sound(path):
        return zipfile.ZipFile(path)
