"""Sources give the rows of their files, whatever the format, in every order, within a few blocks of memory; or a clear error."""

import gc
import gzip
import io
import lzma
import os
import pickle
import re
import sys
import threading
import tracemalloc
import warnings
from contextlib import closing
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from helpers.refusals import refuse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import maxmargin as mm
from maxmargin.data.sources import blocks as pieces
from maxmargin.data.sources import text_cache as block_cache
from maxmargin.data.sources.base import Block
from maxmargin.data.sources.lines import reread
from maxmargin.data.sources.side_files import mapped
from maxmargin.utils.threads import in_threads, read_ahead

rng = np.random.default_rng(0)
N, D = 200, 12
DENSE = np.where(rng.random((N, D)) < 0.4, rng.standard_normal((N, D)).round(6), 0.0)
DENSE[:, 1] += 10.0  # multi-label text cannot tell a row of nothing from a blank line
DENSE[-1, -1] = 1.25  # the last feature is there, and is seen late
CSR = sp.csr_matrix(DENSE)
Y = rng.integers(0, 4, N).astype(float)
WEIGHT = rng.integers(0, 3, N).astype(float)
MULTI = (rng.random((N, 5)) < 0.4).astype(float)
MULTI[3] = 0.0  # no label at all
MULTI[:, 4] = np.arange(N) == N - 1  # a label seen late
SMALL = 1e-3  # megabytes: many blocks


def put(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def svm(path, X=CSR, y=Y):
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return path


def multi_text():
    rows = [",".join(str(j) for j in np.flatnonzero(row)) for row in MULTI]
    entries = [" ".join(f"{j + 1}:{float(v)!r}" for j, v in zip(row.indices, row.data)) for row in CSR]
    return "".join(f"{label} {entry}\n" for label, entry in zip(rows, entries))


def table(**columns):
    return pa.table(columns)


def dense_table(X=DENSE, y=Y):
    return table(**{f"f{j}": X[:, j] for j in range(X.shape[1])}, target=y, cost=WEIGHT[: len(y)])


def arrow_file(path, content, rows=37, compression=None):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, content.schema, options=options) as writer:
        writer.write_table(content, max_chunksize=rows)
    return path


def whole(source, seed=None):
    """All rows in the order of their numbers, after checks of every block."""
    blocks = list(source.blocks(seed))
    for block in blocks:
        assert isinstance(block, Block) and block.X.shape == (block.rows.size, source.n_features)
        assert block.X.dtype == source.dtype and block.rows.dtype == np.int64
        if sp.issparse(block.X):
            assert block.X.format == "csr" and block.X.has_canonical_format and block.X.indices.dtype == np.int32
            block.X.check_format(full_check=True)
        else:
            assert block.X.flags.c_contiguous
        if source.multilabel:
            assert block.y.format == "csr" and block.y.shape == (block.rows.size, source.n_labels)
    rows = np.concatenate([block.rows for block in blocks])
    order = np.argsort(rows)
    assert np.array_equal(rows[order], np.arange(source.n_rows))

    def joined(parts):
        if parts[0] is None:
            assert all(part is None for part in parts)
            return None
        return np.concatenate([part.toarray() if sp.issparse(part) else part for part in parts])[order]

    return Block(rows, *(joined(list(parts)) for parts in list(zip(*blocks))[1:]))


def make_svm(folder):
    return mm.open_source(svm(folder / "x.svm"), block_size=SMALL, weight=beside(folder, WEIGHT, "w"))


def make_gz(folder):
    text = svm(folder / "plain.svm").read_bytes()
    path = put(folder / "x.libsvm.gz", gzip.compress(text))
    return mm.open_source(path, block_size=SMALL, weight=beside(folder, WEIGHT, "w"))


def make_xz(folder):
    text = svm(folder / "plain.svm").read_bytes()
    path = put(folder / "x.svmlight.xz", lzma.compress(text))
    return mm.open_source(str(path), block_size=SMALL, weight=beside(folder, WEIGHT, "w"))


def make_cached(folder):
    path = put(folder / "x.svm.gz", gzip.compress(svm(folder / "plain.svm").read_bytes()))
    return mm.open_source(path, block_size=SMALL, cache=True, weight=beside(folder, WEIGHT, "w"))


def make_parquet(folder):
    pq.write_table(dense_table(), folder / "x.parquet", row_group_size=23)
    return mm.open_source(folder / "x.parquet", label="target", weight="cost", block_size=SMALL)


def make_large_groups(folder):
    pq.write_table(dense_table(), folder / "x.parquet", row_group_size=100)
    return mm.open_source(folder / "x.parquet", label="target", weight="cost", block_size=SMALL)


def make_arrow(folder):
    return mm.open_source(arrow_file(folder / "x.arrow", dense_table()), label="target", weight="cost", block_size=SMALL)


def make_packed_arrow(folder):
    path = arrow_file(folder / "x.arrow", dense_table(), rows=50, compression="lz4")
    return mm.open_source(path, label="target", weight="cost", block_size=SMALL)


def make_lists(folder):
    content = table(x=pa.array(list(DENSE)), y=Y, w=WEIGHT)
    return mm.open_source(arrow_file(folder / "x.feather", content), label="y", weight="w", block_size=SMALL)


def make_sparse_lists(folder):
    content = table(i=[row.indices for row in CSR], v=[row.data for row in CSR], y=Y, w=WEIGHT)
    pq.write_table(content, folder / "x.parquet", row_group_size=50)
    features = {"indices": "i", "values": "v"}
    return mm.open_source(folder / "x.parquet", label="y", weight="w", features=features, block_size=SMALL)


def beside(folder, array, name):
    np.save(folder / f"{name}.npy", array)
    return folder / f"{name}.npy"


def make_npy(folder):
    path = beside(folder, DENSE, "x")
    return mm.open_source(path, label=beside(folder, Y, "y"), weight=beside(folder, WEIGHT, "w"), block_size=SMALL)


def make_fortran(folder):
    path = beside(folder, np.asfortranarray(DENSE), "x")
    return mm.open_source(path, label=str(beside(folder, Y, "y")), weight=beside(folder, WEIGHT, "w"), block_size=SMALL)


def make_columns(folder):
    path = beside(folder, np.column_stack([Y, DENSE, WEIGHT]), "x")
    return mm.open_source(path, label=0, weight=-1, block_size=SMALL)


def make_structured(folder):
    records = np.zeros(N, [("y", "i8"), *((f"f{j}", "f8") for j in range(D)), ("w", "f4")])
    records["y"], records["w"] = Y, WEIGHT
    for j in range(D):
        records[f"f{j}"] = DENSE[:, j]
    return mm.open_source(beside(folder, records, "x"), label="y", weight="w", block_size=SMALL)


def make_npz(folder, compressed=True):
    sp.save_npz(folder / "x.npz", CSR, compressed=compressed)
    labels, weights = beside(folder, Y, "y"), beside(folder, WEIGHT, "w")
    return mm.open_source(folder / "x.npz", label=labels, weight=weights, block_size=SMALL)


def make_stored(folder):
    return make_npz(folder, compressed=False)


def make_arrays(folder, write=np.savez, X=DENSE):
    write(folder / "x.npz", X=X, y=Y, sample_weight=WEIGHT)
    return mm.open_source(folder / "x.npz", block_size=SMALL)


def make_packed_arrays(folder):
    return make_arrays(folder, np.savez_compressed)


