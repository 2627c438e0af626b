"""Fingerprints: what differs is told apart, what is the same has the same one in every process, and the rest is refused."""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pyarrow.dataset
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from helpers import alike
from helpers.alike import APART, BY_GAMMA, TOGETHER, TWO, X, by_text
from sklearn.datasets import dump_svmlight_file

import maxmargin as mm
from maxmargin.persistence import fingerprint as fingerprints
from maxmargin.persistence.fingerprint import fingerprint


@pytest.mark.parametrize("name", BY_GAMMA)
def test_one_number_is_seen(name):
    assert fingerprint(BY_GAMMA[name](0.5)) != fingerprint(BY_GAMMA[name](0.25))


@pytest.mark.parametrize("name", APART)
def test_what_differs_is_told_apart(name):
    found = [fingerprint(value) for value in APART[name]]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("name", TOGETHER)
def test_what_is_the_same_is_one(name):
    assert len({fingerprint(value) for value in TOGETHER[name]}) == 1


@pytest.mark.parametrize("order", ["C", "F"])
def test_every_number_of_a_large_array_is_seen(order, monkeypatch):
    """Arrays by columns are hashed a few rows at a time."""
    monkeypatch.setattr(fingerprints, "SPAN", 100)
    array = np.asarray(np.arange(27.0).reshape(9, 3), order=order)
    found = {fingerprint(array), fingerprint(array[:8])}
    for place in np.ndindex(array.shape):
        changed = array.copy(order="K")
        changed[place] += 0.5
        found.add(fingerprint(changed))
    assert len(found) == 2 + array.size and fingerprint(array.copy("C")) == fingerprint(array)


def test_modules_that_a_function_imports(monkeypatch):
    kernel = by_text("def kernel(A, B):\n from settings_of_kernels import GAMMA\n return GAMMA * A @ B.T")
    module = ModuleType("settings_of_kernels")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    found = []
    for module.GAMMA in (0.5, 0.25, 0.5):
        found.append(fingerprint(kernel))
    assert found[0] == found[2] != found[1]


def test_a_module_that_is_imported_later_is_refused(tmp_path, monkeypatch):
    """Nothing is imported to look at it."""
    (tmp_path / "settings_of_kernels.py").write_text("raise OSError")
    monkeypatch.syspath_prepend(tmp_path)
    kernel = by_text("def kernel(A, B):\n import numpy.linalg, settings_of_kernels\n return A @ B.T")
    with pytest.raises(mm.ModelFileError, match=r"the function kernel .* imports settings_of_kernels when it runs"):
        fingerprint(kernel)


@pytest.mark.parametrize(
    "value, reason",
    [
        ((k for k in range(3)), "a generator|the generator .* cannot pickle"),
        (threading.Lock(), "a lock from another one: cannot pickle"),
        (np.frompyfunc(lambda a: a, 1, 1), "the ufunc .* no package has it under its name"),
        (by_text("def kernel(A, B): return lock", lock=threading.Lock()), "a lock from another"),
    ],
)
def test_what_cannot_be_told_apart_is_refused(value, reason):
    with pytest.raises(mm.ModelFileError, match=reason) as caught:
        fingerprint(value)
    assert "\n" not in str(caught.value)


def test_lists_too_deep():
    found = []
    for _ in range(10**5):
        found = [found]
    with pytest.raises(mm.ModelFileError, match="nested too deeply"):
        fingerprint(found)


def test_other_processes_find_the_same():
    """Whatever the order of sets is there."""
    code = f"import sys; sys.path.insert(0, {str(Path(alike.__file__).parents[1])!r}); from helpers import alike; alike.told()"
    environment = os.environ | {"PYTHONHASHSEED": "1"}
    told = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert json.loads(told) == alike.digests()


