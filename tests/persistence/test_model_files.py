"""Models as files: what is read is what was written, to the last bit, or one ModelFileError."""

import json
import os
import pickle
import platform
import resource
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import scipy.sparse as sp
from helpers.damage import mutated, put, rewritten, taken
from helpers.models import CASES, LABELS, TWO, X, fitted, identical
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin as mm
from maxmargin.persistence import container, models
from maxmargin.persistence.fingerprint import fingerprint
from maxmargin.persistence.names import MODELS

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.safetensors"))
NOT_MODELS = {"BlockTransformer", "SequenceVectorizer"}  # steps of pipelines, which skops writes
MUTATED = ["two classes", "mixed objects", "rbf of sparse rows", "pieces", "sparse labels", "chains", "isotonic"]


@pytest.mark.parametrize("name", CASES)
def test_a_model_comes_back_to_the_last_bit(name, tmp_path):
    model, case = fitted(name), CASES[name]
    mm.save(model, tmp_path / "model.safetensors")
    for mapped in (False, True):
        found = mm.load(tmp_path / "model.safetensors", mmap=mapped, **case.given)
        identical(found, model)
        if case.samples is not None:
            identical(found.predict(case.samples), model.predict(case.samples))


def models_of_the_package():
    public = {name for name in mm.__all__ if isinstance(getattr(mm, name), type) and issubclass(getattr(mm, name), BaseEstimator)}
    return {name for name in public if hasattr(getattr(mm, name), "fit")} - NOT_MODELS


def test_no_estimator_is_forgotten():
    """Every public one has its place in the table of models."""
    assert models_of_the_package() == {model.__name__ for model in MODELS}


def test_every_estimator_has_a_case():
    assert models_of_the_package() == {type(fitted(name)).__name__ for name in CASES}


def test_a_model_that_was_read_goes_on_learning(tmp_path):
    """What partial_fit goes on from is part of the model."""
    mm.save(fitted("pieces"), tmp_path / "model")
    found, same = mm.load(tmp_path / "model"), mm.SVMClassifier(tol=1e-2, random_state=0)
    for part in (slice(0, 20), slice(20, 40)):
        same.partial_fit(X[part], TWO[part], classes=[0, 1])
    for model in (found, same):
        model.partial_fit(-X, 1 - TWO)
    np.testing.assert_array_equal(found.coef_, same.coef_)


# ---- the format --------------------------------------------------------------------------------------------------------


def test_other_programs_read_the_arrays(tmp_path):
    model = fitted("two classes")
    mm.save(model, tmp_path / "model.safetensors")
    arrays = safetensors.numpy.load_file(tmp_path / "model.safetensors")
    identical(arrays["coef_"], model.coef_)
    identical(arrays["dual_coef_"], model.dual_coef_)
    with safetensors.safe_open(tmp_path / "model.safetensors", "np") as file:
        manifest = json.loads(file.metadata()["maxmargin"])
    assert manifest["model"]["of"] == "SVMClassifier"
    versions = {"maxmargin": mm.__version__, "numpy": np.__version__, "python": platform.python_version()}
    assert versions.items() <= manifest["versions"].items()


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_files_of_all_schemas_are_read(path):
    """Written by the version that had the schema; never written again. Beside each stands what it predicted."""
    expected = json.loads(path.with_suffix(".json").read_text())
    model = mm.load(path)
    samples = np.array(expected["samples"])
    if expected["sequences"]:
        assert [list(labels) for labels in model.predict(list(samples))] == expected["predictions"]
    else:
        assert model.predict(samples).tolist() == expected["predictions"]
        np.testing.assert_allclose(model.decision_function(samples), expected["scores"], rtol=1e-12, atol=1e-12)
    assert model.certificate_.primal == expected["primal"]


def test_there_are_golden_files():
    assert {path.stem for path in GOLDEN} >= {"schema1-classes", "schema1-kernel", "schema1-chain"}


def test_byte_orders(tmp_path):
    """Numbers are little-endian in the file; an array keeps the order it had."""
    model = mm.SVMClassifier(prior_mean=np.arange(5, dtype=">f8"), tol=1e-2, random_state=0).fit(X, TWO)
    mm.save(model, tmp_path / "model")
    found = mm.load(tmp_path / "model")
    assert found.prior_mean.dtype == np.dtype(">f8")
    identical(found, model)
    np.testing.assert_array_equal(safetensors.numpy.load_file(tmp_path / "model")["parameters.prior_mean"], np.arange(5.0))


