"""Tables as sources: CSV, folders, patterns, datasets; columns of categories; what is refused, and where it stands."""

import csv as reference
import gzip
import lzma
import pickle
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from helpers.refusals import refuse
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import murmurhash3_32

import maxmargin as mm
from maxmargin.data.sources import encoding as encodings
from maxmargin.data.sources import tables
from maxmargin.data.sources.dealt import folds_of_rows, shares_of_rows

SMALL = 1e-3  # megabytes: many blocks
N = 300
rng = np.random.default_rng(3)
FRAME = pd.DataFrame(
    {
        "city": rng.choice(["Bonn", "Aachen", "Köln, am Rhein", 'the "old" one'], N),
        "kind": pd.Categorical(rng.choice(["b", "a", "c"], N)),
        "age": rng.standard_normal(N).round(6),
        "count": rng.integers(0, 4, N),
        "member": rng.random(N) < 0.5,
        "y": rng.choice([-1, 1], N),
        "w": rng.integers(0, 3, N),
    }
)
X_COLUMNS = ["city", "kind", "age", "count", "member"]


def in_memory(frame=FRAME):
    """The same through scikit-learn."""
    first = ColumnTransformer([("c", OneHotEncoder(), ["city", "kind"])], remainder="passthrough", sparse_threshold=1.0)
    X = first.set_output(transform="default").fit_transform(frame[X_COLUMNS].assign(member=frame.member.astype(float)))
    return sp.csr_matrix(X).toarray(), [name.split("__")[1] for name in first.get_feature_names_out()]


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def whole(source, seed=None):
    """X, y and weights of all rows in the order of their numbers."""
    blocks = list(source.blocks(seed))
    rows = np.concatenate([block.rows for block in blocks])
    order = np.argsort(rows)
    assert np.array_equal(rows[order], np.arange(source.n_rows))
    for block in blocks:
        assert block.X.shape == (block.rows.size, source.n_features) and block.X.dtype == source.dtype
        if sp.issparse(block.X):
            block.X.check_format(full_check=True)
    X = np.concatenate([block.X.toarray() if sp.issparse(block.X) else block.X for block in blocks])[order]
    rest = [[getattr(block, name) for block in blocks] for name in ("y", "weight", "group")]
    return X, *(None if parts[0] is None else np.concatenate(parts)[order] for parts in rest)


# ---- the same table in every form ----------------------------------------------------------------------------


def csv(folder, **options):
    FRAME.to_csv(folder / "x.csv", index=False)
    return mm.open_source(folder / "x.csv", **options)


def csv_gz(folder, **options):
    return mm.open_source(put(folder / "x.csv.gz", gzip.compress(FRAME.to_csv(index=False).encode())), **options)


def tsv_xz(folder, **options):
    return mm.open_source(put(folder / "x.tsv.xz", lzma.compress(FRAME.to_csv(index=False, sep="\t").encode())), **options)


def semicolons(folder, **options):
    text = FRAME.to_csv(index=False, header=False, sep=";", quotechar="'").replace("\n", "\r\n\r\n")  # blank lines are skipped
    return mm.open_source(put(folder / "x.csv", text), delimiter=";", quote="'", header=[*FRAME.columns], **options)


def threads(folder, **options):
    FRAME.to_csv(folder / "x.csv", index=False)
    return mm.open_source(folder / "x.csv", n_jobs=3, **{**options, "block_size": 16})


def parquet(folder, **options):
    pq.write_table(pa.Table.from_pandas(FRAME, preserve_index=False), folder / "x.parquet", row_group_size=70)
    return mm.open_source(folder / "x.parquet", **options)