def make_fortran_arrays(folder):
    return make_arrays(folder, X=np.asfortranarray(DENSE))


def make_several(folder):
    cuts = [0, 61, 62, N]
    paths, weights = [], []
    for k, (a, b) in enumerate(pairwise(cuts)):
        path = svm(folder / f"{k}.svm", CSR[a:b], Y[a:b])
        if k == 2:
            path = put(folder / "2.svm.gz", gzip.compress(path.read_bytes()))
        paths.append(path)
        weights.append(beside(folder, WEIGHT[a:b], f"w{k}"))
    return mm.open_source(paths, weight=weights, block_size=SMALL)


def make_list(folder):
    return mm.open_source([(DENSE[a : a + 13], Y[a : a + 13], WEIGHT[a : a + 13]) for a in range(0, N, 13)])


class Again:
    """Starts anew at each iter(); one block has no rows."""

    def __iter__(self):
        yield DENSE[:0], Y[:0], WEIGHT[:0]
        for a in range(0, N, 13):
            yield CSR[a : a + 13], Y[a : a + 13], WEIGHT[a : a + 13]


def make_iterable(folder):
    return mm.open_source(Again())


Again.__iter__.__doc__ = "dense without rows, then sparse"
MAKERS = {name[5:]: make for name, make in list(globals().items()) if name.startswith("make_")}
SPARSE = {"svm", "gz", "xz", "cached", "sparse_lists", "npz", "stored", "several", "iterable"}
IN_ORDER = {"gz", "xz", "npz", "packed_arrays", "iterable"}  # formats that cannot seek


@pytest.mark.parametrize("name", MAKERS)
def test_rows_labels_and_weights_of_every_format(name, tmp_path):
    source = MAKERS[name](tmp_path)
    found = source.scan()
    assert (found.n_rows, found.n_features) == (N, D) and source.n_rows == N and not source.multilabel
    assert found.labels.tolist() == [0, 1, 2, 3] and source.label_range == (0, 3) and source.n_labels is None
    for seed in (None, 0, 1, None):  # every pass is a whole one
        got = whole(source, seed)
        np.testing.assert_array_equal(got.X, DENSE)
        np.testing.assert_array_equal(got.y, Y)
        np.testing.assert_array_equal(got.weight, WEIGHT)
        if seed is None:
            assert np.array_equal(got.rows, np.arange(N))
    assert all(sp.issparse(block.X) == (name in SPARSE) for block in source)


@pytest.mark.parametrize("name", MAKERS)
def test_shuffled_passes_are_seeded(name, tmp_path):
    source = MAKERS[name](tmp_path)
    order = {seed: np.concatenate([b.rows for b in source.blocks(seed)]) for seed in (0, 1)}
    again = np.concatenate([b.rows for b in source.blocks(0)])
    assert np.array_equal(order[0], again) and not np.array_equal(order[0], order[1])
    assert not any(np.array_equal(block.rows, np.sort(block.rows)) for block in source.blocks(0) if block.rows.size > 8)
    firsts = [int(block.rows.min()) for block in source.blocks(0)]
    assert len(firsts) > 4
    others = [[int(block.rows.min()) for block in source.blocks(seed)] for seed in range(4)]
    assert all(order == sorted(order) for order in others) == (name in IN_ORDER)
    for block in source.blocks(1):  # rows and their labels stay together
        np.testing.assert_array_equal(block.X.toarray() if sp.issparse(block.X) else block.X, DENSE[block.rows])
        np.testing.assert_array_equal(block.y, Y[block.rows])


@pytest.mark.parametrize("name", ["svm", "gz", "parquet", "arrow", "npy", "npz", "several", "list"])
def test_sources_can_be_sent_to_other_processes(name, tmp_path):
    source = MAKERS[name](tmp_path)
    for one in (source, pickle.loads(pickle.dumps(source))):
        one.scan()
        np.testing.assert_array_equal(whole(pickle.loads(pickle.dumps(one)), 3).X, DENSE)


def test_what_is_known_before_the_first_pass(tmp_path):
    assert MAKERS["svm"](tmp_path).n_rows is None
    assert MAKERS["parquet"](tmp_path).n_rows == MAKERS["npy"](tmp_path).n_rows == N
    assert mm.open_source(svm(tmp_path / "x.svm"), n_features=99).n_features == 99
    source = mm.open_source(svm(tmp_path / "x.svm"), n_features=99, block_size=SMALL)
    assert {block.X.shape[1] for block in source} == {99}


@pytest.mark.parametrize("name", ["svm", "npy", "npz", "parquet", "list"])
def test_dtypes(name, tmp_path):
    kind = {"svm": np.float64, "npy": np.float64, "npz": np.float64, "parquet": np.float64, "list": np.float64}[name]
    source = MAKERS[name](tmp_path)
    assert source.dtype == kind
    path = [(DENSE, Y)] if name == "list" else source.name
    labels = {"npy": tmp_path / "y.npy", "npz": tmp_path / "y.npy", "parquet": "target"}.get(name)
    weights = {"parquet": "cost"}.get(name)
    narrow = mm.open_source(path, label=labels, weight=weights, dtype="float32")
    assert narrow.dtype == np.float32
    np.testing.assert_array_equal(whole(narrow).X, DENSE.astype(np.float32))


def test_float32_files_stay_float32(tmp_path):
    np.save(tmp_path / "x.npy", DENSE.astype(np.float32))
    pq.write_table(table(a=DENSE[:, 0].astype(np.float32)), tmp_path / "x.parquet")
    sp.save_npz(tmp_path / "x.npz", CSR.astype(np.float32))
    for suffix in ("npy", "parquet", "npz"):
        assert {block.X.dtype for block in mm.open_source(tmp_path / f"x.{suffix}")} == {np.dtype(np.float32)}
    assert mm.open_source([(DENSE.astype(np.float32), None)]).dtype == np.float32


def test_text_is_what_scikit_learn_reads(tmp_path):
    path = svm(tmp_path / "x.svm")
    X, y = load_svmlight_file(str(path))
    got = whole(mm.open_source(path, block_size=SMALL))
    assert np.array_equal(got.X, X.toarray()) and np.array_equal(got.y, y)


def test_comments_blank_lines_line_ends_and_qid(tmp_path):
    text = "# all\n\n1 qid:7 1:2 3:4 # one\r\n  \n\t-1\t2:5e-1\r\n+2"
    got = whole(mm.open_source(put(tmp_path / "x.svm", text)))
    assert got.X.tolist() == [[2, 0, 4], [0, 0.5, 0], [0, 0, 0]] and got.y.tolist() == [1, -1, 2]


def test_lines_longer_than_a_block_and_blocks_of_comments(tmp_path):
    long = " ".join(f"{j}:{j}" for j in range(1, 300))
    text = f"1 1:1\n{'# nothing' * 50}\n2 {long}\n{'#' * 90}\n{'#' * 90}\n3 2:1"
    got = whole(mm.open_source(put(tmp_path / "x.svm", text), block_size=2e-5), seed=1)
    assert got.y.tolist() == [1, 2, 3] and got.X[1].tolist() == list(range(1, 300))
    packed = mm.open_source(put(tmp_path / "x.svm.gz", gzip.compress(text.encode())), block_size=2e-5)
    np.testing.assert_array_equal(whole(packed, seed=1).X, got.X)


