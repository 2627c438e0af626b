"""One file of named arrays and a manifest, in the format of safetensors: the length of a JSON header in eight bytes, the header,
the bytes of the arrays one after another.

    header   {"__metadata__": {"maxmargin": manifest, "schema": "1", "checksum": ...}, name: {dtype, shape, data_offsets}, ...}
    manifest the kind of file, what its owner put there, and of each array its dtype, shape and the digest of its bytes

The format itself notices no damage. So the checksum covers schema and manifest, the manifest names every array, and the header
has to agree with it: what is read is what was written, or a `ModelFileError`. Nothing is allocated that the file does not hold.
Numbers are little-endian, whatever machine writes.
"""

import json
import math
import mmap
import os
import platform
import re
import secrets
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SCHEMA = 1
LONGEST_HEADER = 1 << 24  # bytes; JSON in memory takes some fifty times as much
ALIGNMENT = 64  # of the first array
DIGEST = 16  # bytes
OWN, META = "maxmargin", "__metadata__"
DTYPES = {
    "BOOL": "|b1",
    "U8": "|u1",
    "I8": "|i1",
    "U16": "<u2",
    "I16": "<i2",
    "F16": "<f2",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
}
CODE_OF = {np.dtype(text): code for code, text in DTYPES.items()}
# What to do about a file of another kind than the one asked for.
WAY_OUT = {"model": "mm.load reads what mm.save has written", "checkpoint": "give Checkpoint another path"}
# What damage in a file leads to while it is read.
DAMAGE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError, MemoryError)


class ModelFileError(ValueError):
    """A file of a model or checkpoint that cannot be written or read, and why."""


class Entry(NamedTuple):
    """An array in the file: dtype, shape, and where its bytes are, counted from the first array."""

    dtype: np.dtype
    shape: tuple[int, ...]
    start: int
    stop: int


def digest(data: Any) -> str:
    return blake2b(data, digest_size=DIGEST).hexdigest()


def manifest_checksum(schema: str, manifest: str) -> str:
    return digest(f"{schema}\n{manifest}".encode())


def as_bytes(array: np.ndarray) -> memoryview:
    """The bytes of a C-ordered array, not copied."""
    flat: Any = array.reshape(-1).view(np.uint8) if array.size else b""
    return memoryview(flat)


# ---- writing -----------------------------------------------------------------------------------------------------------


def write_stored(
    path: str | os.PathLike[str],
    kind: str,
    manifest: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    *,
    overwrite: bool = True,
    scratch: str | None = None,
) -> None:
    """Write a file of this kind as a whole or not at all: beside its place, then moved there.

    `scratch` is the name it has until then; a random one by default.
    """
    place = Path(path)
    if not overwrite and place.exists():
        raise ModelFileError(f"{place} exists already; give another name, or overwrite=True.")
    stored = {name: little_endian(name, arrays[name]) for name in sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))}
    head = header(kind, manifest, stored)
    beside = place.with_name(scratch or f".{place.name}.{secrets.token_hex(8)}.part")
    try:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
            with open(os.open(beside, flags, 0o666), "wb") as file:
                file.write(head)
                for array in stored.values():
                    file.write(as_bytes(array))
                file.flush()
                os.fsync(file.fileno())
            if overwrite:
                os.replace(beside, place)
            else:
                os.link(beside, place)  # fails where somebody was faster
        finally:
            with suppress(FileNotFoundError):
                os.unlink(beside)
        settle_folder(place.parent)
    except FileExistsError:
        raise ModelFileError(f"{place} exists already; give another name, or overwrite=True.") from None
    except OSError as error:
        raise ModelFileError(f"{place} cannot be written: {why(error)}. Nothing was changed there.") from error


def settle_folder(folder: Path) -> None:
    """See to it that a new name survives a crash of the machine, where folders can be asked for that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def little_endian(name: str, array: np.ndarray) -> np.ndarray:
    found = np.ascontiguousarray(array).reshape(array.shape)  # which has one dimension at the least
    found = found.astype(found.dtype.newbyteorder("<"), copy=False)
    if found.dtype not in CODE_OF:
        raise ModelFileError(f"{name} holds numbers of the type {array.dtype}, which the file format does not know.")
    return found


def header(kind: str, manifest: Mapping[str, Any], stored: Mapping[str, np.ndarray]) -> bytes:
    """The file up to its first array."""
    listed = {name: [CODE_OF[array.dtype], list(array.shape), digest(as_bytes(array))] for name, array in stored.items()}
    text = json.dumps({"kind": kind, **manifest, "arrays": listed}, separators=(",", ":"), allow_nan=False)
    schema = str(SCHEMA)
    entries: dict[str, Any] = {META: {OWN: text, "schema": schema, "checksum": manifest_checksum(schema, text)}}
    at = 0
    for name, array in stored.items():
        entries[name] = {"dtype": CODE_OF[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    found = json.dumps(entries, separators=(",", ":")).encode()
    found += b" " * (-(len(found) + 8) % ALIGNMENT)
    if len(found) > LONGEST_HEADER:
        raise ModelFileError(
            f"What is no array takes {len(found)} bytes; a file holds {LONGEST_HEADER} of them. "
            "Names of classes and parameters should be texts, numbers or arrays of these."
        )
    return len(found).to_bytes(8, "little") + found


# ---- reading -----------------------------------------------------------------------------------------------------------


def read_stored(path: str | os.PathLike[str], kind: str, *, mapped: bool = False) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The manifest and the arrays. `mapped`: these are views of the file, read-only, and their bytes are neither read nor
    checked before they are used."""
    place = Path(path)
    with opened_file(place) as file, damage_told(place):
        size = os.fstat(file.fileno()).st_size
        manifest, entries, begin = contents(file, size, place, kind)
        if mapped:
            arrays = mapped_arrays(file, entries, begin)
        else:
            arrays = {name: read_array(file, entry, begin, manifest["arrays"][name][2]) for name, entry in entries.items()}
    return manifest, arrays