def arrow(folder, **options):
    content = pa.Table.from_pandas(FRAME, preserve_index=False).unify_dictionaries()
    with pa.OSFile(str(folder / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, content.schema) as writer:
        writer.write_table(content, max_chunksize=64)
    return mm.open_source(folder / "x.arrow", **options)


def parts(folder, write):
    for k, (first, last) in enumerate(pairwise([0, 90, 91, N])):
        write(FRAME.iloc[first:last], folder / "parts" / f"part-{k}")


def parquet_parts(folder):
    (folder / "parts").mkdir()
    parts(folder, lambda frame, path: frame.astype({"kind": str}).to_parquet(f"{path}.parquet", index=False))
    put(folder / "parts" / "_SUCCESS", "")
    return folder / "parts"


def parquet_folder(folder, **options):
    return mm.open_source(f"{parquet_parts(folder)}/", **options)


def csv_pattern(folder, **options):
    (folder / "parts").mkdir()
    parts(folder, lambda frame, path: frame.to_csv(f"{path}.csv", index=False))
    put(folder / "parts" / "notes.txt", "no data")
    return mm.open_source(folder / "parts" / "part-*.csv", **options)


def dataset(folder, **options):
    return mm.open_source(ds.dataset(parquet_parts(folder)), **options)


def arrow_table(folder, **options):
    return mm.open_source(pa.Table.from_pandas(FRAME, preserve_index=False), **options)


FORMS = [csv, csv_gz, tsv_xz, semicolons, threads, parquet, arrow, parquet_folder, csv_pattern, dataset, arrow_table]
OPTIONS = {"label": "y", "weight": "w", "features": X_COLUMNS, "block_size": SMALL}


@pytest.fixture(autouse=True)
def _many_runs(monkeypatch):
    monkeypatch.setattr("maxmargin.data.sources.csv_files.LEAST_BYTES", 1 << 10)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_what_scikit_learn_makes(form, tmp_path):
    source = form(tmp_path, **OPTIONS, categorical="onehot")
    X, names = in_memory()
    for seed in (None, 4):
        got, y, weight, group = whole(source, seed)
        np.testing.assert_array_equal(got, X)
        np.testing.assert_array_equal(y, FRAME.y)
        np.testing.assert_array_equal(weight, FRAME.w)
        assert group is None
    assert source.feature_names == names and source.n_features == len(names) and source.n_rows == N
    assert source.encoding.names == X_COLUMNS and source.encoding.n_features == len(names)
    again = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(whole(again)[0], X)


def test_numbers_alone_stay_dense(tmp_path):
    source = csv(tmp_path, label="y", features=["age", "count", "member"])
    X, y, weight, _ = whole(source)
    np.testing.assert_array_equal(X, FRAME[["age", "count", "member"]].astype(float))
    assert source.feature_names == ["age", "count", "member"] and source.encoding is None and weight is None
    assert y.dtype == np.float64 and source.scan().labels.tolist() == [-1.0, 1.0]
    assert whole(csv(tmp_path, label="city", features="age"))[1].tolist() == FRAME.city.tolist()
    assert whole(csv(tmp_path, group="kind", features="age"))[3].tolist() == FRAME.kind.tolist()


def test_packed_text_keeps_the_order_of_its_blocks_and_plain_text_does_not(tmp_path):
    firsts = [[block.rows.min() for block in form(tmp_path, **OPTIONS, categorical="hash").blocks(5)] for form in (csv, csv_gz)]
    assert len(firsts[0]) > 5 and firsts[0] != sorted(firsts[0]) and firsts[1] == sorted(firsts[1])


def test_hashed_columns(tmp_path):
    source = csv(tmp_path, **{**OPTIONS, "features": ["city", "age", "count"]}, categorical={"city": 5, "count": "onehot"})
    X = whole(source)[0]
    assert source.feature_names == [*(f"city#{j}" for j in range(5)), "age", *(f"count_{k}" for k in range(4))]
    for text in FRAME.city.unique():  # one feature a category, always the same
        of_it = X[FRAME.city == text, :5]
        assert np.all(of_it.sum(axis=1) == 1) and np.all(of_it == of_it[0])
    np.testing.assert_array_equal(X[:, 6:].argmax(axis=1), FRAME["count"])
    wide = parquet(tmp_path, **OPTIONS, categorical="hash")
    assert wide.n_features == 2 * encodings.HASHED_WIDTH + 3


def test_a_hashed_category_has_the_feature_that_its_text_says(tmp_path):
    """MurmurHash3 modulo the features, also of whole numbers and truth values: models and data of other formats meet there."""
    table = pa.table({"s": [f"Köln {k}" for k in range(40)], "n": range(40), "b": [k % 3 == 0 for k in range(40)]})
    X = whole(mm.open_source(table, categorical={"s": 3, "n": 7, "b": 5}))[0]
    columns = [[f"Köln {k}" for k in range(40)], map(str, range(40)), ["true" if k % 3 == 0 else "false" for k in range(40)]]
    for texts, width, first in zip(columns, (3, 7, 5), (0, 3, 10)):
        expected = [murmurhash3_32(text, positive=True) % width for text in texts]
        np.testing.assert_array_equal(X[:, first : first + width], np.eye(width)[expected])
    assert mm.open_source(table, features="b", categorical={"b": "onehot"}).feature_names == ["b_false", "b_true"]
    text = put(tmp_path / "x.csv", "n\n" + "\n".join(map(str, range(40))) + "\n")
    np.testing.assert_array_equal(whole(mm.open_source(text, categorical={"n": 7}))[0], X[:, 3:10])


def test_hive_partitions(tmp_path):
    for (year, kind), part in FRAME.groupby([np.arange(N) % 2 + 2025, "kind"], observed=True):
        folder = tmp_path / "all" / f"year={year}" / f"place=a%20{kind}"
        folder.mkdir(parents=True)
        part[["age", "y"]].to_parquet(folder / "x.parquet", index=False)
    source = mm.open_source(tmp_path / "all", label="y", categorical="onehot")
    assert source.feature_names == ["age", "year", "place_a a", "place_a b", "place_a c"]
    X = whole(source)[0]
    assert sorted(X[:, 0]) == sorted(FRAME.age) and set(X[:, 1]) == {2025.0, 2026.0} and np.all(X[:, 2:].sum(axis=1) == 1)
    put(tmp_path / "all" / "year=2025" / "x.parquet", (folder / "x.parquet").read_bytes())
    refuse(lambda: mm.open_source(tmp_path / "all", categorical="onehot"), ValueError, "'place'", "one source")


def test_columns_in_the_names_of_folders(tmp_path):
    """Numbers where all of them are whole ones written as such, in the order of the names of the files."""
    for k, (week, day, part) in enumerate([("10", "02", "x"), ("9", "1", "-3"), ("-4", "1", "0")]):
        folder = tmp_path / f"week={week}" / "raw" / f"_the%20day={day}" / f"part={part}"
        put(folder / "b.csv", f"x\n{10 * k + 1}\n")
        put(folder / "a.csv", f"x\n{10 * k}\n")
        put(folder / ".a.csv.crc", "no data")
        put(folder / "_temporary" / "a.csv", "x\n-1\n")
    source = mm.open_source(tmp_path, categorical="onehot")
    assert source.feature_names == ["x", "week", *("_the day_02", "_the day_1"), *("part_-3", "part_0", "part_x")]
    names = sorted(tmp_path.rglob("[ab].csv"))
    expected = [float(path.read_text().split()[1]) for path in names if "_temporary" not in path.parts]
    X = whole(source)[0]
    assert X[:, 0].tolist() == expected and X[:, 1].tolist() == [-4, -4, 10, 10, 9, 9]
    np.testing.assert_array_equal(X[:, 2:4], np.eye(2)[[1, 1, 0, 0, 1, 1]])
    put(tmp_path / "week=__HIVE_DEFAULT_PARTITION__" / "raw" / "_the%20day=1" / "part=2" / "a.csv", "x\n1\n")
    refuse(lambda: mm.open_source(tmp_path, categorical="onehot"), ValueError, "a folder without a value", "missing value")
    clash = put(tmp_path / "clash" / "x=1" / "a.csv", "x\n1\n")
    refuse(lambda: mm.open_source(clash.parents[1]), ValueError, "a.csv has a column 'x'", "x=1")


def test_a_file_whose_name_looks_like_a_pattern(tmp_path):
    put(tmp_path / "x1.csv", "a\n1\n")
    assert whole(mm.open_source(tmp_path / "x[1].csv"))[0].tolist() == [[1]]
    assert whole(mm.open_source(put(tmp_path / "x[1].csv", "a\n2\n")))[0].tolist() == [[2]]
    assert whole(mm.open_source(put(tmp_path / "X.TSV.GZ", gzip.compress(b"a\tb\n3\t4\n"))))[0].tolist() == [[3, 4]]


def test_datasets_filtered_and_with_partitions(tmp_path):
    table = pa.Table.from_pandas(FRAME.astype({"kind": str}), preserve_index=False)
    ds.write_dataset(table, tmp_path / "d", format="parquet", partitioning=["kind"], partitioning_flavor="hive")
    found = ds.dataset(tmp_path / "d", partitioning="hive")
    source = mm.open_source(found, label="y", features=["age", "kind"], categorical="onehot", block_size=SMALL)
    X = whole(source)[0]
    np.testing.assert_array_equal(np.sort(X[:, 0]), np.sort(FRAME.age))
    np.testing.assert_array_equal(X[:, 1:].sum(axis=0), FRAME.kind.value_counts().sort_index())
    few = mm.open_source(found.filter(ds.field("age") > 0), label="y", features=["age", "kind"], categorical="onehot")
    np.testing.assert_array_equal(np.sort(whole(few)[0][:, 0]), np.sort(FRAME.age[FRAME.age > 0]))
    pq.write_table(table.drop_columns(["age", "kind"]), tmp_path / "d" / "kind=a" / "z.parquet")
    refuse(lambda: mm.open_source(ds.dataset(tmp_path / "d", partitioning="hive")), ValueError, "z.parquet", "'age'")
    refuse(lambda: mm.open_source(found, cache=True), ValueError, "cache", "Dataset")


def test_lists_beside_categories(tmp_path):
    table = pa.table({"l": [[1.0, 2.0], [0.0, 3.0], [4.0, 5.0]], "s": ["b", "a", "b"]})
    pq.write_table(table, tmp_path / "x.parquet")
    source = mm.open_source(tmp_path / "x.parquet", categorical="onehot")
    assert source.feature_names == ["l[0]", "l[1]", "s_a", "s_b"]
    assert whole(source)[0].tolist() == [[1, 2, 0, 1], [0, 3, 1, 0], [4, 5, 0, 1]]


# ---- categories seen elsewhere -------------------------------------------------------------------------------


def test_a_category_seen_late_in_another_source(tmp_path):
    train = put(tmp_path / "a.csv", "c,x,y\nu,1,1\nv,2,-1\n")
    test = put(tmp_path / "b.csv", "c,x,y\nv,1,1\n\nnew,2,-1\n")
    strict, lenient = (mm.open_source(train, label="y", categorical="onehot", handle_unknown=h) for h in ("error", "ignore"))
    other = mm.open_source(test, label="y", categorical="onehot")
    assert other.feature_names == ["c_new", "c_v", "x"]
    refuse(other.encoded(strict.encoding).scan, ValueError, "b.csv", "line 4", "'c'", "'new'", "handle_unknown='ignore'")
    assert whole(other.encoded(lenient.encoding))[0].tolist() == [[0, 1, 1], [0, 0, 2]]
    same = mm.open_source(test, label="y", categorical=lenient.encoding)
    assert same.encoded(lenient.encoding) is same and same.feature_names == lenient.feature_names
    less = put(tmp_path / "c.csv", "x,z\n1,2\n")
    refuse(lambda: mm.open_source(less, categorical=strict.encoding), ValueError, "c.csv", "missing: 'c'", "unexpected: 'z'")


def test_files_together_have_the_categories_of_all_and_one_way_with_new_ones(tmp_path):
    for name, text in {"a": "c,x\nv,1\nt,2\n", "b": "c,x\nu,3\n"}.items():
        put(tmp_path / "d" / f"{name}.csv", text)
    new = put(tmp_path / "new.csv", "c,x\nu,1\nw,2\n")
    for unknown in ("error", "ignore"):
        source = mm.open_source(tmp_path / "d", categorical="onehot", handle_unknown=unknown)
        assert source.feature_names == ["c_t", "c_u", "c_v", "x"] and source.encoding.handle_unknown == unknown
        assert whole(source)[0].tolist() == [[0, 0, 1, 1], [1, 0, 0, 2], [0, 1, 0, 3]]
        other = mm.open_source(new, categorical=source.encoding)
        if unknown == "ignore":
            assert whole(other)[0].tolist() == [[0, 1, 0, 1], [0, 0, 0, 2]]
        else:
            refuse(other.scan, ValueError, "new.csv, line 3", "'w'", "none of its 3 known categories")


def test_a_known_encoding_needs_columns_of_its_kinds(tmp_path):
    def source(**columns):
        return mm.open_source(pa.table(columns), categorical="onehot")

    encoding = source(c=["u", "v"], x=[1.0, 2.0], l=[[1.0], [2.0]]).encoding
    assert whole(source(c=["v"], x=[3], l=[[4]]).encoded(encoding))[0].tolist() == [[0, 1, 3, 4]]
    listed = pa.table({"c": ["v"], "x": [[3.0]], "l": [[4.0]]})
    refuse(lambda: mm.open_source(listed, categorical=encoding), ValueError, "'x' holds list", "has a number there")
    real = pa.table({"c": [1.5], "x": [3.0], "l": [[4.0]]})
    refuse(lambda: mm.open_source(real, categorical=encoding), ValueError, "'c' holds double", "texts or whole numbers")
    longer = mm.open_source(pa.table({"c": ["v"], "x": [3.0], "l": [[4.0, 5.0]]}), categorical=encoding)
    refuse(longer.scan, ValueError, "lists of column 'l' must have one length; they have 1 and 2")
    frame = pd.DataFrame({"c": ["v", None], "x": [3.0, 1.0], "l": [[4.0], [1.0]]})
    assert tables.coded_frame(encoding, frame[:1]).toarray().tolist() == [[0, 1, 3, 4]]
    refuse(lambda: tables.coded_frame(encoding, frame), ValueError, "X, row 1: column 'c' is empty")
    refuse(lambda: tables.coded_frame(encoding, frame[:1].assign(c="w")), ValueError, "X, row 0: column 'c' holds 'w'")


# ---- what CSV holds ------------------------------------------------------------------------------------------

QUOTED = 'zip,name,x\n01067,"",1\n7,"O""Neil, ""Jr""",2\n01067,5" pipe,3\n"7"," NA ",4\n'


@pytest.mark.parametrize("quote", ['"', "'"])
def test_texts_are_those_of_the_csv_module(quote, tmp_path):
    """Zeros in front of a number that is a category, quotes within a value, texts that are empty."""
    text = QUOTED.replace('"', quote)
    rows = list(reference.DictReader(text.splitlines(), quotechar=quote))
    source = mm.open_source(put(tmp_path / "x.csv", text), categorical={"zip": "onehot", "name": "onehot"}, quote=quote)
    X, codes = whole(source)[0], source.encoding.columns
    for k, name in enumerate(("zip", "name")):
        assert list(codes[k].categories) == sorted({row[name] for row in rows})
    assert source.feature_names[:2] == ["zip_01067", "zip_7"]
    assert X[:, 0].tolist() == [row["zip"] == "01067" for row in rows] and X[:, -1].tolist() == [1, 2, 3, 4]
    names = [codes[1].categories[j] for j in X[:, 2:-1].argmax(axis=1)]
    assert names == [row["name"] for row in rows]
    plain = put(tmp_path / "p.csv", text.replace(", ", ""))
    source = mm.open_source(plain, label="name", features=["x"], quote="")
    assert whole(source)[1].tolist() == [line.split(",")[1] for line in plain.read_text().splitlines()[1:]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('a,b\n1,5" x,3\n', ("line 2", "3 fields for 2 columns")),
        ('a,b\n1,"5"" x\n y"\n', ("line 2", "goes on over the end of the line")),
        ('a,b\n1,"5""",2\n', ("line 2", "3 fields for 2 columns")),
        ("a,b\n1,\n2,\n", ("line 2", "'b' is empty")),
        ("a,b\n1,\n", ("line 2", "'b' is empty")),
        ("a,b\r\n\r\n1,2\r\n\r\n3\r\n", ("line 5", "1 fields for 2 columns")),
    ],
)
def test_quotes_and_line_ends_in_lines_that_are_wrong(text, words, tmp_path):
    refuse(lambda: mm.open_source(put(tmp_path / "x.csv", text), categorical="hash").scan(), ValueError, "x.csv", *words)