# ---- sources -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same rows in files of several formats, with other columns beside them."""
    place = tmp_path_factory.mktemp("files")
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": TWO, "d": TWO[::-1], "e": np.where(TWO, "x", "y")})
    frame.to_csv(place / "rows.csv", index=False)
    frame.to_parquet(place / "rows.parquet")
    for year in (1, 2):
        (place / "parts" / f"year={year}").mkdir(parents=True)
        frame.to_csv(place / "parts" / f"year={year}" / "rows.csv", index=False)
    dump_svmlight_file(X, TWO, str(place / "rows.svm"), zero_based=False, query_id=np.arange(20) // 5)
    for name, array in {"X": np.column_stack([X, TWO]), "y": TWO, "z": TWO[::-1]}.items():
        np.save(place / f"{name}.npy", array)
    sp.save_npz(place / "rows.npz", sp.csr_matrix(X))
    return place


FILES: dict[str, list[dict]] = {
    "rows.csv": [
        {"features": ["a", "b"], "label": "c"},
        {"features": ["a", "b"], "label": "d"},
        {"features": ["b", "a"], "label": "c"},
        {"features": ["a", "b"], "label": "c", "weight": "d"},
        {"features": ["a", "b"], "label": "c", "group": "d"},
        {"features": ["a", "b"], "label": "c", "dtype": np.float32},
        {"features": ["a", "b"], "label": ["c", "d"]},
        {"features": ["a", "e"], "label": "c", "categorical": {"e": "onehot"}},
        {"features": ["a", "e"], "label": "c", "categorical": {"e": "hash"}},
        {"features": ["a", "e"], "label": "c", "categorical": {"e": 64}},
    ],
    "rows.parquet": [{"features": ["a"], "label": "c"}, {"features": ["a"], "label": "d"}, {"features": ["b"], "label": "c"}],
    "parts": [{"features": ["a"], "label": "c"}, {"features": ["a", "year"], "label": "c"}],
    "rows.svm": [{}, {"zero_based": True}, {"n_features": 7}, {"multilabel": True}, {"dtype": np.float32}, {"weight": "y.npy"}],
    "X.npy": [{"label": 3}, {"label": 2}, {"label": 3, "features": [0, 1]}, {"label": "y.npy"}, {"label": "z.npy"}],
    "rows.npz": [{"label": "y.npy"}, {"label": "z.npy"}, {"label": "y.npy", "n_features": 5}],
}


def opened(folder, name, options):
    """A source in a folder, with the files that its options name."""
    given = {key: folder / value if str(value).endswith(".npy") else value for key, value in options.items()}
    return mm.open_source(folder / name, **given)


@pytest.mark.parametrize("name", FILES)
def test_options_of_files_are_seen(folder, name):
    """Whether a source was read or not."""
    found = []
    for options in FILES[name]:
        one, two = (opened(folder, name, options) for _ in range(2))
        two.scan()
        found.append(fingerprint(one))
        assert fingerprint(two) == found[-1]
    assert len(set(found)) == len(found)


def test_how_files_are_read_is_not_seen(folder, tmp_path):
    """Threads, blocks and caches, and where the files lie."""
    moved = Path(shutil.copytree(folder, tmp_path / "moved"))
    for name, options in (("rows.svm", {"weight": "y.npy"}), ("parts", {"features": ["a"], "label": "c"})):
        ways = {}, {"block_size": 1e-4}, {"n_jobs": 2}
        found = {fingerprint(opened(place, name, options | way)) for place in (folder, moved) for way in ways}
        assert len(found) == 1
    cached = mm.open_source(moved / "rows.svm", cache=tmp_path)
    assert fingerprint(cached) == fingerprint(mm.open_source(folder / "rows.svm"))


def test_files_that_were_written_anew(folder, tmp_path):
    path = Path(shutil.copy2(folder / "rows.csv", tmp_path))
    before = fingerprint(mm.open_source(path, features=["a"], label="c"))
    os.utime(path, ns=(0, 0))
    assert fingerprint(mm.open_source(path, features=["a"], label="c")) != before


def test_tables_of_arrow_are_told_by_their_blocks(folder):
    table = pyarrow.parquet.read_table(folder / "rows.parquet")
    whole = pyarrow.dataset.dataset(folder / "rows.parquet")
    filtered = [whole.filter(pyarrow.dataset.field("a") > least) for least in (0.0, 0.5)]
    given = [table, table.slice(0, 10), *filtered]
    options = {"features": ["a", "b"], "label": "c"}
    found = [fingerprint(mm.open_source(each, **options)) for each in given]
    assert found == [fingerprint(mm.open_source(each, **options)) for each in given]
    assert len(set(found)) == len(given)
    assert found[0] != fingerprint(mm.open_source(table, features=["a", "b"], label="d"))


def test_a_model_of_another_label_column_is_refused(folder, tmp_path):
    """`load(data=)` compares what a source was opened with."""
    one, other = (mm.open_source(folder / "rows.csv", features=["a", "b"], label=label) for label in "cd")
    mm.save(mm.SVMClassifier(tol=1e-2, random_state=0).fit(one), tmp_path / "model", data=(one,))
    assert mm.load(tmp_path / "model", data=(mm.open_source(folder / "rows.csv", features=["a", "b"], label="c"),))
    with pytest.raises(mm.ModelFileError, match="was fitted to other data than these"):
        mm.load(tmp_path / "model", data=(other,))
