"""Labels and weights in `.npy` files of their own, with an entry for each row of X."""

import lzma
import os
import struct
import threading
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from ..mistakes import first_line
from .blocks import SourceChangedError

# Headers are parsed as Python. CPython 3.11 counts the depth of that for all threads together: two of them at the same time may
# end with "SystemError: AST constructor recursion depth mismatch".
ONE_HEADER = threading.Lock()
DAMAGED = (ValueError, OverflowError, EOFError, RuntimeError, KeyError, TypeError, struct.error, TokenError, SyntaxError)
UNPACKED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError)


@contextmanager
def sound(path: Path) -> Iterator[None]:
    """What NumPy and zipfile say about a broken file, as a ValueError that names the file."""
    try:
        yield
    except (*DAMAGED, *UNPACKED, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None:  # it could not be opened, and says so itself
            raise
        raise ValueError(f"{path} is truncated, damaged or no {path.suffix} file of numbers: {first_line(error)}.") from None


def mapped(path: Path) -> np.ndarray:
    """A `.npy` file as a memory map: nothing is read yet. Map anew for each block: pages of an old map count as memory in use."""
    with sound(path), ONE_HEADER:
        return np.lib.format.open_memmap(path, mode="r")


class SideFile:
    """The entries of a `.npy` file, part by part."""

    def __init__(self, path: Path, dimensions: tuple[int, ...]):
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist.")
        self.path, self.shape = path, mapped(path).shape
        if len(self.shape) not in dimensions:
            raise ValueError(f"{path} must have {' or '.join(map(str, dimensions))} dimensions, it has {len(self.shape)}.")

    def part(self, first: int, last: int) -> np.ndarray:
        entries = mapped(self.path)
        if entries.shape != self.shape:
            raise SourceChangedError(f"{self.path} has changed since it was opened; open the source again.")
        if last > self.shape[0]:
            raise ValueError(f"{self.path} has {self.shape[0]} entries, but there are at least {last} rows.")
        return np.array(entries[first:last])

    def check_length(self, n_rows: int) -> None:
        if self.shape[0] != n_rows:
            raise ValueError(f"{self.path} has {self.shape[0]} entries, but there are {n_rows} rows.")


def is_side_file(given: Any) -> bool:
    return isinstance(given, os.PathLike) or (isinstance(given, str) and given.endswith(".npy"))


def side_files_of(path: Path, **given: Any) -> dict[str, SideFile]:
    """The files that hold "y" and "weight" for the rows of `path`, where they are given."""
    result = {}
    for field, other in given.items():
        if other is None:
            continue
        if not is_side_file(other):
            name = "label" if field == "y" else field
            raise ValueError(f"{name} must be the path of a .npy file for {path}, got {other!r}.")
        result[field] = SideFile(Path(other), (1, 2) if field == "y" else (1,))
    return result