def test_names_are_arrays_and_no_header(tmp_path):
    names = np.array([f"column {k}" for k in range(2000)], object)
    model = mm.SVMClassifier(tol=1e-2, random_state=0).fit(X, TWO)
    model.feature_names_in_ = names
    mm.save(model, tmp_path / "model")
    raw = (tmp_path / "model").read_bytes()
    assert int.from_bytes(raw[:8], "little") < 10_000
    identical(mm.load(tmp_path / "model").feature_names_in_, names)


def test_metadata_requests_are_kept(tmp_path):
    import sklearn

    with sklearn.config_context(enable_metadata_routing=True):
        model = mm.SVMClassifier(tol=1e-2, random_state=0).set_fit_request(sample_weight=True).fit(X, TWO)
        mm.save(model, tmp_path / "model")
        assert mm.load(tmp_path / "model").get_metadata_routing().fit.requests["sample_weight"] is True


def test_what_it_was_fitted_to(tmp_path):
    """In the file where it is given; then a model of other data is refused."""
    model, path = fitted("two classes"), tmp_path / "model"
    mm.save(model, path, data=(X, TWO))
    np.save(tmp_path / "X.npy", X)
    same = [X, np.asfortranarray(X), np.load(tmp_path / "X.npy", mmap_mode="r"), np.repeat(X, 2, axis=1)[:, ::2]]
    for found in same:
        identical(mm.load(path, data=(found, TWO)), model)
    changed = X.copy()
    changed[3, 1] = np.nextafter(changed[3, 1], 1.0)
    other_X = changed, X.astype(np.float32), X.reshape(5, 40), X.T
    for others in (*((found, TWO) for found in other_X), (X, 1 - TWO), (X,), (X, TWO, np.ones(40))):
        with pytest.raises(mm.ModelFileError, match="was fitted to other data than these"):
            mm.load(path, data=others)
    identical(mm.load(path), model)
    mm.save(model, path)
    with pytest.raises(mm.ModelFileError, match=r"was saved without data=\(X, y\)"):
        mm.load(path, data=(X, TWO))
    with pytest.raises(TypeError, match=r"data must be a tuple of what fit was given, \(X, y\); got a ndarray"):
        mm.save(model, tmp_path / "another", data=X)
    assert not (tmp_path / "another").exists()


def test_data_of_files_of_another_version(tmp_path, monkeypatch):
    """Arrays are told as before; of others such a file does not know."""
    model, path = fitted("two classes"), tmp_path / "model"
    with monkeypatch.context() as patch:
        patch.setattr(models, "SCHEME", 1)
        mm.save(model, path, data=(X, TWO))
    identical(mm.load(path, data=(X, TWO)), model)
    with pytest.raises(mm.ModelFileError, match="another version of maxmargin, whose fingerprints differ: it cannot tell"):
        mm.load(path, data=(X, 1 - TWO))
    small = np.arange(6.0).reshape(2, 3)
    assert fingerprint((small, np.array([0, 1]))) == "b7f26414756428a95f3197fe725c6664"  # as scheme 1 has them
    assert fingerprint((sp.csr_matrix(small), np.array(["a", "bb"]))) == "6eaa2865f6367388fa59351e6616a59f"
    assert fingerprint(([small, small[:1]], [[0, 1], [1]], None)) == "dd1cabc455ed61503dcdf91c66a6e575"


def test_forms_of_data_are_told_apart():
    """Frames by their columns, CSR by its numbers, lists of sequences by each; by no name that depends on versions."""
    import pandas as pd
    import polars as pl

    for kind in (pd.DataFrame, pl.DataFrame):
        one, same, named, other = (
            fingerprint((kind({name: X[:, 0], "b": X[:, k]}),)) for name, k in (("a", 1), ("a", 1), ("c", 1), ("a", 2))
        )
        assert one == same and len({one, named, other}) == 3
    rows = sp.csr_matrix(X)
    assert fingerprint((rows,)) == fingerprint((sp.csr_array(X),)) != fingerprint((sp.csr_array(2.0 * X),))
    assert fingerprint(([X, X[:3]],)) == fingerprint(([X.copy(), X[:3]],)) != fingerprint(([X[:3], X],))
    assert fingerprint(np.float64(0.5)) != fingerprint(np.float32(0.5)) != fingerprint(0.5)


