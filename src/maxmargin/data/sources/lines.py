"""Text cut into runs of whole lines, plain or packed."""

import gzip
import lzma
from collections.abc import Callable, Generator, Iterable
from io import BufferedIOBase, RawIOBase
from pathlib import Path

import numpy as np

from .blocks import SourceChangedError
from .svmlight import LOOK_BYTES, NEWLINE, TextError

PACKED = (".gz", ".xz")
LONGEST = 2**31 - 2  # bytes of a line: positions fit into 32 bits
BinaryFile = RawIOBase | BufferedIOBase  # plain and packed ones: what both read into a buffer


class TextBuffers:
    """Room for runs of text, two of them in turn: that of a run is written to again when the run after the next one is read.
    Pages that are new take longer than what is read into them."""

    def __init__(self) -> None:
        self.free = [np.empty(0, np.uint8), np.empty(0, np.uint8)]

    def room(self, size: int) -> np.ndarray:
        """That of the run before the last one, if it does."""
        found = self.free.pop(0)
        if found.size < size:
            found = np.empty(size, np.uint8)
        self.free.append(found)
        return found[:size]


def new_room(size: int) -> np.ndarray:
    return np.empty(size, np.uint8)


def cut(file: BinaryFile, size: int, room: Callable[[int], np.ndarray] = new_room) -> Generator[tuple[np.ndarray, int]]:
    """The text in runs of whole lines of about `size` bytes, each with its offset; longer only where a line is. Each has `room`
    of its own, so that the next may be read beside. The last one ends with a line end even if the file does not."""
    buffer, filled, offset = room(size + 1), 0, 0
    while True:
        more = fill(file, buffer, filled)
        filled += more
        ended = filled < len(buffer) - 1  # one byte is left for the last line end
        end = filled if ended else behind_last_line(buffer[:filled])
        if ended and filled and buffer[filled - 1] != NEWLINE:
            buffer[filled] = NEWLINE
            end += 1
        if end:
            yield buffer[:end], offset
        if ended:
            return
        if not end:
            if len(buffer) > LONGEST:
                raise TextError(0, f"the line is longer than {LONGEST} bytes")
            buffer = np.concatenate([buffer, np.empty(min(len(buffer), LONGEST + 2 - len(buffer)), np.uint8)])
            continue
        rest = filled - end
        following = room(size + 1 if rest < size else len(buffer))
        following[:rest] = buffer[end:filled]
        buffer, filled, offset = following, rest, offset + end


def behind_last_line(text: np.ndarray) -> int:
    """Where the last whole line of a text has ended; 0 where there is none."""
    for stop in range(text.size, 0, -LOOK_BYTES):
        start = max(stop - LOOK_BYTES, 0)
        found = np.flatnonzero(text[start:stop] == NEWLINE)
        if found.size:
            return start + int(found[-1]) + 1
    return 0


def fill(file: BinaryFile, buffer: np.ndarray, filled: int) -> int:
    """Read into all but the last byte of the buffer, behind what it holds; returns how much there was."""
    start, view = filled, buffer.data[:-1]
    while filled < len(view):
        got = file.readinto(view[filled:])
        if not got:
            break
        filled += got
    return filled - start


def reread(
    file: BinaryFile, ranges: Iterable[tuple[int, int, int]], path: Path, room: Callable[[int], np.ndarray] = new_room
) -> Generator[tuple[np.ndarray, int]]:
    """The runs that `cut` has given, by their offsets and lengths; `path` is for messages."""
    for offset, length, _ in ranges:
        buffer = room(length + 1)
        file.seek(offset)
        filled = fill(file, buffer, 0)
        if filled == length - 1:  # the line end that `cut` has added
            buffer[filled] = NEWLINE
        elif filled < length:
            raise SourceChangedError(f"{path} is shorter than in its first pass; open the source again.")
        yield buffer[:length], offset


def opened_text(path: Path) -> BinaryFile:
    """The bytes of a text, unpacked."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rb")
    if path.suffix.lower() == ".xz":
        return lzma.open(path, "rb")
    return open(path, "rb", buffering=0)
