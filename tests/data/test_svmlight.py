"""The parser of svmlight text against a slow one: the same rows, or an error at the same line, whatever the bytes are."""

import io
import math
import re
import time
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import maxmargin as mm
from maxmargin.data.sources import svmlight
from maxmargin.data.sources.blocks import NO_GROUP, WIDEST
from maxmargin.data.sources.lines import cut
from maxmargin.data.sources.svmlight import LARGE, LARGEST_QID, TextError, line_and_column, parsed, tables

NUMBER = rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
BLANKS = b" \t\r\v\f"
FLOAT64 = np.dtype(np.float64)


class WrongError(Exception):
    """A line that is no row."""


def slow_line(line, zero_based, limit):
    """(labels, {index: value}, qid), None for a line that holds nothing."""
    tokens = re.split(rb"[ \t\r\v\f]+", line.split(b"#")[0].strip(BLANKS))
    if tokens == [b""]:
        return None
    labels, entries, qid = [], [], None
    if not tokens[0].startswith(b"q") and not re.match(NUMBER + b":", tokens[0]):
        for label in tokens.pop(0).split(b","):
            labels.append(slow_number(label))
    for token in tokens:
        if re.fullmatch(rb"qid:[0-9]+", token):
            if qid is not None or int(token[4:]) > LARGEST_QID:
                raise WrongError
            qid = int(token[4:])
            continue
        index, colon, value = token.partition(b":")
        if not re.fullmatch(rb"[0-9]+", index) or not colon:
            raise WrongError
        column = int(index) - (not zero_based)
        if not 0 <= column < limit or (entries and column <= entries[-1][0]):
            raise WrongError
        entries.append((column, slow_number(value)))
    return labels, entries, qid


def slow_number(text):
    if not re.fullmatch(NUMBER, text) or not math.isfinite(float(text)):
        raise WrongError
    return float(text)


def slow(data, zero_based=False, limit=WIDEST):
    """All rows, or the number of the first wrong line."""
    rows = []
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            row = slow_line(line, zero_based, limit)
        except WrongError:
            return number
        if row is not None:
            rows.append(row)
    return rows


def fast(data, zero_based=False, limit=WIDEST):
    text = np.frombuffer(bytearray(data if data.endswith(b"\n") else data + b"\n"), np.uint8)
    try:
        found, lines = parsed(text, zero_based, limit, FLOAT64)
    except TextError as error:
        line, column = line_and_column(text, error.at)
        assert 1 <= column <= len(text.tobytes().split(b"\n")[line - 1]) + 1
        return line
    assert lines == text.tobytes().count(b"\n")
    result = []
    for i in range(found.starts.size):
        part, own = slice(*found.indptr[i : i + 2]), slice(*found.label_indptr[i : i + 2])
        entries = list(zip(found.indices[part].tolist(), found.values[part].tolist()))
        qid = int(found.qids[i])
        result.append((found.labels[own].tolist(), entries, None if qid == NO_GROUP else qid))
    return result


# ---- any bytes -----------------------------------------------------------------------------------------------

numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-9, 9).map(str),
    st.from_regex(r"[+-]?[0-9]{0,22}\.?[0-9]{0,22}([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(["nan", "inf", "-Infinity", "1e999", "0x1p3", "1_0", "", "-", ".", "1e", "+.5", "5.", "00", "-0", "1e-400"]),
)
indices = st.one_of(
    st.integers(0, 12).map(str), st.sampled_from(["-1", "+1", "x", "", "qid", "2147483646", "2147483647", "9" * 30])
)
tokens = st.one_of(
    st.tuples(indices, numbers).map(":".join),
    numbers,
    st.sampled_from(["qid:3", f"qid:{10**17}", f"qid:{10**17 + 1}", "qid:", "qid:x", "q", "#", "# c 1:2", ":", ","]),
)
labels = st.lists(numbers, max_size=3).map(",".join)
lines = st.tuples(
    labels, st.lists(tokens, max_size=4), st.sampled_from([" ", "  ", "\t"]), st.sampled_from(["\n", "\r\n", "\n\n", " \n"])
)
texts = st.lists(lines.map(lambda t: t[2].join([t[0], *t[1]]) + t[3]), max_size=4).map(lambda parts: "".join(parts).encode())
alphabet = st.lists(st.sampled_from(list(b" 0123456789:.,+-eE#q\n\r\tidnaf")), max_size=30).map(bytes)


@settings(max_examples=400)
@given(st.one_of(texts, alphabet, st.binary(max_size=40)), st.booleans(), st.sampled_from([WIDEST, 7]))
@example(b"", False, WIDEST)
@example(b"1 1:1e999\n x", False, WIDEST)
@example(b"12345678901234567890123:1\n", False, WIDEST)
@example(b"1,2:3\n", False, WIDEST)
@example(b"1 1:1\x00\n", False, WIDEST)
@example(b"\r\r1\r1:2\r\n", False, WIDEST)
@example(b"1 1:+\n", False, WIDEST)
@example(b"1 -", True, 7)
@example(b"1 7:1\n2 8:1\n", False, 7)
@example(b"1 6:1\n2 7:1\n", True, 7)
def test_same_as_the_slow_parser(data, zero_based, limit):
    assert fast(data, zero_based, limit) == slow(data, zero_based, limit)


