"""Text cut into runs of whole lines, plain or packed."""

import gzip
import lzma
from collections.abc import Generator, Iterable
from io import BufferedIOBase, RawIOBase
from pathlib import Path

import numpy as np

from .blocks import SourceChangedError
from .svmlight import NEWLINE, TextError

PACKED = (".gz", ".xz")
LONGEST = 2**31 - 2  # bytes of a line: positions fit into 32 bits
BinaryFile = RawIOBase | BufferedIOBase  # plain and packed ones: what both read into a buffer


def cut(file: BinaryFile, size: int) -> Generator[tuple[np.ndarray, int]]:
    """The text in runs of whole lines of about `size` bytes, each with its offset; longer only where a line is. Each has a buffer
    of its own, so that the next may be read beside. The last one ends with a line end even if the file does not."""
    buffer, filled, offset = bytearray(size + 1), 0, 0
    while True:
        more = fill(file, buffer, filled)
        filled += more
        ended = filled < len(buffer) - 1  # one byte is left for the last line end
        end = filled if ended else buffer.rfind(b"\n", 0, filled) + 1
        if ended and filled and buffer[filled - 1] != NEWLINE:
            buffer[filled] = NEWLINE
            end += 1
        if end:
            yield np.frombuffer(buffer, np.uint8, end), offset
        if ended:
            return
        if not end:
            if len(buffer) > LONGEST:
                raise TextError(0, f"the line is longer than {LONGEST} bytes")
            buffer = buffer + bytes(min(len(buffer), LONGEST + 2 - len(buffer)))
            continue
        rest = filled - end
        following = bytearray(size + 1 if rest < size else len(buffer))
        following[:rest] = memoryview(buffer)[end:filled]
        buffer, filled, offset = following, rest, offset + end


def fill(file: BinaryFile, buffer: bytearray, filled: int) -> int:
    """Read into all but the last byte of the buffer, behind what it holds; returns how much there was."""
    start, view = filled, memoryview(buffer)[:-1]
    while filled < len(view):
        got = file.readinto(view[filled:])
        if not got:
            break
        filled += got
    return filled - start


def reread(file: BinaryFile, ranges: Iterable[tuple[int, int, int]], path: Path) -> Generator[tuple[np.ndarray, int]]:
    """The runs that `cut` has given, by their offsets and lengths; `path` is for messages."""
    for offset, length, _ in ranges:
        buffer = bytearray(length + 1)
        file.seek(offset)
        filled = fill(file, buffer, 0)
        if filled == length - 1:  # the line end that `cut` has added
            buffer[filled] = NEWLINE
        elif filled < length:
            raise SourceChangedError(f"{path} is shorter than in its first pass; open the source again.")
        yield np.frombuffer(buffer, np.uint8, length), offset


def opened_text(path: Path) -> BinaryFile:
    """The bytes of a text, unpacked."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rb")
    if path.suffix.lower() == ".xz":
        return lzma.open(path, "rb")
    return open(path, "rb", buffering=0)