def test_zero_based(tmp_path):
    path = put(tmp_path / "x.svm", "1 0:1 3:2\n")
    assert whole(mm.open_source(path, zero_based=True)).X.tolist() == [[1, 0, 0, 2]]
    refuse(mm.open_source(path).scan, ValueError, "line 1, column 3", "index is 0")


# ---- several labels ------------------------------------------------------------------------------------------


def multilabel_sources(folder):
    names = [f"l{j}" for j in range(5)]
    indicator = {name: MULTI[:, j].astype(np.int8) for j, name in enumerate(names)}
    pq.write_table(table(x=pa.array(list(DENSE)), **indicator), folder / "many.parquet")
    lists = [np.flatnonzero(row) for row in MULTI]
    pq.write_table(table(x=pa.array(list(DENSE)), y=lists), folder / "lists.parquet")
    put(folder / "x.svm", multi_text())
    sp.save_npz(folder / "x.npz", CSR)
    return {
        "text": mm.open_source(folder / "x.svm", block_size=SMALL),
        "cached": mm.open_source(folder / "x.svm", block_size=SMALL, cache=True),
        "columns": mm.open_source(folder / "many.parquet", label=names, block_size=SMALL),
        "lists": mm.open_source(folder / "lists.parquet", label="y", block_size=SMALL),
        "beside": mm.open_source(folder / "x.npz", label=beside(folder, MULTI.astype(bool), "Y"), block_size=SMALL),
        "list": mm.open_source([(DENSE[:9], MULTI[:9]), (DENSE[9:], sp.csr_matrix(MULTI[9:]))]),
    }


def test_several_labels_in_every_format(tmp_path):
    for name, source in multilabel_sources(tmp_path).items():
        assert source.multilabel and source.n_labels == 5, name
        assert source.scan().labels.tolist() == [0, 1, 2, 3, 4]
        for seed in (None, 2):
            got = whole(source, seed)
            np.testing.assert_array_equal(got.y, MULTI)
            np.testing.assert_array_equal(got.X, DENSE)


def test_several_labels_may_be_seen_late_or_be_declared(tmp_path):
    late = put(tmp_path / "late.svm", "1 1:1\n" * 40 + "0,2 1:1\n")
    got = whole(mm.open_source(late, block_size=2e-5))
    assert got.y.shape == (41, 3) and got.y[0].tolist() == [0, 1, 0] and got.y[-1].tolist() == [1, 0, 1]
    single = put(tmp_path / "single.svm", "1 1:1\n 1:1\n")
    assert whole(mm.open_source(single, multilabel=True, n_labels=4)).y.tolist() == [[0, 1, 0, 0], [0, 0, 0, 0]]
    both = mm.open_source([put(tmp_path / "one.svm", "1 1:1\n"), late])
    assert both.multilabel and whole(both).y.shape == (42, 3)


def test_bad_labels_are_refused_with_their_line(tmp_path):
    def scan(text, **options):
        return mm.open_source(put(tmp_path / "x.svm", text), block_size=2e-5, **options).scan

    refuse(scan("1 1:1\n1 2:1\n 1:1\n"), ValueError, "line 3, column 2", "no label")
    refuse(scan("# c\n1.5 1:1\n" + "1 1:1\n" * 9 + "1,2 1:1\n"), ValueError, "line 2, column 1", "whole numbers")
    refuse(scan("1 1:1\n\n2,2 1:1\n"), ValueError, "line 3, column 1", "twice")
    refuse(scan("1 1:1\n-1,2 1:1\n"), ValueError, "line 2, column 1", "whole numbers")
    refuse(scan("0 1:1\n1,2 1:1\n", multilabel=False), ValueError, "line 2", "multilabel=False")
    refuse(scan("0 1:1\n1,7 1:1\n", n_labels=3), ValueError, "label 7", "n_labels=3")
    refuse(mm.open_source([(DENSE, Y)], n_labels=3).scan, ValueError, "n_labels=3", "not multi-label")
    refuse(mm.open_source([(DENSE, Y)], multilabel=True).scan, ValueError, "multilabel=True")


def test_a_row_without_a_label_is_named_wherever_it_is(tmp_path):
    for at in (0, 30, 59):
        lines = ["1 1:1"] * 60
        lines[at] = " 2:1"
        path = put(tmp_path / "x.svm", "\n".join(lines))
        refuse(mm.open_source(path, block_size=2e-5).scan, ValueError, f"line {at + 1}, column 2", "there is no label")


def test_labels_are_told_apart_up_to_a_number(tmp_path, monkeypatch):
    y, limits = np.array([3.0, 1.0, 2.0, 1.0]), [f"maxmargin.data.sources.{name}.DISTINCT" for name in ("scan", "several")]
    for path, part in ((tmp_path / "a.svm", slice(0, 2)), (tmp_path / "b.svm", slice(2, 4))):
        svm(path, CSR[part], y[part])
    for most, expected in ((3, [1, 2, 3]), (2, None)):
        for name in limits:
            monkeypatch.setattr(name, most)
        for given in ([(DENSE[:2], y[:2]), (DENSE[2:4], y[2:])], [tmp_path / "a.svm", tmp_path / "b.svm"]):
            source = mm.open_source(given)
            found = source.scan().labels
            assert (found if found is None else found.tolist()) == expected and source.label_range == (1, 3)


# ---- bad files -----------------------------------------------------------------------------------------------

LINES = "1 1:1\n" * 50


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1 2:x", ["column 5", "number"]),
        ("x 2:1", ["column 1", "number"]),
        ("1 2:nan", ["column 5", "finite"]),
        ("-inf 2:1", ["column 2", "finite"]),
        ("1 2:1e400", ["column 5", "too large"]),
        ("1 3:1 2:1", ["column 7", "grow"]),
        ("1 3:1 3:1", ["column 7", "same"]),
        ("1 0:1", ["column 3", "index is 0"]),
        ("1 -4:1", ["column 3", "negative"]),
        ("1 99999999999999999999:1", ["column 3", "too large"]),
        ("1 2:1,5", ["column 6", "blank"]),
        ("1 2 3", ["column 4", "index:value"]),
        ("1 qid:x 2:1", ["column 7", "qid"]),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_malformed_lines_are_named(line, words, packed, tmp_path):
    text = (LINES + "# comment\n\n" + line + "\n" + LINES).encode()
    path = put(tmp_path / ("x.svm.gz" if packed else "x.svm"), gzip.compress(text) if packed else text)
    refuse(mm.open_source(path, block_size=2e-5).scan, ValueError, str(path), "line 53,", *words)


def test_a_feature_beyond_the_declared_ones(tmp_path):
    path = put(tmp_path / "x.svm", LINES + "1 2:1 9:1\n")
    refuse(mm.open_source(path, n_features=8, block_size=2e-5).scan, ValueError, "line 51, column 7", "n_features=8")
    cached = mm.open_source(path, cache=True)
    assert cached.n_features == 9
    refuse(mm.open_source(path, n_features=8, cache=True).scan, ValueError, "line 51, column 7")
    np.save(tmp_path / "x.npy", DENSE)
    refuse(mm.open_source(tmp_path / "x.npy", n_features=8).scan, ValueError, "12 features", "n_features=8")
    refuse(mm.open_source(tmp_path / "x.npy", n_features=13).scan, ValueError, "12 features", "n_features=13")