def sorted_row(rng):
    columns = np.sort(rng.choice(50, rng.integers(0, 8), replace=False)) + 1
    entries = [f"{c}:{v:.{rng.integers(1, 20)}g}" for c, v in zip(columns, rng.normal(size=8))]
    return " ".join([str(rng.integers(-2, 3)), *entries]).encode()


@settings(max_examples=100)
@given(st.one_of(texts, alphabet, st.binary(max_size=40)))
@example(b"1 -")
@example(b"1 1:1e+")
@example(b"1 qid:")
@example(b"1 qid:3 1:2 qid:3")
def test_nothing_outside_of_the_text_is_read(data):
    """Uncompiled, where NumPy checks every index."""
    with patch.object(svmlight, "parse", svmlight.parse.plain), patch.object(svmlight, "counts", svmlight.counts.plain):
        assert fast(data) == slow(data)


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(40))
def test_good_text_with_one_byte_changed(seed):
    """Nearly good text goes deeper into the parser than any bytes do."""
    rng = np.random.default_rng(seed)
    data = b"\n".join(sorted_row(rng) for _ in range(5))
    assert isinstance(fast(data), list) and fast(data) == slow(data)
    for _ in range(60):
        at, c = rng.integers(len(data)), bytes([rng.choice(list(b"0159:.,+-eE#q \n\r\x00\xff"))])
        changed = data[:at] + c + data[at + 1 :]
        assert fast(changed) == slow(changed), changed


@settings(max_examples=60)
@given(st.lists(st.sampled_from([b"1 2:3", b"", b"#" * 30, b"4"]), max_size=12), st.integers(1, 40), st.booleans())
def test_text_is_cut_at_line_ends_and_nothing_is_lost(parts, size, ended):
    data = b"\n".join(parts) + (b"\n" if ended else b"")
    runs = [(run.tobytes(), offset) for run, offset in cut(io.BytesIO(data), size)]
    whole = b"".join(run for run, _ in runs)
    assert whole == data + (b"" if data.endswith(b"\n") or not data else b"\n")
    assert all(run.endswith(b"\n") for run, _ in runs)
    assert [offset for _, offset in runs] == np.cumsum([0, *(len(run) for run, _ in runs)])[:-1].tolist()
    longest = max((len(part) + 1 for part in parts), default=0)
    assert all(len(run) <= max(size, 2 * longest) + 1 for run, _ in runs)


# ---- numbers -------------------------------------------------------------------------------------------------


def value(text):
    rows = fast(b"0 1:" + text.encode())
    assert isinstance(rows, list), text
    return rows[0][1][0][1]


HALFWAY = [
    "9007199254740993",  # 2^53 + 1: half way between two doubles
    "9007199254740995",
    "9007199254740993.0000000000000000000000000000001",
    "1.00000000000000011102230246251565404",  # 1 + 2^-53 and a little more
    "1.00000000000000011102230246251565403",
    "0.500000000000000166533453693773481063544750213623046875",  # exactly half way
    "179769313486231580793e288",
    "2.2250738585072011e-308",  # once made other parsers hang
    "4.9406564584124654e-324",
    "2.4703282292062327e-324",
    "1e23",
    "8.5e22",
    "1e-22",
    "1e-23",
    "123456789e-23",
    "11339310835773237e5",  # above 2^53, where one operation on doubles would round twice
    "9007199254740992e-22",
    "123456789012345678e-200",
    "1e-280",
    "9999999999999999999e280",
    "18446744073709551615",
    "18446744073709551616",
    "0e999999999999",
    "-0.0",
]


@pytest.mark.parametrize("text", HALFWAY)
def test_numbers_that_are_hard_to_round(text):
    assert value(text) == float(text)


@pytest.mark.compiled
@settings(max_examples=500)
@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 25))
def test_written_numbers_are_read_as_python_reads_them(x, digits):
    for text in (repr(x), f"{x:.{digits}g}", f"{x:.{digits}e}"):
        if math.isfinite(float(text)):
            assert value(text) == float(text), text


@pytest.mark.compiled
def test_many_numbers_are_rounded_correctly():
    """16 and 17 digits, where one product of doubles would err; few are left to `float`."""
    rng = np.random.default_rng(0)
    texts = [f"{m}e{e}" for m, e in zip(rng.integers(10**15, 10**18, 40_000), rng.integers(-290, 270, 40_000))]
    text = np.frombuffer(bytearray("".join(f"0 1:{t}\n" for t in texts).encode()), np.uint8)
    found, _ = parsed(text, False, WIDEST, FLOAT64)
    assert found.values.tolist() == [float(t) for t in texts]
    inside = sum(abs(int(t.split("e")[1])) <= LARGE for t in texts)
    assert len(found.hard) < 0.01 * inside + (len(texts) - inside)


