"""Parsed text kept in a binary file, block by block, so that later passes need no parser.

The file starts with a magic number, then come the arrays of each block, then an index in JSON (what text it was made of, what
the scan of it has found, where blocks lie here and in the text, how large they are, their checksums) and, last, the place of the
index and its checksum. A cache is used only if the size, the time and the SHA-256 of the text are those in the index; each block
is compared with its checksum whenever it is read.
It is written under another name and renamed when complete, so that half a cache is never found.
"""

import json
import os
import struct
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest, sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from .blocks import LabelLists, RawBlock, checksum
from .one_file import stamp
from .options import SourceOptions, is_path

VERSION = 4  # of this format and of the parser: a cache with another one is not used
MAGIC = b"maxmargin blocks\n"
TAIL = struct.Struct("<QQ32s")  # place, length and SHA-256 of the index


class CacheError(Exception):
    """A cache is damaged."""


class BlockCache:
    """Where the cache of a text is, and what it must have been made of."""

    def __init__(self, text: Path, folder: Path, options: SourceOptions):
        self.text = text
        self.made_with = {
            "version": VERSION,
            "zero_based": options.zero_based,
            "dtype": np.dtype(options.dtype or np.float64).name,
            "block_bytes": options.block_bytes,
        }
        key = json.dumps([str(text.resolve()), self.made_with]).encode()
        self.path = folder / f"{text.name}.{sha256(key).hexdigest()[:12]}.blocks"

    @classmethod
    def of(cls, text: Path, options: SourceOptions) -> "BlockCache | None":
        given = options.cache
        if given is None or given is False:
            return None
        if given is not True and not is_path(given):
            raise ValueError(f"cache must be True or a folder, got {given!r}.")
        folder = text.parent if given is True else Path(given)
        if not folder.is_dir():
            raise ValueError(f"cache must be True or a folder; {folder} is not a folder.")
        return cls(text, folder, options)

    def identity(self) -> dict[str, Any]:
        """What tells one text from another."""
        size, time = stamp(self.text)
        with open(self.text, "rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
        return {"size": size, "time": time, "sha256": digest, **self.made_with}

    def find(self) -> "CacheFile | None":
        """The cache, if there is one of this very text."""
        try:
            found = CacheFile(self.path)
        except (CacheError, OSError):
            return None
        size, time = stamp(self.text)
        if (found.made_of.get("size"), found.made_of.get("time")) != (size, time):
            return None
        return found if found.made_of == self.identity() else None

    @contextmanager
    def writing(self) -> Iterator["CacheWriter"]:
        writer = CacheWriter(self.path, self.identity())
        try:
            yield writer
        finally:
            writer.discard()


class CacheWriter:
    """Writes a cache while its text is parsed. A full disk, or a folder that may not be written, is no reason to stop: what was
    written is removed, a warning says so, and parsing goes on."""

    def __init__(self, path: Path, made_of: dict[str, Any]):
        self.path, self.made_of = path, made_of
        self.part = path.with_name(f"{path.name}.{token_hex(4)}.part")
        self.blocks: list[tuple[int, ...]] = []  # place, checksum, rows, entries, labels and groups
        self.file: BinaryIO | None = None
        with self.forgiven():
            self.file = open(self.part, "wb")  # noqa: SIM115 - closed by discard() or finish()
            self.file.write(MAGIC)

    @contextmanager
    def forgiven(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.discard()
            warnings.warn(
                f"The cache {self.path} could not be written ({error.strerror or error}); the text is parsed without it.",
                stacklevel=2,
            )

    def add(self, raw: RawBlock) -> None:
        if self.file is None:
            return
        with self.forgiven():
            group = () if raw.group is None else (raw.group,)
            sizes = raw.X.shape[0], raw.X.nnz, raw.y.values.size, sum(array.size for array in group)
            self.blocks.append((self.file.tell(), checksum(raw), *sizes))
            for array in (raw.X.data, raw.X.indices, raw.X.indptr, *raw.y, *group):
                self.file.write(memoryview(array).cast("B") if array.size else b"")

    def finish(self, ranges: list[tuple[int, int, int]], found: dict[str, Any]) -> "CacheFile | None":
        """Put the complete cache in its place, with where blocks lie in the text and what the scan has found."""
        if self.file is None:
            return None
        with self.forgiven():
            index = json.dumps({"made_of": self.made_of, "blocks": self.blocks, "ranges": ranges, "found": found}).encode()
            place = self.file.tell()
            self.file.write(index)
            self.file.write(TAIL.pack(place, len(index), sha256(index).digest()))
            self.file.close()
            self.file = None
            os.replace(self.part, self.path)
            return CacheFile(self.path)
        return None

    def discard(self) -> None:
        """Remove what is not complete; nothing is left to do after finish()."""
        if self.file is not None:
            with suppress(OSError):  # closing writes what is left: on a full disk that fails again
                self.file.close()
            self.file = None
        self.part.unlink(missing_ok=True)


class CacheFile:
    """A complete cache."""

    def __init__(self, path: Path):
        self.path = path
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < len(MAGIC) + TAIL.size or file.read(len(MAGIC)) != MAGIC:
                raise CacheError(f"{path} is not a cache of blocks.")
            file.seek(size - TAIL.size)
            place, length, digest = TAIL.unpack(file.read(TAIL.size))
            if place + length + TAIL.size != size:
                raise CacheError(f"The cache {path} is not complete.")
            file.seek(place)
            text = file.read(length)
        if sha256(text).digest() != digest:
            raise CacheError(f"The index of the cache {path} is damaged.")
        index = json.loads(text)
        self.made_of: dict[str, Any] = index["made_of"]
        if self.made_of.get("version") != VERSION:
            raise CacheError(f"The cache {path} is of another version.")
        self.found: dict[str, Any] = index["found"]
        self.blocks: list[tuple[int, ...]] = index["blocks"]
        self.ranges = [(offset, length, before) for offset, length, before in index["ranges"]]

    def raw_blocks(self, first: int, stop: int | None) -> Generator[RawBlock]:
        try:
            with open(self.path, "rb") as file:
                for block in self.blocks[first:stop]:
                    yield self.raw_block(file, block)
        except OSError as error:
            raise CacheError(f"The cache {self.path} cannot be read ({error.strerror or error}).") from None

    def raw_block(self, file: BinaryIO, block: tuple[int, ...]) -> RawBlock:
        place, expected, rows, entries, n_labels, n_groups = block
        file.seek(place)
        ends = ("int32", rows + 1)
        kinds = (self.made_of["dtype"], entries), ("int32", entries), ends, ("float64", n_labels), ends, ("int64", n_groups)
        try:
            data, indices, indptr, labels, label_indptr, group = (np.fromfile(file, dtype, count) for dtype, count in kinds)
            X = sp.csr_matrix((data, indices, indptr), shape=(rows, int(indices.max(initial=-1)) + 1))
        except ValueError as error:
            raise CacheError(f"The cache {self.path} is damaged ({error}).") from None
        raw = RawBlock(X, LabelLists(labels, label_indptr), group=group if n_groups else None)
        if checksum(raw) != expected:
            raise CacheError(f"The cache {self.path} is damaged (a block is not what was written).")
        X.has_sorted_indices = X.has_canonical_format = True
        return raw