def test_an_index_that_the_size_of_the_text_does_not_explain(tmp_path):
    path = put(tmp_path / "x.svm", "1 1:1\n0 2147483646:1\n")
    words = "line 2, column 3", "too large for 21 bytes", "n_features", "16777216"
    refuse(mm.open_source(path).scan, ValueError, "x.svm", *words)
    refuse(lambda: mm.SVMClassifier().fit(mm.open_source(path)), ValueError, "x.svm", *words)
    refuse(mm.open_source([path, path]).scan, ValueError, "x.svm, line 2", "42 bytes")
    allowed = mm.open_source(path, n_features=2147483646, cache=True)
    assert allowed.scan().n_features == 2147483646
    refuse(mm.open_source(path, cache=True).scan, ValueError, "x.svm", *words)
    hashed = put(tmp_path / "h.svm", "1 1:1\n0 16777216:1\n")
    assert mm.open_source(hashed).scan().n_features == 2**24
    more = put(tmp_path / "m.svm", "# " + "-" * 2**22 + "\n1 1:1\n0 16777300:1\n")
    assert mm.open_source(more).scan().n_features == 16777300
    labels = put(tmp_path / "l.svm", "1,16777216 1:1\n")
    refuse(mm.open_source(labels).scan, ValueError, "l.svm has the label 16777216", "n_labels")
    assert mm.open_source(labels, n_labels=2**25).n_labels == 2**25


def test_float32_overflow(tmp_path):
    path = put(tmp_path / "x.svm", "1 1:1\n1 1:1 2:1e39\n")
    refuse(mm.open_source(path, dtype=np.float32).scan, ValueError, "line 2, column 9", "too large")
    assert whole(mm.open_source(path)).X[1, 1] == 1e39
    most = float(np.finfo(np.float32).max)
    edge = whole(mm.open_source(put(tmp_path / "y.svm", f"1.{'0' * 25}e39 1:{most!r}\n"), dtype=np.float32))
    assert edge.X.tolist() == [[most]] and edge.y.tolist() == [1e39]  # labels are float64 always


@pytest.mark.parametrize("name", ["x.svm.gz", "x.svm.xz", "x.parquet", "x.arrow", "x.npy", "x.npz", "stored.npz"])
@pytest.mark.parametrize("part", [0.0, 0.3, 0.9])
def test_truncated_files(name, part, tmp_path):
    path, labels = tmp_path / name, None
    if ".svm" in name:
        text = svm(tmp_path / "plain.svm").read_bytes()
        put(path, gzip.compress(text) if name.endswith("gz") else lzma.compress(text))
    elif name == "x.parquet":
        pq.write_table(dense_table(), path, row_group_size=23)
    elif name == "x.arrow":
        arrow_file(path, dense_table())
    elif name == "x.npy":
        np.save(path, DENSE)
    else:
        sp.save_npz(path, CSR, compressed=name == "x.npz")
    assert mm.open_source(path, label=labels).scan().n_rows == N
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    words = ["holds no rows"] if ".svm.gz" in name and part == 0 else ["npy"] if name == "x.npy" else ["truncated"]
    refuse(lambda: mm.open_source(path, block_size=SMALL).scan(), ValueError, str(path), *words)