def test_tables_are_exact():
    powers = tables().powers
    for e in (-LARGE, -100, -1, 0, 1, 27, 28, LARGE):
        q = (217706 * e) >> 16
        p = int(powers[e + LARGE])
        assert p >> 63 == 1
        scale = 10**e * 2**400 if e >= 0 else 2 ** (400 + 1000) // 10**-e  # only bits of it are compared
        bits = scale.bit_length()
        assert scale >> (bits - 64) == p
        assert (bits - 1 - 400 if e >= 0 else bits - 1 - 1400) == q


def test_all_numbers_may_be_hard():
    text = b"".join(b"1 1:0.%s 2:7\n" % (b"1234567890" * 3) for _ in range(300))
    assert fast(text) == slow(text)


# ---- several threads -----------------------------------------------------------------------------------------


def lines_of(rng, count):
    """Rows of several lengths, some with several labels, hard numbers, a comment or nothing at all."""
    for i in range(count):
        entries = " ".join(f"{j + 1}:{rng.normal()!r}" for j in range(rng.integers(0, 30)))
        yield ("", f"{i}", "1,2,0.1234567890123456789012", "# nothing", f"{i} qid:7")[i % 5] + (
            f" {entries}" if i % 5 % 3 == 1 else ""
        )


def outcome(text, n_jobs):
    try:
        return parsed(text, False, WIDEST, FLOAT64, n_jobs)
    except TextError as error:
        return error.at, error.reason


@pytest.mark.parametrize("wrong", [None, 3, 40, 58])
def test_threads_read_the_same_and_find_the_first_mistake(wrong):
    rows = list(lines_of(np.random.default_rng(0), 60))
    if wrong is not None:
        rows[wrong] = "1 2:x"
        rows[59] = "nan"
    text = np.frombuffer(bytearray("\n".join([*rows, ""]).encode()), np.uint8)
    one = outcome(text, 1)
    for least in (1, 100):
        with patch.object(svmlight, "LEAST_BYTES", least):
            assert len(svmlight.line_spans(text, text.size // least)) > 1
            for n_jobs in (2, 3, 40):
                found = outcome(text, n_jobs)
                if wrong is not None:
                    assert found == one and "number" in one[1]
                    continue
                assert found[1] == one[1] == 60
                for mine, theirs in zip(found[0], one[0], strict=True):
                    assert mine.dtype == theirs.dtype and np.array_equal(mine, theirs)


def test_a_long_line_is_one_run():
    text = np.frombuffer(b"1 " + b" " * 20_000 + b"1:2\n", np.uint8)
    assert svmlight.line_spans(text, 9) == [(0, text.size)]


# ---- speed ---------------------------------------------------------------------------------------------------


@pytest.mark.compiled
@pytest.mark.parametrize("digits", [1, 6, 16])
def test_several_times_as_fast_as_scikit_learn(tmp_path, digits):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(3000, 40)), digits) if digits < 16 else rng.normal(size=(3000, 40))
    dump_svmlight_file(X, np.arange(3000.0), str(tmp_path / "x.svm"), zero_based=False)
    text = np.frombuffer(bytearray((tmp_path / "x.svm").read_bytes()), np.uint8)
    parsed(text[: text.tobytes().index(b"\n") + 1], False, WIDEST, FLOAT64)

    def seconds(call):
        start = time.process_time()
        call()
        return time.process_time() - start

    ours = min(seconds(lambda: parsed(text, False, WIDEST, FLOAT64)) for _ in range(3))
    theirs = min(seconds(lambda: load_svmlight_file(str(tmp_path / "x.svm"), zero_based=False)) for _ in range(2))
    assert theirs > 3 * ours
    found, _ = parsed(text, False, WIDEST, FLOAT64)
    np.testing.assert_array_equal(found.values, load_svmlight_file(str(tmp_path / "x.svm"))[0].data)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 129, 255, 256, 5_000])
def test_what_is_counted(size):
    """Also where every byte is the same, more than a byte can count."""
    drawn = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    for text in (
        drawn,
        np.random.default_rng(0).choice(np.frombuffer(b"\n:,1", np.uint8), size),
        np.full(size, ord(":"), np.uint8),
    ):
        assert tuple(svmlight.counts(text)) == tuple(text.tobytes().count(c) for c in (b"\n", b":", b","))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_pass_may_end_early(tmp_path, n_jobs):
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"{k % 2} 1:{k} 3:{k + 1}\n" for k in range(60_000)))
    source = mm.open_source(path, n_features=3, block_size=0.1, n_jobs=n_jobs)
    blocks = source.blocks()
    first = next(blocks)
    blocks.close()
    again = list(source.blocks())
    assert len(again) > 3 and (first.X != again[0].X).nnz == 0
    assert sum(block.X.shape[0] for block in again) == 60_000