ARRAYS = {"few": np.arange(3, dtype=np.int8), "rows": np.eye(3), "wide": np.ones((2, 0, 4)), "one": np.float32(7.5).reshape(())}


def test_arrays_in_a_file(tmp_path):
    """Any shape; mapped ones can be used where they lie, and not be written to."""
    path = tmp_path / "arrays"
    container.write_stored(path, "model", {"of": "a test"}, ARRAYS)
    assert (8 + int.from_bytes(path.read_bytes()[:8], "little")) % 64 == 0
    for mapped in (False, True):
        manifest, found = container.read_stored(path, "model", mapped=mapped)
        assert manifest["of"] == "a test" and found.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            assert found[name].dtype == array.dtype and found[name].shape == array.shape and np.array_equal(found[name], array)
            assert found[name].flags.aligned and (found[name].flags.writeable is not mapped or not array.size)
    with pytest.raises(mm.ModelFileError, match=r"is a model, not a checkpoint; give Checkpoint another path"):
        container.read_stored(path, "checkpoint")


CHANGES = {  # of the header, which the checksum of the manifest does not cover
    "arrays overlap, or leave holes": lambda head: head["b"].update(data_offsets=head["a"]["data_offsets"]),
    "array 'a' is not the one of the manifest": lambda head: head["a"].update(dtype="F64"),
    "array 'b' is not the one of the manifest": lambda head: head["b"].update(shape=[1, 4]),
    "array 'b' has 24 bytes, which are not those of its shape": lambda head: head["b"].update(data_offsets=[32, 56]),
    "arrays are missing": lambda head: head.pop("b"),
    "its checksum does not fit its manifest": lambda head: head["__metadata__"].update(checksum="0" * 32),
}


@pytest.mark.parametrize("mapped", [False, True])
def test_headers_that_do_not_fit(mapped, tmp_path):
    path = tmp_path / "arrays"

    def refused(raw, words):
        path.write_bytes(raw)
        with pytest.raises(mm.ModelFileError, match=f"is damaged, or not a maxmargin file: .*{words}"):
            container.read_stored(path, "model", mapped=mapped)

    container.write_stored(path, "model", {}, {"a": np.arange(4), "b": np.arange(4) + 4})
    raw = path.read_bytes()
    for words, change in CHANGES.items():
        head, data = taken(raw)
        change(head)
        refused(put(head, data), words)
    refused(raw + b"\0", f"it has {len(raw) + 1} bytes and should have {len(raw)}")
    refused(raw[:-1], f"it has {len(raw) - 1} bytes and should have {len(raw)}")
    head, data = taken(raw)
    text = json.dumps(head).encode()
    twice = text[:-1] + b', "a": ' + json.dumps(head["a"]).encode() + b"}"
    refused(len(twice).to_bytes(8, "little") + twice + data, "a name stands in it twice")
    meta = head["__metadata__"]
    meta["maxmargin"] = meta["maxmargin"].replace('"kind":"model"', '"kind":"model","C":NaN')
    meta["checksum"] = container.manifest_checksum("1", meta["maxmargin"])
    refused(put(head, data), "NaN is no number")


def test_what_is_no_array_must_be_short(tmp_path, monkeypatch):
    path = tmp_path / "arrays"
    container.write_stored(path, "model", {"names": "x" * 5000}, {})
    monkeypatch.setattr(container, "LONGEST_HEADER", 4000)
    with pytest.raises(mm.ModelFileError, match=r"What is no array takes 5\d+ bytes; a file holds 4000 of them"):
        container.write_stored(tmp_path / "another", "model", {"names": "x" * 5000}, {})
    with pytest.raises(mm.ModelFileError, match="not a maxmargin model file"):
        container.read_stored(path, "model")
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_somebody_else_writes_meanwhile(tmp_path, monkeypatch):
    """It was not there when it was looked for; it stays as it is."""
    path = tmp_path / "arrays"
    path.write_text("another")
    monkeypatch.setattr(Path, "exists", lambda self: False)
    with pytest.raises(mm.ModelFileError, match="exists already; give another name, or overwrite=True"):
        container.write_stored(path, "model", {}, ARRAYS, overwrite=False)
    assert path.read_text() == "another" and list(tmp_path.iterdir()) == [path]