def test_damaged_bytes_inside_a_packed_file(tmp_path):
    for name, pack in {"x.svm.gz": gzip.compress, "x.svm.xz": lzma.compress}.items():
        content = bytearray(pack(svm(tmp_path / "plain.svm").read_bytes()))
        content[len(content) // 2] ^= 0xFF
        refuse(mm.open_source(put(tmp_path / name, bytes(content))).scan, ValueError, name)


def test_a_damaged_csr_matrix(tmp_path):
    parts = {"data": CSR.data, "indices": CSR.indices, "indptr": CSR.indptr, "shape": CSR.shape, "format": b"csr"}

    def source(**changes):
        np.savez(tmp_path / "x.npz", **{**parts, **changes})
        return mm.open_source(tmp_path / "x.npz")

    assert source().scan().n_rows == N
    refuse(source(indices=CSR.indices + 5).scan, ValueError, "not a valid CSR matrix", "12 columns")
    refuse(source(indptr=CSR.indptr[::-1].copy()).scan, ValueError, "not a valid CSR matrix", "indptr")
    refuse(lambda: source(indptr=CSR.indptr[:-1]), ValueError, "not a valid CSR matrix")
    refuse(lambda: source(format=b"csc"), ValueError, "csc")
    longer = np.concatenate([CSR.data, [9.0, 9.0]])
    refuse(lambda: source(data=longer), ValueError, "x.npz is not a valid CSR matrix", "data and indices must have one length")
    refuse(lambda: source(shape=[N, 2**40]), ValueError, "x.npz must have from 1", str(2**40))
    backwards = sp.csr_matrix((CSR.data[::-1], CSR.indices[::-1], CSR.indptr[-1] - CSR.indptr[::-1]), CSR.shape)
    sp.save_npz(tmp_path / "x.npz", backwards)  # indices that fall are sorted
    np.testing.assert_array_equal(whole(mm.open_source(tmp_path / "x.npz")).X, backwards.toarray())


def test_arrays_of_npz(tmp_path):
    path = tmp_path / "x.npz"

    def source(label=None, write=np.savez, **arrays):
        write(path, **arrays)
        return mm.open_source(path, label=label, block_size=SMALL)

    texts = np.array(["b", "a"])[Y.astype(int) % 2]
    assert whole(source(X=DENSE, y=texts)).y.tolist() == texts.tolist()
    assert whole(source(X=DENSE.astype(np.float32))).X.dtype == np.float32
    found = whole(source("Y", np.savez_compressed, X=DENSE, Y=MULTI.astype(bool), y=texts))
    np.testing.assert_array_equal(found.y, MULTI)
    assert whole(source(beside(tmp_path, Y, "labels"), X=DENSE, y=texts)).y.tolist() == Y.tolist()
    refuse(lambda: source(A=DENSE), ValueError, "x.npz holds 'A'", "X=X, y=y", "save_npz")
    refuse(lambda: source("Labels", X=DENSE, labels=Y), ValueError, "'X', 'labels'", "'Labels' (nearest: 'labels')")
    refuse(lambda: source(X=DENSE, y=Y[:-1]), ValueError, f"x.npz has {N} rows", f"y has the shape ({N - 1},)")
    refuse(lambda: source(X=DENSE, y=Y.astype(object)), ValueError, "y in", "x.npz", "Python objects")
    refuse(lambda: source(X=DENSE, sample_weight=texts).scan(), ValueError, "x.npz", "weights must be numbers")
    refuse(lambda: source(X=Y), ValueError, "X in", "x.npz must be a matrix", f"({N},)")
    refuse(lambda: source(X=DENSE.astype(complex)), ValueError, "x.npz must hold real numbers", "complex128")
    refuse(lambda: source(write=np.savez_compressed, X=np.asfortranarray(DENSE)), ValueError, "x.npz", "ascontiguousarray")
    refuse(lambda: source(X=DENSE[:0]).scan(), ValueError, "x.npz holds no rows")


@pytest.mark.parametrize("kind", ["csr", "packed csr", "arrays", "packed arrays", "npy"])
def test_one_wrong_bit_in_a_numpy_file(kind, tmp_path):
    path, r = tmp_path / ("x.npy" if kind == "npy" else "x.npz"), np.random.default_rng(0)
    if "csr" in kind:
        sp.save_npz(path, CSR[:20], compressed="packed" in kind)
    elif kind == "npy":
        np.save(path, DENSE[:20])
    else:
        (np.savez_compressed if "packed" in kind else np.savez)(path, X=DENSE[:20], y=Y[:20])
    content, right = path.read_bytes(), whole(mm.open_source(path)).X
    for at in r.choice(128 if kind == "npy" else len(content), 60, replace=False):
        damaged = bytearray(content)
        damaged[at] ^= 1 << r.integers(8)
        path.write_bytes(damaged)
        try:
            found = whole(mm.open_source(path)).X
        except ValueError as error:
            assert str(path) in str(error) and len(str(error).splitlines()) == 1
        else:
            assert kind == "npy" or np.array_equal(found, right)  # a date, or what else says nothing about the numbers


def test_a_file_of_another_format(tmp_path):
    np.savez(tmp_path / "a.npz", X=DENSE)
    np.save(tmp_path / "a.npy", DENSE)
    files = {"a.npz": "x.npy", "a.npy": "x.npz"}
    for source, name in files.items():
        path = put(tmp_path / name, (tmp_path / source).read_bytes())
        refuse(lambda path=path: mm.open_source(path), ValueError, f"{path} is truncated, damaged or no {path.suffix} file")


def test_numbers_that_are_not_finite(tmp_path):
    X = DENSE.copy()
    X[77, 3] = np.nan
    np.save(tmp_path / "x.npy", X)
    refuse(mm.open_source(tmp_path / "x.npy", block_size=SMALL).scan, ValueError, "row 77", "finite")
    sp.save_npz(tmp_path / "x.npz", sp.csr_matrix(X))
    refuse(mm.open_source(tmp_path / "x.npz", block_size=SMALL).scan, ValueError, "row 77", "finite")
    pq.write_table(dense_table(X), tmp_path / "x.parquet", row_group_size=30)
    refuse(mm.open_source(tmp_path / "x.parquet", block_size=SMALL).scan, ValueError, "row 77", "finite")
    refuse(mm.open_source([(DENSE, np.where(np.arange(N) == 5, np.inf, Y))]).scan, ValueError, "row 5", "label")
    refuse(mm.open_source([(DENSE, Y, -WEIGHT)]).scan, ValueError, "weight", "negative")
    for value in (np.nan, np.inf, -0.5):
        weight = np.where(np.arange(N) == 105, value, WEIGHT)
        blocks = [(DENSE[:90], Y[:90], weight[:90]), (DENSE[90:], Y[90:], weight[90:])]
        refuse(mm.open_source(blocks).scan, ValueError, "row 105", f"this one is {value:g}")


def test_columns_of_tables(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(table(a=[1.0, 2.0], b=[[1, 2], [3, 4]], c=["u", "v"], d=[[1], [1, 2]], e=[1.0, None]), path)
    source = mm.open_source(path, features=["b", "a"], label="c")
    got = whole(source)
    assert got.X.tolist() == [[1, 2, 1], [3, 4, 2]] and got.y.tolist() == ["u", "v"] and source.label_range is None
    assert whole(mm.open_source(path, features="a")).y is None
    refuse(lambda: mm.open_source(path), ValueError, "'c'", "numbers")
    refuse(lambda: mm.open_source(path, features="z"), ValueError, "'z'", "'a', 'b', 'c', 'd', 'e'")
    refuse(lambda: mm.open_source(path, features="a", label="z"), ValueError, "'z'")
    refuse(lambda: mm.open_source(path, features="a", label=3), ValueError, "label", "3")
    refuse(mm.open_source(path, features="d").scan, ValueError, "'d'", "one length")
    refuse(mm.open_source(path, features="e").scan, ValueError, "row 1", "'e'", "null")
    refuse(mm.open_source(path, features="a", label="e").scan, ValueError, "row 1", "'e'")
    refuse(lambda: mm.open_source(path, features={"indices": "b"}), ValueError, "indices", "values")
    refuse(mm.open_source(path, features={"indices": "b", "values": "d"}).scan, ValueError, "different lengths")
    refuse(mm.open_source(path, features={"indices": "a", "values": "d"}).scan, ValueError, "'a'", "lists")
    pq.write_table(table(i=[[0, 9]], v=[[1.0, 2.0]]), path)
    pairs = mm.open_source(path, features={"indices": "i", "values": "v"}, n_features=9)
    refuse(pairs.scan, ValueError, "row 0", "index 9", "n_features=9")
    dictionary = table(x=[1.0, 2.0], y=pa.array(["p", "q"]).dictionary_encode())
    pq.write_table(dictionary, path)
    assert whole(mm.open_source(path, label="y")).y.tolist() == ["p", "q"]


def test_pyarrow_is_an_extra(tmp_path, monkeypatch):
    pq.write_table(dense_table(), tmp_path / "x.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refuse(lambda: mm.open_source(tmp_path / "x.parquet"), ImportError, "pyarrow", "maxmargin[parquet]")


def test_arguments(tmp_path):
    path = svm(tmp_path / "x.svm")
    np.save(tmp_path / "x.npy", DENSE)
    np.save(tmp_path / "short.npy", Y[:9])
    npy = tmp_path / "x.npy"
    refuse(lambda: mm.open_source(tmp_path / "no.svm"), FileNotFoundError, "no.svm", "does not exist")
    refuse(lambda: mm.open_source(tmp_path / "x.txt"), ValueError, "x.txt", "suffix")
    refuse(lambda: mm.open_source(tmp_path / "x.npy.gz"), ValueError, "x.npy.gz", "only text")
    refuse(lambda: mm.open_source([]), ValueError, "empty")
    refuse(lambda: mm.open_source(3), TypeError, "int")
    os.mkdir(tmp_path / "d.svm")
    refuse(lambda: mm.open_source(tmp_path / "d.svm"), FileNotFoundError, "folder without files")
    refuse(lambda: mm.open_source([tmp_path / "d.svm"]), ValueError, "not a file")
    refuse(lambda: mm.open_source(path, label=0), ValueError, "label", "each line")
    refuse(lambda: mm.open_source(path, weight=0), ValueError, "weight", ".npy")
    refuse(lambda: mm.open_source(path, features=[1]), ValueError, "features")
    refuse(lambda: mm.open_source(npy, cache=True), ValueError, "cache")
    refuse(lambda: mm.open_source(npy, label=12), ValueError, "label=12")
    refuse(lambda: mm.open_source(npy, label="y"), ValueError, "label='y'")
    refuse(lambda: mm.open_source(npy, label="no.npy"), FileNotFoundError, "no.npy")
    refuse(mm.open_source(npy, label=tmp_path / "short.npy").scan, ValueError, "short.npy", "9 entries", "200 rows")
    refuse(mm.open_source(path, weight=tmp_path / "short.npy").scan, ValueError, "short.npy", "9 entries", "200 rows")
    np.save(tmp_path / "long.npy", np.ones(N + 1))
    refuse(mm.open_source(path, weight=tmp_path / "long.npy").scan, ValueError, "long.npy", "201 entries", "200 rows")
    assert mm.open_source(path, block_size=1024).n_features == D
    assert mm.open_source(path.rename(tmp_path / "y.SVM")).n_features == D
    path = svm(path)
    refuse(lambda: mm.open_source([npy, npy], label=[tmp_path / "short.npy"]), ValueError, "1 files for 2")
    refuse(lambda: mm.open_source([npy, npy], label="short.npy"), ValueError, "list", "2 files")
    refuse(mm.open_source([npy, path]).scan, ValueError, "sparse", "dense")
    for bad in (0, -1, 2**31, 1.5, True, "9"):
        refuse(lambda bad=bad: mm.open_source(path, n_features=bad), ValueError, "n_features", repr(bad))
    for bad in (0, -1, 1e9, float("nan"), "1", True):
        refuse(lambda bad=bad: mm.open_source(path, block_size=bad), ValueError, "block_size", repr(bad))
    refuse(lambda: mm.open_source(path, zero_based=1), ValueError, "zero_based")
    refuse(lambda: mm.open_source(path, dtype=int), ValueError, "dtype", "int")
    refuse(lambda: mm.open_source(path, cache=tmp_path / "nowhere"), ValueError, "cache", "folder")
    refuse(lambda: mm.open_source(path, cache=3), ValueError, "cache", "3")
    for bad in (-1, 1.5, True):
        refuse(lambda bad=bad: mm.open_source(path).blocks(bad), ValueError, "seed", repr(bad))
    refuse(mm.open_source(put(tmp_path / "e.svm", "# nothing\n\n")).scan, ValueError, "e.svm", "no rows")
    np.save(tmp_path / "flat.npy", Y)
    refuse(lambda: mm.open_source(tmp_path / "flat.npy"), ValueError, "flat.npy", "matrix")
    np.save(tmp_path / "strings.npy", np.array([["a"]]))
    refuse(lambda: mm.open_source(tmp_path / "strings.npy"), ValueError, "strings.npy", "real numbers")
    np.save(tmp_path / "objects.npy", np.array([[None]], dtype=object), allow_pickle=True)
    refuse(lambda: mm.open_source(tmp_path / "objects.npy"), ValueError, "objects.npy")


def test_choice_of_columns(tmp_path):
    np.save(tmp_path / "x.npy", DENSE)
    for columns in ([3, -1, 0], 5):
        got = whole(mm.open_source(tmp_path / "x.npy", features=columns))
        np.testing.assert_array_equal(got.X, DENSE[:, np.atleast_1d(columns)])


# ---- iterables -----------------------------------------------------------------------------------------------


def test_a_generator_is_refused_at_once():
    refuse(lambda: mm.open_source((DENSE, Y) for _ in range(2)), ValueError, "generator", "only once")
    refuse(lambda: mm.open_source(iter([(DENSE, Y)])), ValueError, "only once")
    refuse(lambda: mm.open_source([(DENSE, Y)], label="y"), ValueError, "label")


def test_dates_in_blocks_that_are_frames():
    frame = pd.DataFrame({"a": [1.0, 2.0], "when": pd.to_datetime(["2026-01-01", "2026-01-02"])})
    refuse(mm.open_source([(frame, [0, 1])]).scan, ValueError, "block 0", "column 'when'", "days since")


def test_blocks_of_an_iterable_are_checked():
    def scan(*blocks):
        return mm.open_source(list(blocks)).scan

    refuse(scan((DENSE, Y), DENSE), ValueError, "block 1", "(X, y)")
    refuse(scan((DENSE, Y), (DENSE[:, :5], Y)), ValueError, "row 200", "5 features", "12 before")
    refuse(scan((DENSE, Y), (CSR, Y)), ValueError, "row 200", "sparse")
    refuse(scan((DENSE, Y[:5])), ValueError, "block 0", "200 rows")
    refuse(scan((DENSE, Y, WEIGHT[:5])), ValueError, "block 0", "weights")
    refuse(scan((Y, Y)), ValueError, "block 0", "matrix")
    refuse(scan((DENSE, Y), (DENSE, None)), ValueError, "row 200", "another kind")
    refuse(scan((DENSE, np.array([object()] * N))), ValueError, "labels must be numbers or strings")
    refuse(scan((DENSE, 3 * MULTI)), ValueError, "0 and 1")
    refuse(scan((DENSE, MULTI), (DENSE, MULTI[:, :4])), ValueError, "row 200", "4 columns from here on, 5 before")
    refuse(scan((DENSE, Y, WEIGHT[:, None])), ValueError, "block 0", "weights are of shape (200, 1)")
    objects = MULTI.astype(object)
    objects[7, 1] = None
    refuse(scan((DENSE, Y), (DENSE, objects)), ValueError, "block 1", "the label of its row 7 is None")
    refuse(scan((DENSE, Y), (DENSE, Y.astype(str))), ValueError, "row 200", "strings after numbers")
    assert whole(mm.open_source([(DENSE[:2], np.array(["a", "b"], dtype=object))])).y.tolist() == ["a", "b"]
    assert whole(mm.open_source([(DENSE[:2] > 0, [1, 2])])).X.tolist() == (DENSE[:2] > 0).astype(float).tolist()


def test_blocks_without_rows_and_entries_that_come_twice():
    empty = (DENSE[:0], Y[:0])
    source = mm.open_source([empty, (DENSE[:50], Y[:50]), empty, (DENSE[50:], Y[50:]), empty])
    for seed in (None, 0, 1):
        got = whole(source, seed)
        assert np.array_equal(got.X, DENSE) and np.array_equal(got.y, Y)
    twice = sp.csr_matrix((np.array([1.0, 2.0, 4.0, 8.0]), np.array([2, 0, 2, 1]), np.array([0, 3, 4])), shape=(2, 3))
    assert whole(mm.open_source([(twice, [0, 1])])).X.tolist() == [[2, 0, 5], [0, 8, 0]]
    assert twice.data.tolist() == [1, 2, 4, 8]  # the user's own is left as it was


# ---- files together ------------------------------------------------------------------------------------------


def test_groups_and_labels_of_files_together(tmp_path):
    lines = [f"{y} qid:{g} 1:{k + 1}" for k, (y, g) in enumerate([(5, 7), (-2, 7), (3, 8), (9, 2), (0, 2), (1, 4)])]
    paths = [put(tmp_path / f"{k}.svm", "\n".join(lines[part])) for k, part in enumerate([slice(0, 2), slice(2, 3), slice(3, 6)])]
    source = mm.open_source(paths, block_size=2e-5)
    assert source.n_rows is None and source.label_range == (-2, 9) and source.n_rows == 6
    for seed in (None, 1, 2):
        got = whole(source, seed)
        assert got.group.tolist() == [7, 7, 8, 2, 2, 4] and got.y.tolist() == [5, -2, 3, 9, 0, 1]
        assert got.X.ravel().tolist() == [1, 2, 3, 4, 5, 6]
    pq.write_table(table(a=[1.0]), tmp_path / "0.parquet")
    assert mm.open_source([tmp_path / "0.parquet"] * 2).n_rows == 2


def test_files_that_cannot_be_one_source(tmp_path):
    for k, X in enumerate((DENSE, DENSE[:, :7], DENSE.astype(np.float32))):
        np.save(tmp_path / f"{k}.npy", X)
    words = "1.npy has 7 features", "0.npy has 12"
    refuse(mm.open_source([tmp_path / "0.npy", tmp_path / "1.npy"]).scan, ValueError, *words)
    refuse(lambda: mm.open_source([tmp_path / "0.npy", tmp_path / "2.npy"]), ValueError, "different dtypes", "dtype=numpy")
    both = mm.open_source([tmp_path / "0.npy", tmp_path / "2.npy"], dtype=np.float64)
    assert both.dtype == np.float64 and both.n_rows == 2 * N
    for name, labels in (("words", ["u", "v"]), ("numbers", [0.0, 1.0])):
        pq.write_table(table(a=[1.0, 2.0], y=labels), tmp_path / f"{name}.parquet")
    kinds = mm.open_source([tmp_path / "words.parquet", tmp_path / "numbers.parquet"], label="y")
    refuse(kinds.scan, ValueError, "numbers.parquet", "labels are of different kinds")
    several, single = put(tmp_path / "a.svm", "0,2 1:1\n"), put(tmp_path / "b.svm", "1.5 1:1\n")
    refuse(mm.open_source([several, single]).scan, ValueError, "b.svm has labels that are not whole numbers", "multi-label")


class Unsteady:
    """Other data in every pass."""

    def __init__(self, *passes):
        self.passes = list(passes)

    def __iter__(self):
        return iter(self.passes.pop(0))


@pytest.mark.parametrize(
    "second", [[(DENSE + 1e-9, Y)], [(DENSE, Y[::-1])], [], [(DENSE, Y), (DENSE, Y)], [(DENSE[:9], Y[:9]), (DENSE[9:], Y[9:])]]
)
def test_an_iterable_that_changes_between_passes(second):
    source = mm.open_source(Unsteady([], [(DENSE, Y)], second))  # the first only to see that it can be done
    source.scan()
    refuse(lambda: list(source.blocks()), mm.SourceChangedError, "other data than in its first pass")


def test_errors_of_an_iterable_come_through():
    class Breaks:
        def __iter__(self):
            yield DENSE, Y
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        mm.open_source(Breaks()).scan()


# ---- files that change ---------------------------------------------------------------------------------------


def keep_time(path, change):
    """Change a file and give it the time that it had."""
    before = os.stat(path)
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(bytes(content))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("name", ["svm", "gz", "parquet", "arrow", "npy", "npz", "several"])
def test_a_file_that_changes_between_passes(name, tmp_path):
    source = MAKERS[name](tmp_path)
    source.scan()
    source.check_unchanged()
    first = source.sources[0] if name == "several" else source
    path = first.path
    os.utime(path, ns=(1, 1))
    for call in (source.check_unchanged, source.blocks):
        refuse(call, mm.SourceChangedError, str(path), "changed")
    path.unlink()
    refuse(source.check_unchanged, mm.SourceChangedError, str(path))


@pytest.mark.parametrize("name", ["svm", "npy"])
def test_a_change_that_leaves_size_and_time(name, tmp_path):
    """The checksum of the block tells."""
    source = MAKERS[name](tmp_path)
    source.scan()
    digits = {c: b"0123456789".find(c) for c in b"12345678"}

    def change(content):
        at = len(content) // 2
        while content[at] not in digits or content[at - 1] not in b".0123456789":
            at += 1
        content[at] += 1

    keep_time(tmp_path / f"x.{name}", change)
    refuse(lambda: list(source.blocks(0)), mm.SourceChangedError, "other data than in its first pass", "from row")


def test_groups_that_change_and_leave_size_and_time(tmp_path):
    source = mm.open_source(put(tmp_path / "x.svm", "1 qid:3 1:1\n2 qid:4 1:1\n"))
    source.scan()
    keep_time(tmp_path / "x.svm", lambda content: content.__setitem__(content.index(b"4"), ord("3")))
    refuse(lambda: list(source.blocks()), mm.SourceChangedError, "other data than in its first pass")


def test_a_file_that_changes_during_the_scan(tmp_path, monkeypatch):
    source = MAKERS["svm"](tmp_path)
    scan = source._scan
    monkeypatch.setattr(source, "_scan", lambda: (scan(), os.utime(tmp_path / "x.svm", ns=(1, 1)))[0])
    refuse(source.scan, mm.SourceChangedError, "x.svm", "changed")


def test_a_text_that_is_malformed_later_and_leaves_size_and_time(tmp_path):
    source = MAKERS["svm"](tmp_path)
    source.scan()
    keep_time(tmp_path / "x.svm", lambda content: content.__setitem__(content.index(b":"), ord("x")))
    refuse(lambda: list(source.blocks()), mm.SourceChangedError, "x.svm", "line 1", "first pass")


def test_a_text_that_is_cut_off_while_it_is_read(tmp_path):
    with pytest.raises(mm.SourceChangedError, match=r"x\.svm is shorter"):
        list(reread(io.BytesIO(b"1 1:1\n1 "), [(0, 6, 0), (6, 6, 1)], tmp_path / "x.svm"))


def test_a_file_that_changes_during_a_pass(tmp_path):
    source = MAKERS["svm"](tmp_path)
    blocks = source.blocks()
    next(blocks)
    with open(tmp_path / "x.svm", "ab") as file:
        file.write(b"1 1:1\n")
    refuse(lambda: list(blocks), mm.SourceChangedError, "x.svm", "changed")
    with open(tmp_path / "x.svm", "wb") as file:
        file.write(b"nonsense\n")
    refuse(lambda: list(source.blocks()), mm.SourceChangedError, "x.svm", "changed")


# ---- the cache -----------------------------------------------------------------------------------------------


def caches(folder):
    return sorted(folder.glob("*.blocks*"))


@pytest.fixture
def parsed_bytes(monkeypatch):
    """Counts the bytes that the parser sees."""
    from maxmargin.data.sources import text

    seen = []
    real = text.parsed
    monkeypatch.setattr(text, "parsed", lambda data, *rest: (seen.append(data.size), real(data, *rest))[1])
    return seen


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_cache_spares_the_parser(elsewhere, tmp_path, parsed_bytes):
    path, folder = svm(tmp_path / "x.svm"), tmp_path
    if elsewhere:
        folder = tmp_path / "caches"
        folder.mkdir()
    for _ in range(2):
        source = mm.open_source(path, cache=folder if elsewhere else True, block_size=SMALL)
        for seed in (None, 1):
            got = whole(source, seed)
            assert np.array_equal(got.X, DENSE) and np.array_equal(got.y, Y)
    assert sum(parsed_bytes) == path.stat().st_size  # once
    assert len(caches(folder)) == 1 and caches(folder)[0].name.startswith("x.svm.")


def test_options_do_not_share_a_cache(tmp_path):
    path = put(tmp_path / "x.svm", "1 1:1 2:0.1\n")
    for zero_based, dtype in [(False, None), (True, None), (False, np.float32)]:
        source = mm.open_source(path, cache=True, zero_based=zero_based, dtype=dtype)
        assert source.n_features == 2 + zero_based and whole(source).X.dtype == (dtype or np.float64)
    assert len(caches(tmp_path)) == 3


@pytest.mark.parametrize("same_time", [False, True])
def test_a_cache_is_never_stale(same_time, tmp_path):
    path = put(tmp_path / "x.svm", "1 1:1\n")
    mm.open_source(path, cache=True).scan()
    before = os.stat(path)
    put(path, "1 1:2\n")
    if same_time:  # same size, same time: the checksum tells
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))
    assert whole(mm.open_source(path, cache=True)).X.tolist() == [[2]]
    assert whole(mm.open_source(path, cache=True)).X.tolist() == [[2]] and len(caches(tmp_path)) == 1


@pytest.mark.parametrize("at", [30, -20, -60, 0])
def test_a_damaged_cache_is_written_anew(at, tmp_path):
    path = svm(tmp_path / "x.svm")
    mm.open_source(path, cache=True, block_size=SMALL).scan()
    (file,) = caches(tmp_path)
    good = file.read_bytes()
    bad = bytearray(good)
    bad[at] ^= 0xFF
    file.write_bytes(bytes(bad))
    source = mm.open_source(path, cache=True, block_size=SMALL)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.testing.assert_array_equal(whole(source).X, DENSE)
    assert [("damaged" in str(w.message)) for w in caught] == ([True] if at == 30 else [])
    assert file.exists() == (at != 30)  # a damaged block is met in the pass, which then parses the text
    mm.open_source(path, cache=True, block_size=SMALL).scan()
    assert file.read_bytes() == good


@pytest.mark.parametrize("length", [0, 10, 500])
def test_half_a_cache_is_not_used(length, tmp_path):
    path = svm(tmp_path / "x.svm")
    mm.open_source(path, cache=True, block_size=SMALL).scan()
    (file,) = caches(tmp_path)
    good = file.read_bytes()
    file.write_bytes(good[:length])
    np.testing.assert_array_equal(whole(mm.open_source(path, cache=True, block_size=SMALL)).X, DENSE)
    assert file.read_bytes() == good


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("change", ["damaged", "cannot be read"])
def test_a_cache_that_changes_while_it_is_in_use(packed, change, tmp_path):
    path = svm(tmp_path / "x.svm")
    if packed:
        path = put(tmp_path / "x.svm.gz", gzip.compress(path.read_bytes()))
    source = mm.open_source(path, cache=True, block_size=SMALL)
    source.scan()
    (file,) = caches(tmp_path)
    if change == "damaged":
        half = len(file.read_bytes()) // 2
        keep_time(file, lambda content: content.__setitem__(half, content[half] ^ 0xFF))
    else:
        file.unlink()
    for seed in (None, 1):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got = whole(source, seed)
        assert np.array_equal(got.X, DENSE) and np.array_equal(got.y, Y)
        assert [change in str(w.message) for w in caught] == ([True] if seed is None else [])
    assert caches(tmp_path) == []


@pytest.mark.parametrize("lines", ["1 1:1\n-3 2:5\n", "1 1:1\n2,3 4:1\n", "1 1:1\n 4:1\n", "0.5 1:1\n1e300 3:2\n"])
def test_what_the_scan_finds_is_in_the_cache(lines, tmp_path):
    """A source of the cache says the same as one of the text, whatever the options: also what is wrong."""
    path = put(tmp_path / "x.svm", lines)

    def said(cache, **options):
        source = mm.open_source(path, cache=cache, **options)
        try:
            n_rows, n_features, labels = source.scan()
            return n_rows, n_features, labels.tolist(), source.label_range, source.multilabel, source.n_labels, whole(source)
        except ValueError as error:
            return re.sub(r"(line|row) .*?:", "", str(error))

    for options in ({}, {"multilabel": True}, {"multilabel": False}, {"n_labels": 3}, {"n_features": 7}, {"n_features": 2}):
        expected = said(None, **options)
        for _ in range(2):
            assert repr(said(True, **options)) == repr(expected)


class FullDisk:
    """A file on a disk with little room."""

    room = 3000

    def __init__(self, path, mode):
        self.file = open(path, mode)  # noqa: SIM115 - closed by close()
        self.tell = self.file.tell

    def write(self, data):
        if self.file.tell() + len(data) > self.room:
            raise OSError(28, "No space left on device")
        return self.file.write(data)

    def close(self):
        self.file.close()


def test_a_disk_that_fills_up_while_the_cache_is_written(tmp_path, monkeypatch):
    path = svm(tmp_path / "x.svm")
    monkeypatch.setattr(block_cache, "open", lambda p, mode: (FullDisk if mode == "wb" else open)(p, mode), raising=False)
    source = mm.open_source(path, cache=True, block_size=SMALL)
    with pytest.warns(UserWarning, match="No space left on device.*without it"):
        source.scan()
    assert caches(tmp_path) == []
    for seed in (None, 1):
        np.testing.assert_array_equal(whole(source, seed).X, DENSE)


def test_a_malformed_text_leaves_no_cache(tmp_path):
    path = put(tmp_path / "x.svm", LINES + "1 x\n")
    refuse(mm.open_source(path, cache=True, block_size=2e-5).scan, ValueError, "line 51")
    assert caches(tmp_path) == []


# ---- memory and threads --------------------------------------------------------------------------------------


def peak(call):
    """Bytes that Python and NumPy hold at the most."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["svm", "svm.gz", "svm cached", "npy", "npz"])
def test_memory_is_a_few_blocks_whatever_the_size(kind, tmp_path):
    block = 0.125  # megabytes

    def source(repeats):
        path = tmp_path / f"{repeats}.{kind.split()[0]}"
        if "svm" in kind:
            text = svm(tmp_path / "part.svm").read_bytes() * repeats
            put(path, gzip.compress(text, 1) if "gz" in kind else text)
        elif kind == "npy":
            np.save(path, np.tile(DENSE, (repeats, 1)))
        else:
            sp.save_npz(path, sp.csr_matrix(np.tile(DENSE, (repeats, 1))))
        return mm.open_source(path, block_size=block, cache=True if "cached" in kind else None)

    def use(repeats):
        one = source(repeats)
        return peak(lambda: (one.scan(), [None for _ in one.blocks(0)]))

    use(2)  # imports and tables
    small, large = use(60), use(240)
    assert large < 12 * block * 2**20 and large < 1.3 * small + 2e5


def test_reading_ahead_stops_when_the_iterator_is_closed(tmp_path):
    def reading():
        return [t for t in threading.enumerate() if t.name.startswith("maxmargin-read-ahead")]

    source = MAKERS["svm"](tmp_path)
    source.scan()
    assert reading() == []
    blocks = source.blocks()
    next(blocks)
    assert len(reading()) == 1
    blocks.close()
    assert reading() == []
    for block in source.blocks(1):
        del block
        break
    assert reading() == []
    source.blocks()  # never started
    assert reading() == []


def test_reading_is_one_item_ahead_and_errors_arrive_in_turn():
    made = []

    def items():
        for k in range(5):
            if k == 4:
                raise ZeroDivisionError
            made.append(k)
            yield k

    got = []
    with closing(read_ahead(items())) as ahead, pytest.raises(ZeroDivisionError):
        for k in ahead:
            assert max(made) <= k + 2
            got.append(k)
    assert got == [0, 1, 2, 3]


def test_checksums_tell_blocks_apart():
    piece = pieces.RawBlock(DENSE, Y)
    given = (DENSE.reshape(D, N), Y), (DENSE, Y, WEIGHT), (DENSE,), (CSR, Y)
    others = [pieces.RawBlock(*arrays) for arrays in given]
    assert len({pieces.checksum(p) for p in [piece, *others]}) == 5
    assert pieces.checksum(piece) == pieces.checksum(pieces.RawBlock(DENSE.copy(), Y.copy()))


def test_headers_are_read_by_one_thread_at_a_time(tmp_path):
    """Without that CPython 3.11 says "AST constructor recursion depth mismatch" now and then."""
    path, before = tmp_path / "x.npy", (sys.getswitchinterval(), gc.get_threshold())
    np.save(path, np.zeros((3, 4)))
    sys.setswitchinterval(1e-6)
    gc.set_threshold(5)
    try:
        shapes = in_threads(lambda _: mapped(path).shape, range(400), 4)
    finally:
        sys.setswitchinterval(before[0])
        gc.set_threshold(*before[1])
    assert shapes == [(3, 4)] * 400