@contextmanager
def opened_file(place: Path) -> Iterator[Any]:
    try:
        if not stat.S_ISREG(os.stat(place).st_mode):
            raise ModelFileError(f"{place} is no file.")
        file = open(place, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise ModelFileError(f"{place} cannot be read: {why(error)}.") from None
    except ValueError as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{str(place)!r} is no path: {error}.") from None
    with file:
        yield file


@contextmanager
def damage_told(place: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever is wrong with what was read becomes one sentence."""
    try:
        yield
    except ModelFileError:
        raise
    except OSError as error:
        raise ModelFileError(f"{place} cannot be read: {why(error)}.") from None
    except DAMAGE as error:
        said = re.sub(r"\s+", " ", str(error))[:200]
        raise ModelFileError(f"{place} is damaged, or not a maxmargin file: {said or type(error).__name__}.") from None


def contents(file: Any, size: int, place: Path, kind: str) -> tuple[dict[str, Any], dict[str, Entry], int]:
    """The manifest, the arrays that there are, and where the first one begins."""
    length, first = int.from_bytes(file.read(8), "little"), file.read(1)
    if length > LONGEST_HEADER or first != b"{":
        found = "it is empty" if size == 0 else "it begins in another way"
        raise ModelFileError(f"{place} is not a maxmargin {kind} file ({found}); {WAY_OUT[kind]}.")
    if length > size - 8:
        raise ValueError("it is shorter than its header says")
    head = json.loads((first + file.read(length - 1)).decode(), object_pairs_hook=distinct)
    meta = head.pop(META, {}) if isinstance(head, dict) else {}
    if not isinstance(meta, dict) or OWN not in meta:
        raise ModelFileError(f"{place} is not a maxmargin {kind} file (another program wrote it); {WAY_OUT[kind]}.")
    text, schema = meta[OWN], meta["schema"]
    if re.fullmatch(r"[1-9]\d{0,5}", schema) and int(schema) > SCHEMA:
        raise ModelFileError(
            f"{place} was written by a later version of maxmargin (schema {schema}; this one reads up to {SCHEMA}): upgrade it."
        )
    if meta["checksum"] != manifest_checksum(schema, text):
        raise ValueError("its checksum does not fit its manifest")
    manifest = json.loads(text, object_pairs_hook=distinct, parse_constant=no_constant)
    if manifest["kind"] != kind:
        raise ModelFileError(f"{place} is a {manifest['kind']}, not a {kind}; {WAY_OUT[kind]}.")
    entries = {name: entry_of(name, head[name], manifest["arrays"][name]) for name in head}
    if entries.keys() != manifest["arrays"].keys():
        raise ValueError("arrays are missing")
    at = 0
    for entry in sorted(entries.values(), key=lambda entry: (entry.start, entry.stop)):
        if entry.start != at:
            raise ValueError("arrays overlap, or leave holes")
        at = entry.stop
    if 8 + length + at != size:
        raise ValueError(f"it has {size} bytes and should have {8 + length + at}")
    return manifest, entries, 8 + length


def entry_of(name: str, found: dict[str, Any], told: list[Any]) -> Entry:
    code, shape, (start, stop) = found["dtype"], found["shape"], found["data_offsets"]
    if [code, shape] != told[:2]:
        raise ValueError(f"the array {name!r} is not the one of the manifest")
    dtype = np.dtype(DTYPES[code])
    if not all(type(number) is int and number >= 0 for number in (*shape, start, stop)):
        raise ValueError(f"the array {name!r} has no shape")
    if stop - start != dtype.itemsize * math.prod(shape):
        raise ValueError(f"the array {name!r} has {stop - start} bytes, which are not those of its shape")
    return Entry(dtype, tuple(shape), start, stop)


def read_array(file: Any, entry: Entry, begin: int, told: str) -> np.ndarray:
    """An array in memory of its own, checked."""
    file.seek(begin + entry.start)
    found = np.empty(entry.shape, entry.dtype)
    part = as_bytes(found)
    if found.size and file.readinto(part) != len(part):
        raise ValueError("it is shorter than it was")
    if digest(part) != told:
        raise ValueError("the bytes of an array are not those that were written")
    return found.astype(entry.dtype.newbyteorder("="), copy=False)


def mapped_arrays(file: Any, entries: Mapping[str, Entry], begin: int) -> dict[str, np.ndarray]:
    whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    found = {}
    for name, entry in entries.items():
        flat = np.frombuffer(whole, entry.dtype, math.prod(entry.shape), begin + entry.start)
        found[name] = flat.astype(entry.dtype.newbyteorder("="), copy=False).reshape(entry.shape)
    return found


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands in it twice")
    return found


def no_constant(text: str) -> float:
    raise ValueError(f"{text} is no number")


def versions(*names: str) -> dict[str, str]:
    """Of packages, Python's and our own: this one is also known where it runs from its source and was never installed."""
    own = sys.modules[__name__.split(".")[0]].__version__
    return {OWN: own, **{name: version(name) for name in names}, "python": platform.python_version()}


def why(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
