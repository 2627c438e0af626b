"""Models as files: what is read is what was written, to the last bit, or one ModelFileError."""

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from helpers.models import CASES, LABELS, TWO, X, fitted, identical
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin as mm
from maxmargin.persistence import container
from maxmargin.persistence.names import MODELS

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.safetensors"))
NOT_MODELS = {"BlockTransformer"}  # wraps an estimator of somebody else
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
    assert manifest["model"]["of"] == "SVMClassifier" and "numpy" in manifest["versions"]


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
        ("a\0b", "is no path"),
    ):
        with pytest.raises(mm.ModelFileError, match=reason):
            mm.load(wrong)
    assert sorted(found.name for found in tmp_path.iterdir()) == ["another", "model"]


def test_a_full_disk(tmp_path, monkeypatch):
    """Nothing half-written, and the file that was there stays."""
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
    with pytest.raises(mm.ModelFileError, match="was not written by maxmargin"):
        mm.load(path)
    path.write_bytes(b"")
    with pytest.raises(mm.ModelFileError, match="is no file of maxmargin, or damaged"):
        mm.load(path)
    mm.save(fitted("two classes"), path)
    head, data = taken(path.read_bytes())
    head["__metadata__"]["schema"] = "2"
    path.write_bytes(put(head, data))
    with pytest.raises(mm.ModelFileError, match="later version of maxmargin"):
        mm.load(path)


# ---- damage ------------------------------------------------------------------------------------------------------------


def taken(raw):
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def put(head, data):
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + data


def mutated(raw, rng):
    """A file with something changed: bits, bytes, pieces cut out, doubled or moved, the end cut off."""
    found, kind = bytearray(raw), rng.integers(6)
    at, other = (int(place) for place in rng.integers(0, len(raw) if rng.random() < 0.5 else min(len(raw), 4000), 2))
    size = int(rng.integers(1, 40))
    if kind == 0:
        found[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        found[at : at + size] = rng.bytes(size)
    elif kind == 2:
        del found[at : at + size]
    elif kind == 3:
        found[at:at] = found[other : other + size]
    elif kind == 4:
        found = found[:at]
    else:
        found[:8] = int(rng.integers(0, 2**63)).to_bytes(8, "little")
    return bytes(found)


def rewritten(raw, rng):
    """A manifest with something changed and a checksum that fits: what an attacker would do."""
    head, data = taken(raw)
    manifest = json.loads(head["__metadata__"]["maxmargin"])
    places = list(nodes(manifest["model"]))
    holder, key = places[int(rng.integers(len(places)))]
    other, its = places[int(rng.integers(len(places)))]
    values = [None, -1, 2**70, "", "os.system", [], {}, {"is": "object"}, 0.5, True, other[its]]
    if isinstance(holder, dict) and rng.random() < 0.2:
        holder[str(rng.choice(["__class__", "fit", "__reduce__", "x"]))] = holder.pop(key)
    else:
        holder[key] = values[int(rng.integers(len(values)))]
    try:
        text = json.dumps(manifest)
    except ValueError:  # a node within itself
        return raw
    meta = head["__metadata__"]
    meta["maxmargin"], meta["checksum"] = text, container.manifest_checksum("1", text)
    return put(head, data)


def nodes(node):
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield node, key
        if isinstance(value, dict | list):
            yield from nodes(value)


def check_mutations(count, change, tmp_path, seed):
    """Each loads, and if nobody forged the checksum to the same model, or raises a ModelFileError; nothing is imported, little is
    allocated."""
    rng, path, read = np.random.default_rng(seed), tmp_path / "mutated", 0
    tracemalloc.start()
    for name in MUTATED:
        model, case = fitted(name), CASES[name]
        mm.save(model, path)
        raw = path.read_bytes()
        mm.load(path, **case.given)
        modules = set(sys.modules)
        for _ in range(-(-count // len(MUTATED))):
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
    assert read < count


@pytest.mark.parametrize("change", [mutated, rewritten])
def test_damaged_files(change, tmp_path):
    check_mutations(300, change, tmp_path, 1)


@pytest.mark.long
@pytest.mark.parametrize("change", [mutated, rewritten])
def test_many_damaged_files(change, tmp_path):
    check_mutations(4500, change, tmp_path, 2)


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