# ---- what is refused ---------------------------------------------------------------------------------------------------


class Wild(mm.SVMClassifier):
    """A class of somebody's own."""


def test_what_is_no_model_is_refused(tmp_path):
    path, model = tmp_path / "model", mm.MultilabelSVMClassifier(tol=1e-2)
    for given, reason in (
        (mm.SVMClassifier(), "is not fitted"),
        (make_pipeline(StandardScaler(), mm.SVMClassifier()), "not Pipeline; skops.io keeps whole pipelines"),
        (Wild(tol=1e-2).fit(X, TWO), "not Wild"),
        (
            mm.ZeroShotClassifier(Several(), np.eye(3)).fit(X, LABELS),
            "estimator is a Several, which is not one of this package's",
        ),
        (mm.SVMClassifierCV(Cs=2, scoring=scored, tol=1e-2).fit(X, TWO), "scoring is a function, scored: files hold no code"),
    ):
        with pytest.raises(mm.ModelFileError, match=reason):
            mm.save(given, path)
        assert list(tmp_path.iterdir()) == []
    model.fit(X, LABELS).coef_ = np.array([1 + 2j])
    with pytest.raises(mm.ModelFileError, match="coef_ is an array of the type complex128"):
        mm.save(model, path)
    model.coef_ = model.fit
    with pytest.raises(mm.ModelFileError, match="coef_ is a function, fit"):
        mm.save(model, path)
    assert list(tmp_path.iterdir()) == []


class Several(BaseEstimator):
    """Somebody's own estimator of attributes."""

    def fit(self, X, y):
        self.coef_ = np.linalg.lstsq(X, y, rcond=None)[0]
        return self

    def decision_function(self, X):
        return X @ self.coef_


def scored(model, X, y):
    return model.score(X, y)


def test_what_a_user_has_to_give(tmp_path):
    mm.save(fitted("a structure in Python"), tmp_path / "structure")
    mm.save(fitted("a function"), tmp_path / "kernel")
    with pytest.raises(mm.ModelFileError, match=r"structure of its user's own, Brackets.* load\(path, structure=...\)"):
        mm.load(tmp_path / "structure")
    with pytest.raises(mm.ModelFileError, match="fitted with the structure Brackets; load was given a Chain"):
        mm.load(tmp_path / "structure", structure=mm.structures.Chain())
    with pytest.raises(mm.ModelFileError, match="kernel of its user's own, inner"):
        mm.load(tmp_path / "kernel")


def test_paths_that_do_not_go(tmp_path):
    model, path = fitted("two classes"), tmp_path / "model"
    mm.save(model, path)
    before = path.read_bytes()
    with pytest.raises(mm.ModelFileError, match="exists already; give another name, or overwrite=True"):
        mm.save(model, path, overwrite=False)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1
    mm.save(model, tmp_path / "another", overwrite=False)
    mm.save(fitted("three classes"), path)
    assert type(mm.load(path)) is mm.SVMClassifier and path.read_bytes() != before
    for wrong, reason in (
        (tmp_path / "nobody" / "model", "cannot be written: No such file or directory. Nothing was changed"),
        (tmp_path, "cannot be written"),
    ):
        with pytest.raises(mm.ModelFileError, match=reason):
            mm.save(model, wrong)
    for wrong, reason in (
        (tmp_path / "nobody", "cannot be read: No such file or directory"),
        (tmp_path, "is no file"),
        (os.devnull, "is no file"),
        ("a\0b", "is no path"),
    ):
        with pytest.raises(mm.ModelFileError, match=reason):
            mm.load(wrong)
    assert sorted(found.name for found in tmp_path.iterdir()) == ["another", "model"]


