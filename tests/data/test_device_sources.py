"""Sources with `device=`: the same optimum wherever their rows are kept, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers.devices import DEVICE, methods_of_devices, tensor  # noqa: F401 - a fixture of all tests
from sklearn.datasets import dump_svmlight_file

import maxmargin as mm
from maxmargin.data import streamed_source
from maxmargin.data.streamed_source import SourceMatrix, SourceTable
from maxmargin.data.tensors import DeviceMatrix, TensorTable
from maxmargin.estimators import on_device as moving
from maxmargin.estimators import source_on_device as reading

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 5)).astype(np.float32)
Y = (X[:, :3] + RNG.normal(size=(90, 3))).argmax(axis=1)
WEIGHT = RNG.uniform(0.2, 2.0, 90)
BLOCK = 17 * 4 * 5 / 2**20  # megabytes of 17 rows


@pytest.fixture(params=["device", "host", "nowhere"])
def kept(request, monkeypatch):
    """Where rows of sources are kept: as if the device, or host memory as well, had no room for them."""
    on_host, by_pieces = request.param != "nowhere", request.param == "host"
    monkeypatch.setattr(reading, "outgrows", lambda nbytes, device: request.param != "device")
    monkeypatch.setattr(moving, "outgrows", lambda nbytes, device: by_pieces)
    monkeypatch.setattr(reading, "fits_host", lambda nbytes: on_host)
    return request.param


def as_source(folder, y=Y, weight=None, block_size=BLOCK):
    names = {"X": X, "y": y, "weight": weight}
    for name, array in names.items():
        if array is not None:
            np.save(folder / f"{name}.npy", array)
    options = {"weight": folder / "weight.npy"} if weight is not None else {}
    return mm.open_source(folder / "X.npy", label=folder / "y.npy", block_size=block_size, **options)


def model(kind=mm.SVMClassifier, **params):
    return kind(C=0.3, tol=1e-3, random_state=0, **params)


def agree(found, whole):
    found, whole = found.certificate_, whole.certificate_
    assert found.converged and found.dual <= whole.primal and whole.dual <= found.primal


def source_table(source):
    return SourceTable(SourceMatrix(torch.empty((0, 5)), source, torch.device(DEVICE), 90), 1.0)


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_a_fit_to_a_source_finds_the_same_optimum(kept, tmp_path, weight):
    source = as_source(tmp_path, weight=weight)
    found = model(device=DEVICE).fit(source)
    agree(found, model().fit(tensor(X), Y, weight))
    assert found.n_features_in_ == 5 and found.classes_.tolist() == [0, 1, 2]
    assert isinstance(found.predict(source), np.ndarray) and found.score(source) == pytest.approx(
        found.score(X, Y, sample_weight=weight)
    )


@pytest.mark.parametrize(
    "kind, params, target",
    [
        (mm.SVMRegressor, {"epsilon": 0.1}, X[:, 0] + X[:, 1]),
        (mm.TopKSVMClassifier, {"k": 2}, Y),
        (mm.MultilabelSVMClassifier, {}, np.eye(3)[Y]),
        (mm.SVMClassifier, {"solver": "bundle"}, Y),
    ],
)
def test_all_estimators(kept, tmp_path, kind, params, target):
    source = as_source(tmp_path, y=target)
    agree(model(kind, device=DEVICE, **params).fit(source), model(kind, **params).fit(tensor(X), target))


def test_a_path_and_the_names_of_columns(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "outgrows", lambda nbytes, device: True)
    monkeypatch.setattr(reading, "fits_host", lambda nbytes: False)
    rows = np.zeros(90, dtype=[("label", "i8"), ("a", "f4"), ("b", "f4")])
    rows["label"], rows["a"], rows["b"] = Y, X[:, 0], X[:, 1]
    np.save(tmp_path / "rows.npy", rows)
    source = mm.open_source(tmp_path / "rows.npy", label="label", block_size=17 * 16 / 2**20)
    found = model(device=DEVICE).regularization_path(source, None, [0.03, 0.3])
    assert all(each.certificate_.converged for each in found)
    assert found[1].feature_names_in_.tolist() == ["a", "b"] and found[1].coef_.shape == (3, 2)


def test_rows_are_those_of_the_order(tmp_path):
    table, whole = source_table(as_source(tmp_path)), TensorTable(DeviceMatrix(tensor(X)), 1.0)
    np.testing.assert_array_equal(table.norms(), whole.norms())
    assert table.shape == (90, 5) and table.dtype == np.float32 and table.device.type == DEVICE
    order = tensor(RNG.permutation(90)[:60])
    seen = []
    for rows, part in table.visits(order, 6, torch.float64):
        np.testing.assert_array_equal(part.cpu().numpy(), X[rows.cpu().numpy()])
        assert 1 <= len(rows) <= 6
        seen += rows.tolist()
    assert sorted(seen) == sorted(order.tolist()) and seen != sorted(seen)
    assert torch.cat([rows for rows, _ in table.visits(order, 6, torch.float64)]).tolist() == seen
    assert list(table.visits(order[:0], 6, torch.float64)) == []
    assert isinstance(table.like(DeviceMatrix(tensor(X))), TensorTable)


def test_what_is_refused(tmp_path):
    dump_svmlight_file(X, Y, str(tmp_path / "rows.svm"), zero_based=False)
    with pytest.raises(ValueError, match=r"is for dense rows, and .*rows.svm is sparse: leave device out"):
        model(device=DEVICE).fit(mm.open_source(tmp_path / "rows.svm"))
    with pytest.raises(ValueError, match="leave y out"):
        model(device=DEVICE).fit(as_source(tmp_path), Y)
    with pytest.raises(ValueError, match="sources are for kernel='linear'"):
        model(device=DEVICE, kernel="rbf").fit(as_source(tmp_path))
    with pytest.raises(TypeError, match=r"OnlineDual|TensorProblem"):
        model(device=DEVICE, solver="online").fit(as_source(tmp_path))
    with pytest.raises(ValueError, match=r"dtype must be None, float32 or float64"):
        model(device=DEVICE, dtype=np.int32).fit(as_source(tmp_path))
    with pytest.raises(ValueError, match="must come in the order of their numbers"):
        model(device=DEVICE).fit(Own(X, (45, 0)))
    broken = X.copy()
    broken[60, 2] = np.nan
    with pytest.raises(ValueError, match=r"Row 60 of the source holds NaN"):
        model(device=DEVICE).fit(Own(broken, (0, 45)))


class Own:
    """Somebody's own source, of two blocks that begin at these rows, unchecked."""

    multilabel, n_rows, n_features, dtype = False, 90, 5, np.dtype(np.float32)

    def __init__(self, X, starts):
        self.X, self.starts = X, starts

    def scan(self):
        return 90, 5, np.unique(Y)

    def blocks(self, seed=None, shuffle_rows=True):
        from maxmargin.data.sources.blocks import Block

        for start in self.starts:
            rows = np.arange(start, start + 45)
            yield Block(rows, self.X[rows], Y[rows])


def test_room_of_host_memory(monkeypatch, tmp_path):
    (tmp_path / "info").write_text("MemTotal: 9 kB\nMemAvailable: 8 kB\n")
    for name, text in (("max", "6000"), ("current", "1000")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(streamed_source, "AVAILABLE", (str(tmp_path / "info"), "MemAvailable:"))
    monkeypatch.setattr(streamed_source, "LIMIT", str(tmp_path / "no limit"))
    assert streamed_source.room_of_host() == 8192 and streamed_source.fits_host(4096) and not streamed_source.fits_host(4097)
    monkeypatch.setattr(streamed_source, "LIMIT", str(tmp_path / "max"))
    monkeypatch.setattr(streamed_source, "TAKEN_OF_LIMIT", str(tmp_path / "current"))
    assert streamed_source.room_of_host() == 5000
    monkeypatch.setattr(streamed_source, "AVAILABLE", (str(tmp_path / "nothing"), ""))
    assert streamed_source.room_of_host() >= 0


def test_sparse_blocks_of_an_iterable_are_refused():
    with pytest.raises(ValueError, match="is sparse"):
        model(device=DEVICE).fit(mm.open_source([(sp.csr_array(X), Y)]))