def test_numbers_that_look_whole_at_first(tmp_path):
    """A column of CSV is one of real numbers, whatever stands in its first lines."""
    text = "a,b\n" + "1,2\n" * 300 + "2.5,1e3\n"
    X = whole(mm.open_source(put(tmp_path / "x.csv", text), header=True, block_size=SMALL))[0]
    np.testing.assert_array_equal(X, pd.read_csv(tmp_path / "x.csv").to_numpy())


# ---- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n\n3\n", ("line 4", "1 fields for 2 columns")),
        ("a,b\n1,2\n3,4,5\n", ("line 3", "3 fields for 2 columns")),
        ("a,b\n1,2\n3,\n", ("line 3", "'b'", "empty")),
        ("a,b\n1,2\n3,nan\n", ("line 3", "finite")),
        ("a,b\n1,2\n3,NA\n", ("line 3", "'b'", "'NA'", "not a number")),
        ('a,b\n1,2\n"3\n4",5\n', ("line 3", "goes on over the end of the line")),
        ('a,b\n1,2\n"3,5\n', ("line 3", "goes on over the end of the line")),
        ("a,b\n", ("no rows",)),
        ("", ("empty",)),
        ("\n\n", ("empty",)),
        ("a,a\n1,2\n", ("2 columns", "'a'", "rename")),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_lines_of_csv_that_are_wrong(text, words, packed, tmp_path):
    path = put(tmp_path / ("x.csv.gz" if packed else "x.csv"), gzip.compress(text.encode()) if packed else text)
    refuse(lambda: mm.open_source(path).scan(), ValueError, "x.csv", *words)


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_mistake_far_down_is_named_by_its_line(jobs, tmp_path):
    lines = ["x,s", *(f"{k},t{k % 7}" for k in range(3000))]
    for line, words in (("5", "fields"), ("abc,t", "'abc'"), (",t", "'x' is empty"), ("7,", "'s' is empty"), ("inf,t", "finite")):
        text = "\n".join([*lines[:2000], line, *lines[2000:]]) + "\n"
        path = put(tmp_path / "x.csv", text)
        source = mm.open_source(path, categorical="onehot", block_size=SMALL * 8, n_jobs=jobs)
        refuse(source.scan, ValueError, "x.csv, line 2001", words)


