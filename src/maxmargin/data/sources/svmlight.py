"""Text in the form of svmlight and LIBSVM, one row a line:

    label[,label...] [qid:number] index:value index:value ...  # comment

Labels and values are decimal numbers, indices grow along the line; `qid` is the group of a row. Blank lines and comments are
skipped, lines end with LF or CRLF. Anything else is refused with its line and column. Numbers are rounded correctly: up to 2^53
and with exponents up to 22 by one operation on exact doubles (Clinger 1990), up to 19 digits by a product with 64 bits of the
power of ten, or 128 where these do not do, that gives the nearest double or tells that it cannot (after Lemire 2021); those that
remain, halfway between two doubles, and longer ones are left to Python's own `float`. With dtype=float32 the double is rounded
once more.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ...jit import jitable, jitable_call, kernel
from ...utils.threads import in_threads
from .blocks import NO_GROUP
from .rounding import FINE, HARD, LARGE, ONE, nearest, tables  # noqa: F401 - LARGE is handed on, with `tables`

NO_ROOM = 2
BAD_NUMBER, NOT_FINITE, LARGE_NUMBER, GLUED, BAD_INDEX, NEGATIVE, ZERO, BEYOND, TWICE, UNSORTED, BAD_QID = range(3, 14)
REASONS = {
    BAD_NUMBER: "a number is expected here",
    NOT_FINITE: "numbers must be finite",
    GLUED: "a blank is expected here",
    BAD_INDEX: "index:value is expected here",
    NEGATIVE: "the index is negative",
    ZERO: "the index is 0, but indices start at 1 (zero_based=True lets them start at 0)",
    BEYOND: "the index is too large",
    TWICE: "the index is the same as the one before",
    UNSORTED: "the index is smaller than the one before; indices must grow along a line",
    BAD_QID: "qid: and a whole number, once in a line, is expected here",
    LARGE_NUMBER: "the number is too large",
}

TEN = np.uint64(10)
DIGITS_FULL = np.uint64(10**18)  # below it another digit fits
EXACT = np.uint64(2**53)  # so far integers are doubles
# Runs of text for each thread, and for all of many: each asks for the interpreter's lock. Bytes of one at least, and to find the
# end of a line in. By guess, 2026-11-18.
RUNS, MANY_RUNS, LEAST_BYTES, LOOK_BYTES = 2, 8, 1 << 18, 1 << 12
STRIP_BYTES = 128  # bytes that are counted in a byte
LARGEST_QID = 10**17  # another digit fits into 64 bits
NEWLINE, HASH, COMMA, COLON, PLUS, MINUS, DOT, Q = (ord(c) for c in "\n#,:+-.q")


class Bounds(NamedTuple):
    """Indices are counted from `first_index` on; `limit` is the number of features there may be, `largest` the largest value."""

    first_index: int
    limit: int
    largest: float


class ParsedRows(NamedTuple):
    """Room for what a text holds: CSR, lists of labels, where each row starts, its qid, and the numbers left to `float`, each
    with its place in `values` (in `labels` if negative: -1 - place), its first byte and one beyond its last."""

    values: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    labels: np.ndarray
    label_indptr: np.ndarray
    starts: np.ndarray
    qids: np.ndarray
    hard: np.ndarray


class TextError(Exception):
    """Something is wrong at a byte of the text."""

    def __init__(self, at: int, reason: str):
        super().__init__(reason)
        self.at, self.reason = at, reason


# ---- kernels -------------------------------------------------------------------------------------------------


@jitable
def count_strip(strip):
    """As `counts`, of STRIP_BYTES bytes: in bytes, sixteen of which are added at a time."""
    lines, colons, commas = np.uint8(0), np.uint8(0), np.uint8(0)
    for k in range(STRIP_BYTES):
        lines = np.uint8(lines + np.uint8(strip[k] == NEWLINE))
        colons = np.uint8(colons + np.uint8(strip[k] == COLON))
        commas = np.uint8(commas + np.uint8(strip[k] == COMMA))
    return np.int64(lines), np.int64(colons), np.int64(commas)


@kernel
def counts(text):
    """How many line ends, colons and commas there are: at most so many rows, entries and labels."""
    lines, colons, commas = 0, 0, 0
    whole = text.size // STRIP_BYTES * STRIP_BYTES
    for start in range(0, whole, STRIP_BYTES):
        some = count_strip(text[start : start + STRIP_BYTES])
        lines, colons, commas = lines + some[0], colons + some[1], commas + some[2]
    for at in range(whole, text.size):
        lines += text[at] == NEWLINE
        colons += text[at] == COLON
        commas += text[at] == COMMA
    return lines, colons, commas


@jitable
def byte(text, at):
    return np.int64(text[at])


@jitable
def blank(c):
    return c == 32 or (9 <= c <= 13 and c != NEWLINE)


@jitable
def over(c):
    """Whether a token ends here."""
    return c in (HASH, NEWLINE) or blank(c)


@jitable
def digit(c):
    return 48 <= c <= 57


@jitable_call
def number(text, at, tables):
    """The number that starts at `at`: its value, where it ends, and FINE, HARD or what is wrong at that place."""
    c = byte(text, at)
    negative = c == MINUS
    if negative or c == PLUS:
        at += ONE
        c = byte(text, at)
    mantissa, exponent, digits, long = np.uint64(0), 0, 0, False
    while digit(c):
        if mantissa < DIGITS_FULL:
            mantissa = mantissa * TEN + np.uint64(c - 48)
        else:
            long = True
        digits += 1
        at += ONE
        c = byte(text, at)
    if c == DOT:
        at += ONE
        c = byte(text, at)
        while digit(c):
            if mantissa < DIGITS_FULL:
                mantissa = mantissa * TEN + np.uint64(c - 48)
                exponent -= 1
            else:
                long = True
            digits += 1
            at += ONE
            c = byte(text, at)
    if digits == 0:
        return 0.0, at, NOT_FINITE if c == 73 or c == 105 or c == 78 or c == 110 else BAD_NUMBER  # I i N n
    if c == 69 or c == 101:  # E e
        at += ONE
        c = byte(text, at)
        down = c == MINUS
        if down or c == PLUS:
            at += ONE
            c = byte(text, at)
        if not digit(c):
            return 0.0, at, BAD_NUMBER
        written = 0
        while digit(c):
            written = min(written * 10 + c - 48, 1 << 30)
            at += ONE
            c = byte(text, at)
        exponent += -written if down else written
    status, value = FINE, 0.0
    if long:
        status = HARD
    elif mantissa <= EXACT and -22 <= exponent <= 22:  # both are exact, so one operation rounds correctly
        value = np.float64(np.int64(mantissa))
        if exponent < 0:
            value /= tables.tens[np.uint64(-exponent)]
        else:
            value *= tables.tens[np.uint64(exponent)]
    elif mantissa > 0:
        value, status = nearest(mantissa, exponent, tables)
    return -value if negative else value, at, status


@jitable
def line_end(text, at):
    """Where the line ends that has `at` in it."""
    while byte(text, at) != NEWLINE:
        at += ONE
    return at


@jitable
def left_to_float(out, hard, place, start, stop):
    """Put a hard number down, if there is room for it: FINE or NO_ROOM, and how many there are so far."""
    if hard == np.uint64(out.hard.shape[0]):
        return NO_ROOM, hard
    out.hard[hard, 0], out.hard[hard, 1], out.hard[hard, 2] = place, start, stop
    return FINE, hard + ONE


@jitable
def read_labels(text, at, tables, out, labels, hard):
    """The labels of the row that starts at `at`: FINE or what is wrong, where, and how many labels and hard numbers so far.

    What a colon follows, or a qid, is no label any more: the row has none.
    """
    begin, more = at, byte(text, at) != Q
    while more:
        start = at
        value, at, status = number(text, start, tables)
        c = byte(text, at)
        if status <= HARD and c == COLON and start == begin:
            return FINE, start, labels, hard
        if status == HARD:
            status, hard = left_to_float(out, hard, -1 - np.int64(labels), start, at)
        if status != FINE:
            return status, at, labels, hard
        out.labels[labels] = value
        labels += ONE
        more = c == COMMA
        if more:
            at += ONE
        elif not over(c):
            return GLUED, at, labels, hard
    return FINE, at, labels, hard


@jitable
def read_qid(text, at):
    """FINE or BAD_QID, where the qid ends or is wrong, and its number."""
    qid = 0
    for expected in (105, 100, COLON):  # i d :
        at += ONE
        if byte(text, at) != expected:
            return BAD_QID, at, qid
    at += ONE
    c = byte(text, at)
    if not digit(c):
        return BAD_QID, at, qid
    while digit(c):
        qid = qid * 10 + c - 48
        if qid > LARGEST_QID:
            return BAD_QID, at, qid
        at += ONE
        c = byte(text, at)
    return FINE if over(c) else BAD_QID, at, qid


@jitable
def read_index(text, at, previous, bounds):
    """The index and its colon: FINE or what is wrong, where they end or are wrong, and the index."""
    start, c, index = at, byte(text, at), 0
    if not digit(c):
        return NEGATIVE if c == MINUS and digit(byte(text, at + ONE)) else BAD_INDEX, at, index
    while digit(c):
        index = min(index * 10 + c - 48, 1 << 40)
        at += ONE
        c = byte(text, at)
    if c != COLON:
        return BAD_INDEX, at, index
    index -= bounds.first_index
    if index < 0:
        return ZERO, start, index
    if index >= bounds.limit:
        return BEYOND, start, index
    if index <= previous:
        return TWICE if index == previous else UNSORTED, start, index
    return FINE, at + ONE, index


@jitable
def read_entries(text, at, bounds, tables, out, row, entries, hard):
    """index:value up to and with the line end, and a qid: FINE or what is wrong, where, and how many entries and hard numbers
    so far."""
    previous, out.qids[row] = -1, NO_GROUP
    while at < np.uint64(text.size):  # a line end comes before
        c = byte(text, at)
        while blank(c):
            at += ONE
            c = byte(text, at)
        if c in (NEWLINE, HASH):
            return FINE, line_end(text, at) + ONE, entries, hard
        if c == Q:
            if out.qids[row] != NO_GROUP:
                return BAD_QID, at, entries, hard
            status, at, out.qids[row] = read_qid(text, at)
            if status != FINE:
                return status, at, entries, hard
            continue
        status, at, index = read_index(text, at, previous, bounds)
        if status != FINE:
            return status, at, entries, hard
        previous, start = index, at
        value, at, status = number(text, start, tables)
        if status == HARD:
            status, hard = left_to_float(out, hard, np.int64(entries), start, at)
        if status != FINE:
            return status, at, entries, hard
        if not over(byte(text, at)):
            return GLUED, at, entries, hard
        if not abs(value) <= bounds.largest:
            return LARGE_NUMBER, start, entries, hard
        out.values[entries], out.indices[entries] = value, index
        entries += ONE
    return FINE, at, entries, hard


@kernel
def parse(text, bounds, tables, out):
    """Fill `out` with the rows of a text that ends with a line end.

    Returns FINE or what is wrong, the byte at which it is, and how many rows, entries, labels and hard numbers there are.
    """
    at, size = np.uint64(0), np.uint64(text.size)
    rows, entries, labels, hard = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
    out.indptr[0], out.label_indptr[0] = 0, 0
    while at < size:
        c = byte(text, at)
        if c == HASH:
            at = line_end(text, at)
        elif c == NEWLINE or blank(c):
            at += ONE
        else:
            out.starts[rows] = at
            status, at, labels, hard = read_labels(text, at, tables, out, labels, hard)
            if status == FINE:
                status, at, entries, hard = read_entries(text, at, bounds, tables, out, rows, entries, hard)
            if status != FINE:
                return status, at, rows, entries, labels, hard
            rows += ONE
            out.indptr[rows], out.label_indptr[rows] = entries, labels
    return FINE, at, rows, entries, labels, hard


# ---- text ----------------------------------------------------------------------------------------------------


def parsed(text: np.ndarray, zero_based: bool, limit: int, dtype: np.dtype, n_jobs: int = 1) -> tuple[ParsedRows, int]:
    """The rows of a text that ends with a line end, and its lines; TextError names the byte where it is wrong, the first one on
    any number of threads. Each thread counts what its part may hold, and then puts entries where they belong in those of all."""
    parts = line_spans(text, min(max(n_jobs, min(n_jobs * RUNS, MANY_RUNS)), text.size // LEAST_BYTES) if n_jobs > 1 else 1)
    found = in_threads(lambda part: tuple(int(n) for n in counts(text[slice(*part)])), parts, n_jobs)
    ends = np.cumsum([0, *(colons for _, colons, _ in found)]).tolist()
    values, indices = np.empty(ends[-1], dtype), np.empty(ends[-1], np.int32)

    def work(k: int) -> ParsedRows:
        (start, stop), own = parts[k], slice(ends[k], ends[k + 1])
        try:
            return parsed_part(text[start:stop], found[k], (values[own], indices[own]), Bounds(int(not zero_based), limit, most))
        except TextError as error:
            raise TextError(start + error.at, error.reason) from None

    most, lines = float(np.finfo(dtype).max), sum(lines for lines, _, _ in found)
    rows = in_threads(work, range(len(parts)), n_jobs)
    if len(rows) == 1:
        return rows[0], lines
    full = all(part.values.size == colons for part, (_, colons, _) in zip(rows[:-1], found))
    together = (values, indices) if full else None
    return one_after_another(rows, [start for start, _ in parts], together, n_jobs), lines


def line_spans(text: np.ndarray, count: int) -> list[tuple[int, int]]:
    """The text in at most `count` runs of whole lines of about the same size."""
    ends = [0]
    for k in range(1, count):
        at = max(text.size * k // count, ends[-1])
        while at < text.size and not (found := np.flatnonzero(text[at : at + LOOK_BYTES] == NEWLINE)).size:
            at += LOOK_BYTES
        if at < text.size:
            ends.append(at + int(found[0]) + 1)
    ends += [text.size]
    return [(start, stop) for start, stop in pairwise(ends) if stop > start] or [(0, text.size)]


def one_after_another(
    parts: list[ParsedRows], first_bytes: list[int], together: tuple[np.ndarray, np.ndarray] | None, n_jobs: int = 1
) -> ParsedRows:
    """The rows of runs of text, one after another. `together`: values and indices, where those of all runs lie side by side
    already; what is left to copy is little, but where rows are short."""
    entries, labels = (np.cumsum([0, *(getattr(part, name).size for part in parts)]) for name in ("values", "labels"))
    beginning = [name in ("indptr", "label_indptr") for name in ParsedRows._fields]
    sizes = [[len(field) - int(k > 0 and begins) for field, begins in zip(part, beginning)] for k, part in enumerate(parts)]
    ends = np.cumsum(np.vstack([np.zeros(len(beginning), int), sizes]), axis=0)
    done = 2 if together else 0  # fields
    out = [without_rest(array, int(entries[-1])) for array in together or ()]
    out += [np.empty((int(ends[-1, f]), *field.shape[1:]), field.dtype) for f, field in enumerate(parts[0]) if f >= done]

    def place(k: int) -> None:
        part, entry, label, byte_ = parts[k], int(entries[k]), int(labels[k]), first_bytes[k]
        part.indptr[...] += entry
        part.label_indptr[...] += label
        part.starts[...] += byte_
        part.hard[:, 0] += np.where(part.hard[:, 0] < 0, -label, entry)
        part.hard[:, 1:] += byte_
        for f, (field, begins) in enumerate(zip(part, beginning)):
            if f >= done:
                out[f][ends[k, f] : ends[k + 1, f]] = field[int(begins and k > 0) :]

    copied = sum(array.nbytes for array in out[done:])
    in_threads(place, range(len(parts)), n_jobs if copied >= LEAST_BYTES else 1)
    return ParsedRows(*out)


def parsed_part(text: np.ndarray, counted: tuple, room: tuple[np.ndarray, np.ndarray], bounds: Bounds) -> ParsedRows:
    """The rows of a part of a text on one thread; values and indices are put into the room given."""
    lines, colons, commas = counted
    capacity, status = (colons + lines + commas) // 64 + 64, NO_ROOM
    while status == NO_ROOM:
        out = ParsedRows(
            *room,
            np.empty(lines + 1, np.int32),
            np.empty(lines + commas, np.float64),
            np.empty(lines + 1, np.int32),
            np.empty(lines, np.int32),
            np.empty(lines, np.int64),
            np.empty((capacity, 3), np.int64),
        )
        found = parse(text, bounds, tables(), out)
        status, at, rows, entries, labels, hard = (int(n) for n in found)
        capacity = colons + lines + commas
    for slot, start, stop in out.hard[:hard].tolist():
        into, slot = (out.values, slot) if slot >= 0 else (out.labels, -1 - slot)
        value = float(text[start:stop].tobytes())
        if not abs(value) <= (bounds.largest if into is out.values else np.finfo(np.float64).max):
            raise TextError(start, REASONS[LARGE_NUMBER])
        into[slot] = value
    if status != FINE:
        raise TextError(at, REASONS[status])
    used = (entries, entries, rows + 1, labels, rows + 1, rows, rows, hard)
    return ParsedRows(*(without_rest(array, n) for array, n in zip(out, used)))


def without_rest(array: np.ndarray, size: int) -> np.ndarray:
    """The first of an array, which go on without the rest where that is large."""
    return array[:size] if size > array.shape[0] // 2 else array[:size].copy()


def line_and_column(text: np.ndarray, at: int) -> tuple[int, int]:
    """Of a byte, both from 1 on."""
    before = text[:at].tobytes()
    return before.count(b"\n") + 1, at - before.rfind(b"\n")