def test_room_for_half_a_file(tmp_path):
    """Files that grow no more, as on a full disk: nothing half-written, and the file that was there stays."""
    path, limits = tmp_path / "model", resource.getrlimit(resource.RLIMIT_FSIZE)
    mm.save(fitted("two classes"), path)
    before = path.read_bytes()
    for room in (0, 100, len(before) - 1):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        try:
            for place in (path, tmp_path / "another"):
                with pytest.raises(mm.ModelFileError, match=r"cannot be written: File too large\. Nothing was changed there"):
                    mm.save(fitted("two classes"), place)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_a_disk_that_is_full_at_the_last_moment(tmp_path, monkeypatch):
    """As a network drive tells it."""
    model, path = fitted("two classes"), tmp_path / "model"
    mm.save(model, path)
    before = path.read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(container.os, "fsync", full)
    with pytest.raises(mm.ModelFileError, match="cannot be written: No space left on device"):
        mm.save(fitted("three classes"), path)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_files_of_others(tmp_path):
    path = tmp_path / "model"
    safetensors.numpy.save_file({"a": np.zeros(3)}, path)
    with pytest.raises(mm.ModelFileError, match=r"is not a maxmargin model file \(another program wrote it\); mm.load reads"):
        mm.load(path)
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("coef_", b"0" * 100)
    texts = b"", b"{", b"coef,intercept\n1,2\n", b'{"coef_": [1, 2]}'
    for data in (*texts, pickle.dumps(X), (tmp_path / "zip").read_bytes(), bytes(64)):
        path.write_bytes(data)
        for mapped in (False, True):
            with pytest.raises(mm.ModelFileError, match=r"model is not a maxmargin model file \(.*\); mm.load reads"):
                mm.load(path, mmap=mapped)
    mm.save(fitted("two classes"), path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(mm.ModelFileError, match="is damaged, or not a maxmargin file: it is shorter than its header says"):
        mm.load(path)
    mm.save(fitted("two classes"), path)
    head, data = taken(path.read_bytes())
    head["__metadata__"]["schema"] = "2"
    path.write_bytes(put(head, data))
    with pytest.raises(mm.ModelFileError, match="later version of maxmargin"):
        mm.load(path)


# ---- damage ------------------------------------------------------------------------------------------------------------


def check_mutations(count, change, tmp_path, seed):
    """Each loads, and if nobody forged the checksum to the same model, or raises a ModelFileError; nothing is imported, little is
    allocated."""
    rng, path, read = np.random.default_rng(seed), tmp_path / "mutated", 0
    tried = 0
    tracemalloc.start()
    for name in MUTATED:
        model, case = fitted(name), CASES[name]
        mm.save(model, path)
        raw = path.read_bytes()
        mm.load(path, **case.given)
        modules = set(sys.modules)
        for _ in range(-(-count // len(MUTATED))):
            tried += 1
            path.write_bytes(change(raw, rng))
            tracemalloc.reset_peak()
            held = tracemalloc.get_traced_memory()[0]
            try:
                found = mm.load(path, **case.given)
            except mm.ModelFileError as error:
                assert "\n" not in str(error)
            else:
                read += 1
                if change is mutated:
                    identical(found, model)
            assert tracemalloc.get_traced_memory()[1] - held < 200 * len(raw) + 2**20
        assert set(sys.modules) == modules
    tracemalloc.stop()
    assert read < count <= tried


@pytest.mark.parametrize("change", [mutated, rewritten])
def test_damaged_files(change, tmp_path):
    check_mutations(300, change, tmp_path, 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("change", [mutated, rewritten])
def test_many_damaged_files(change, tmp_path):
    """With those of checkpoints 10,000."""
    check_mutations(4000, change, tmp_path, 2)


def test_a_header_that_claims_too_much(tmp_path):
    """Sizes are compared with the file before anything is allocated."""
    path = tmp_path / "model"
    mm.save(fitted("two classes"), path)
    head, data = taken(path.read_bytes())
    manifest = json.loads(head["__metadata__"]["maxmargin"])
    for shape in ([2**40, 5], [2**62, 2**62], [-1, 5], [0, 2**62]):
        head["coef_"]["shape"] = manifest["arrays"]["coef_"][1] = shape
        text = json.dumps(manifest)
        head["__metadata__"] |= {"maxmargin": text, "checksum": container.manifest_checksum("1", text)}
        path.write_bytes(put(head, data))
        with pytest.raises(mm.ModelFileError):
            mm.load(path)


def test_a_first_prediction_in_another_process(tmp_path):
    mm.save(fitted("two classes"), tmp_path / "model")
    code = f"import maxmargin as mm, numpy as np; print(mm.load({str(tmp_path / 'model')!r}, mmap=True).predict(np.ones((1, 5))))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True, timeout=300)
    assert found.stdout.strip() == str(fitted("two classes").predict(np.ones((1, 5))))