def test_texts_that_are_not_utf8_or_damaged(tmp_path):
    path = put(tmp_path / "x.csv", b"a,s\n1,u\n2,\xff\xfe\n")
    refuse(lambda: mm.open_source(path, categorical="onehot").scan(), ValueError, "x.csv")
    packed = gzip.compress(FRAME.to_csv(index=False).encode())
    refuse(
        lambda: mm.open_source(put(tmp_path / "y.csv.gz", packed[: len(packed) // 2])).scan(), ValueError, "y.csv.gz", "truncated"
    )


def test_columns_that_are_no_features(tmp_path):
    days = pa.array([1, 2], pa.date32())
    table = pa.table(
        {"x": [1.0, 2.0], "s": ["u", "v"], "d": days, "r": [{"p": 1}, {"p": 2}], "t": [["a"], ["b"]], "b": [b"1", b"2"]}
    )
    path = tmp_path / "x.parquet"
    pq.write_table(table, path)
    refuse(lambda: mm.open_source(path, features=["x", "s"]), ValueError, "'s'", "categorical='onehot'", "features=['x']")
    refuse(lambda: mm.open_source(path, features=["x", "d"]), ValueError, "'d'", "date32", "days since", "features=['x']")
    refuse(lambda: mm.open_source(path, features=["x", "r"], categorical="hash"), ValueError, "'r'", "flatten")
    refuse(lambda: mm.open_source(path, features=["x", "t"], categorical="hash"), ValueError, "'t'", "parts")
    refuse(lambda: mm.open_source(path, features=["x", "b"]), ValueError, "'b'", "binary")
    refuse(lambda: mm.open_source(path, features=["x", "x"]), ValueError, "'x'", "twice")
    refuse(lambda: mm.open_source(path, features="x", label="d"), ValueError, "'d'", "label", "date32")
    refuse(lambda: mm.open_source(path, features=["x", "s"], categorical={"x": "onehot"}), ValueError, "'x'", "whole numbers")
    refuse(lambda: mm.open_source(path, features=["x", "s"], categorical={"z": "hash"}), ValueError, "'z'", "'x', 's'")
    refuse(lambda: mm.open_source(path, features=["x"], categorical="hash", n_features=9), ValueError, "n_features")
    exact = pa.table({"x": pa.array([1, 2], pa.decimal128(5, 2))})
    refuse(lambda: mm.open_source(exact), ValueError, "'x'", "decimal128", "write it as float64")
    text = put(tmp_path / "x.csv", "x,day\n1,2026-01-02\n2,2026-01-03\n")
    refuse(lambda: mm.open_source(text), ValueError, "'day'", "days since")


def test_message_about_unknown_column_names_the_nearest_and_ten_others(tmp_path):
    people = put(tmp_path / "people.csv", "city,age,y\nBonn,34,1\n")
    words = "label names 'Y' (nearest: 'y')", "people.csv are 'city', 'age', 'y'."
    refuse(lambda: mm.open_source(people, label="Y"), ValueError, *words)
    refuse(lambda: mm.open_source(people, label="y", features=["aeg"]), ValueError, "features names 'aeg' (nearest: 'age')")
    refuse(lambda: mm.open_source(people, weight="income"), ValueError, "weight names 'income'; the columns")
    many = pa.table({f"gene{j}": [1.0] for j in range(1000)})
    with pytest.raises(ValueError, match=r"'gene9', \.\.\. \(1000 in all\)\.$") as caught:
        mm.open_source(many, label="Gene77")
    assert "(nearest: 'gene77')" in str(caught.value) and len(str(caught.value)) < 300


def test_opening_looks_at_each_column_once(monkeypatch):
    """The names of a schema are a new list each time: asking for them column by column takes the square of the columns."""
    asked = []

    class Schema:
        def __init__(self, schema):
            self.field, self.schema = schema.field, schema

        @property
        def names(self):
            asked.append(len(self.schema))
            return self.schema.names

    plain = tables.TableSource._with_partitions
    monkeypatch.setattr(tables.TableSource, "_with_partitions", lambda self, schema: Schema(plain(self, schema)))
    table = pa.table({f"gene{j}": [1.0, 2.0] for j in range(300)})
    assert mm.open_source(table).scan() == (2, 300, None)
    assert 0 < len(asked) < 10


def test_row_groups_without_rows(tmp_path):
    schema, path = pa.schema([("a", pa.float64()), ("y", pa.int64())]), tmp_path / "x.parquet"
    for sizes in ([3], [3, 0, 2], [0, 3], [0, 0, 9, 0, 9], [0], []):
        with pq.ParquetWriter(path, schema) as file:
            for k in sizes:
                file.write_table(pa.table({"a": np.arange(k) * 1.0, "y": np.arange(k) % 2}, schema=schema))
        source = mm.open_source(path, label="y", block_size=1e-4)
        if sum(sizes):
            assert whole(source, seed=1)[0].ravel().tolist() == [float(i) for k in sizes for i in range(k)]
        else:
            refuse(source.scan, ValueError, "x.parquet holds no rows")


def test_names_and_texts_that_are_not_utf8(tmp_path):
    def damaged(path, old, new):
        content = path.read_bytes()
        assert old in content
        return put(path, content.replace(old, new))

    table = pa.table({"abcd": [1.0, 2.0], "t": ["efgh", "ijkl"]})
    pq.write_table(table, tmp_path / "x.parquet", compression="none")
    feather.write_feather(table, tmp_path / "x.arrow", compression="uncompressed")
    for name in ("x.parquet", "x.arrow"):
        path = damaged(tmp_path / name, b"efgh", b"ef\xff\xfe")
        refuse(mm.open_source(path, label="t").scan, ValueError, f"{path} is truncated or damaged")
        refuse(mm.open_source(path, label="abcd", categorical="onehot").scan, ValueError, f"{path} is truncated or damaged")
        damaged(path, b"abcd", b"ab\xff\xfe")
        refuse(lambda path=path: mm.open_source(path), ValueError, f"{path} is truncated or damaged", "utf-8")


def test_offsets_that_lead_out_of_a_file(tmp_path):
    path = tmp_path / "x.arrow"
    feather.write_feather(pa.table({"l": [[1.0, 2.0], [3.0, 4.0]]}), path, compression="uncompressed")
    content, ends = path.read_bytes(), np.array([0, 2, 4], np.int32).tobytes()
    assert content.count(ends) == 1
    put(path, content.replace(ends, np.array([0, 2, 2**30], np.int32).tobytes()))
    refuse(mm.open_source(path).scan, ValueError, f"{path} is truncated or damaged")


def test_indices_that_the_size_of_a_file_does_not_explain(tmp_path):
    table = pa.table({"i": [[0], [3, 2**31 - 3]], "v": [[1.0], [1.0, 2.0]]})
    pq.write_table(table, tmp_path / "x.parquet")
    for given in (tmp_path / "x.parquet", table):
        options = {"features": {"indices": "i", "values": "v"}}
        refuse(mm.open_source(given, **options).scan, ValueError, "row 1", "index 2147483645", "give n_features")
        assert mm.open_source(given, n_features=2**31 - 2, **options).scan().n_features == 2**31 - 2


def test_csv_needs_the_extra_too(tmp_path, monkeypatch):
    path = put(tmp_path / "x.csv", "a,b\n1,2\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refuse(lambda: mm.open_source(path), ImportError, "CSV", "pyarrow", "maxmargin[parquet]")


def test_too_many_categories(tmp_path, monkeypatch):
    monkeypatch.setattr(encodings, "MOST_CATEGORIES", 3)
    refuse(lambda: csv(tmp_path, **OPTIONS, categorical="onehot").scan(), ValueError, "'city'", "more than 3", "'hash'")
    monkeypatch.setattr(encodings, "MOST_CATEGORIES", 4)
    assert csv(tmp_path, **OPTIONS, categorical="onehot").scan().n_features == 10


def test_arguments_of_tables(tmp_path):
    path = put(tmp_path / "x.csv", "a,b\n1,2\n")
    for bad in ("one", 3, {"a": "one"}, {"a": 0}, {"a": True}):
        refuse(lambda bad=bad: mm.open_source(path, categorical=bad), ValueError, "categorical", "'onehot'")
    refuse(lambda: mm.open_source(path, handle_unknown="skip"), ValueError, "handle_unknown", "'ignore'", "'skip'")
    refuse(lambda: mm.open_source(path, delimiter=";;"), ValueError, "delimiter")
    refuse(lambda: mm.open_source(path, quote="ä"), ValueError, "quote")
    refuse(lambda: mm.open_source(path, header=["a"]), ValueError, "header names 1", "2 fields")
    refuse(lambda: mm.open_source(path, header=["a", "a"]), ValueError, "header", "twice")
    refuse(lambda: mm.open_source(path, header=3), ValueError, "header", "3")
    refuse(lambda: mm.open_source(path, cache=True), ValueError, "cache")
    refuse(lambda: mm.open_source(tmp_path / "no*.csv"), FileNotFoundError, "no*.csv")
    refuse(lambda: mm.open_source([(np.eye(2), [0, 1])], categorical="hash"), ValueError, "categorical")
    np.save(tmp_path / "x.npy", np.eye(2))
    refuse(lambda: mm.open_source(tmp_path / "x.npy", categorical="hash"), ValueError, "categorical")
    refuse(lambda: mm.open_source(tmp_path / "x.npy", delimiter=","), ValueError, "delimiter")
    refuse(lambda: mm.open_source(tmp_path), ValueError, "x.npy", "different formats")
    numbers = put(tmp_path / "n.csv", "1,2\n3,4\n")
    assert mm.open_source(numbers, header=False).feature_names == ["f0", "f1"]
    assert whole(mm.open_source(numbers, header=False))[0].tolist() == [[1, 2], [3, 4]]


def test_files_with_other_columns(tmp_path):
    folder = tmp_path / "d"
    put(folder / "a.csv", "a,b\n1,2\n")
    put(folder / "b.csv", "b,a\n1,2\n")
    refuse(lambda: mm.open_source(folder), ValueError, "b.csv", "'b'", "a.csv", "'a'", "features")
    assert whole(mm.open_source(folder, features=["a", "b"]))[0].tolist() == [[1, 2], [2, 1]]
    put(folder / "b.csv", "a,b\nu,2\n")
    refuse(lambda: mm.open_source(folder, categorical="onehot"), ValueError, "'a'", "b.csv", "a.csv", "onehot", "number")
    assert mm.open_source(folder, categorical={"a": "onehot"}).feature_names == ["a_1", "a_u", "b"]
    put(folder / "c.csv", "a,c\nu,2\n")
    refuse(lambda: mm.open_source(folder, categorical={"a": "hash"}), ValueError, "c.csv", "missing: 'b'", "unexpected: 'c'")


def test_a_table_that_changes(tmp_path):
    source = csv(tmp_path, **OPTIONS, categorical="onehot")
    source.scan()
    put(tmp_path / "x.csv", FRAME.iloc[:-1].to_csv(index=False))
    refuse(lambda: list(source), mm.SourceChangedError, "x.csv")


# ---- columns beside X ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [csv, parquet, csv_pattern])
def test_labels_weights_and_groups_are_no_features_and_stay_with_their_rows(form, tmp_path):
    frame = FRAME[["age", "count", "y", "w"]]
    source = form(tmp_path, label="y", weight="w", group="count", categorical="hash", block_size=SMALL)
    assert not {"y", "w", "count"} & {name.split("#")[0] for name in source.feature_names}
    for seed in (None, 3):
        X, y, weight, group = whole(source, seed)
        np.testing.assert_array_equal(group, frame["count"])
        np.testing.assert_array_equal(np.column_stack([y, weight]), frame[["y", "w"]])
    assert source.feature_names.index("age") == 2 * encodings.HASHED_WIDTH
    np.testing.assert_array_equal(X[:, 2 * encodings.HASHED_WIDTH], frame.age)


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (["float32", "float32"], np.float32),
        (["float32", "float64"], np.float64),
        (["float16", "float32"], np.float32),
        (["float32", "int16"], np.float64),
        (["int16"], np.float64),
    ],
)
def test_float32_where_it_holds_all_numbers(types, expected, tmp_path):
    columns = {f"f{k}": np.arange(3).astype(kind) for k, kind in enumerate(types)}
    assert mm.open_source(pa.table(columns)).dtype == expected
    np.save(tmp_path / "x.npy", np.rec.fromarrays([*columns.values()], names=[*columns]))
    source = mm.open_source(tmp_path / "x.npy")
    assert source.dtype == expected and source.feature_names == [*columns]
    assert whole(source)[0].tolist() == [[k] * len(types) for k in range(3)]


def test_rows_of_lists_that_are_wrong_are_named():
    def source(i, v, **options):
        table = pa.table({"i": i, "v": pa.array(v, pa.list_(pa.float64()))})
        return mm.open_source(table, features={"indices": "i", "values": "v"}, **options)

    assert whole(source([[4, 0], [], [1]], [[1, 2], [], [3]], n_features=5))[0].tolist() == [
        [2, 0, 0, 0, 1],
        [0] * 5,
        [0, 3, 0, 0, 0],
    ]
    refuse(source([[0], [], [-1]], [[1], [], [1]]).scan, ValueError, "row 2", "index -1, which is negative")
    refuse(source([[0, 3], [], [4, 5]], [[1, 2], [], [1, 2]], n_features=5).scan, ValueError, "row 2", "index 5", "n_features=5")
    refuse(source([[0], [5, 1]], [[1], [1, 1]], n_features=5).scan, ValueError, "row 1", "index 5")
    refuse(source([[0.0], [1.0]], [[1], [1]]).scan, ValueError, "'i' must hold lists of integers")
    refuse(source([[0], [1, 2]], [[1], [None, 1]]).scan, ValueError, "row 1", "a list in column 'v' holds an empty entry")


# ---- a hash splits rows --------------------------------------------------------------------------------------


def test_rows_go_to_the_same_side_whatever_the_blocks_are(tmp_path):
    sides = []
    for size in (SMALL, 1.0):
        train, test = csv(tmp_path, **{**OPTIONS, "block_size": size}, categorical="onehot").train_test_split(
            test_size=0.3, seed=7
        )
        assert train.n_rows + test.n_rows == N and abs(test.n_rows - 90) < 30
        assert train.encoding == test.encoding and train.feature_names == test.feature_names
        sides.append([whole(side)[0] for side in (train, test)])
    for one, other in zip(*sides):
        np.testing.assert_array_equal(one, other)
    both = np.concatenate(sides[0])
    assert sorted(map(tuple, both)) == sorted(map(tuple, in_memory()[0]))
    source = csv(tmp_path, **OPTIONS, categorical="hash")
    assert not np.array_equal(source.train_test_split(0.3, 1)[1].rows, source.train_test_split(0.3, 2)[1].rows)
    part, rest = source.train_test_split(0.01, 3)
    assert rest.scan().labels.size <= 2 and part.scan().labels.tolist() == [-1.0, 1.0]
    for bad in (0, 1, -0.1, "x", True, float("nan")):
        refuse(lambda bad=bad: source.train_test_split(bad), ValueError, "test_size")
    for bad in (-1, 2**32, True, 0.5):
        refuse(lambda bad=bad: source.train_test_split(0.2, seed=bad), ValueError, "seed must be an integer from 0 to 2^32 - 1")
    path = put(tmp_path / "m.csv", "x,a,b\n" + "1,0,1\n2,1,1\n" * 30)
    for side in mm.open_source(path, label=["a", "b"]).train_test_split(0.4):
        assert side.multilabel and side.n_labels == 2 and side.scan().labels.tolist() == [0, 1]
    for share in (1e-9, 1 - 1e-9):
        refuse(lambda share=share: source.train_test_split(share), ValueError, "empty")


def test_each_side_of_a_split_knows_its_own_labels():
    y = np.arange(40) // 4
    source = mm.open_source([(np.arange(15.0)[:, None], y[:15]), (np.arange(15.0, 40)[:, None], y[15:])])
    for share in (0.1, 0.9):
        sides = source.train_test_split(share, 5)
        for side in sides:
            X, own, _, _ = whole(side, 1)
            assert own.tolist() == (X.ravel() // 4).tolist() and side.scan().labels.tolist() == sorted({*own})
        assert min(side.scan().labels.size for side in sides) < 10
        assert sorted(np.concatenate([whole(side)[0].ravel() for side in sides])) == list(range(40))


def test_folds_cut_across_a_split():
    """Each side has about as many rows of each fold, with the same seed, too."""
    for seed in (0, 1, 2**31):
        test, folds = shares_of_rows(4000, seed) < 0.5, folds_of_rows(4000, 2, seed)
        assert 0.45 < np.mean(folds[test]) < 0.55
