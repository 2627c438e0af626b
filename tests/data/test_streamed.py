"""X in host memory that goes to a device by pieces: the same rows, the same optimum, and what is said where there is no room."""

import numpy as np
import pytest
import torch
from helpers.devices import DEVICE, methods_of_devices, tensor  # noqa: F401 - a fixture of all tests

import maxmargin as mm
from maxmargin.data import streamed
from maxmargin.data.streamed import HostMatrix, StreamedTable, from_a_file
from maxmargin.data.tensors import DeviceMatrix, TensorTable, on_device
from maxmargin.estimators import on_device as reading
from maxmargin.solvers.device.ascent import DeviceAscent

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 5)).astype(np.float32)
Y = (X[:, :3] + RNG.normal(size=(90, 3))).argmax(axis=1)
ROWS = 16  # of a piece


@pytest.fixture
def pieces(monkeypatch):
    """Every X is too large, and pieces are small."""
    monkeypatch.setattr(streamed, "PIECE_BYTES", ROWS * 4 * X.shape[1])
    monkeypatch.setattr(reading, "outgrows", lambda nbytes, device: True)


def table_of_pieces(given=X):
    return StreamedTable(HostMatrix(torch.from_numpy(given), torch.device(DEVICE), from_a_file(given)), 1.0)


def model(**params):
    return mm.SVMClassifier(C=0.3, tol=1e-3, random_state=0, device=DEVICE, **params)


def test_rows_are_those_of_the_tensor(pieces):
    table, whole = table_of_pieces(), TensorTable(DeviceMatrix(tensor(X)), 1.0)
    np.testing.assert_array_equal(table.norms(), whole.norms())
    assert torch.equal(torch.cat([block.X.clone() for block in table.blocks()]).cpu(), torch.from_numpy(X))
    order = table.arranged(tensor(RNG.permutation(90)[:70]))
    seen, pieces_seen = [], []
    for rows, part in table.visits(order, 6, torch.float64):
        np.testing.assert_array_equal(part.cpu().numpy(), X[rows.cpu().numpy()])
        assert len(rows) <= 6
        seen += rows.tolist()
        pieces_seen += torch.unique(rows // ROWS).tolist()
    assert seen == order.tolist() and len(set(seen)) == 70
    assert all(pieces_seen[k] == pieces_seen[k - 1] or pieces_seen[k] not in pieces_seen[:k] for k in range(1, len(pieces_seen)))


@pytest.mark.parametrize("mapped", [False, True])
def test_a_fit_by_pieces_finds_the_same_optimum(pieces, tmp_path, mapped):
    given = X
    if mapped:
        np.save(tmp_path / "X.npy", X)
        given = np.load(tmp_path / "X.npy", mmap_mode="r")
        assert from_a_file(given) and from_a_file(np.asarray(given)[3:]) and not from_a_file(X[3:])
    found, whole = model().fit(given, Y).certificate_, model().fit(tensor(X), Y).certificate_
    assert found.converged and found.dual <= whole.primal and whole.dual <= found.primal
    assert isinstance(model().fit(given, Y).predict(given), np.ndarray)


def test_labels_and_targets_by_pieces(pieces):
    indicators = np.eye(3, dtype=int)[Y]
    for kind, target in ((mm.MultilabelSVMClassifier, indicators), (mm.SVMRegressor, X[:, 0]), (mm.TopKSVMClassifier, Y)):
        params = {"k": 2} if kind is mm.TopKSVMClassifier else {}
        found = kind(C=0.3, tol=1e-3, random_state=0, device=DEVICE, **params).fit(X, target).certificate_
        whole = kind(C=0.3, tol=1e-3, random_state=0, **params).fit(tensor(X), target).certificate_
        assert found.converged and found.dual <= whole.primal and whole.dual <= found.primal


def fails(method, times, error):
    """The method, which fails so many times first."""
    left = [times]

    def work(self, *given, **options):
        if left[0] > 0:
            left[0] -= 1
            raise error
        return method(self, *given, **options)

    return work


NO_ROOM = torch.cuda.OutOfMemoryError("CUDA out of memory.")


@pytest.mark.parametrize("where", ["block", "evaluate", "primal"])
def test_out_of_memory_leads_to_smaller_blocks(pieces, monkeypatch, where):
    from maxmargin.problems.tensors import TensorProblem

    owner = DeviceAscent if where == "block" else TensorProblem
    halved = []
    smaller = StreamedTable.smaller
    monkeypatch.setattr(StreamedTable, "smaller", lambda table: halved.append(smaller(table)) or halved[-1])
    monkeypatch.setattr(owner, where, fails(getattr(owner, where), 2, NO_ROOM))
    assert model().fit(X, Y).certificate_.converged
    assert halved == [True, True]


@pytest.mark.parametrize("where", ["block", "roomy"])
def test_no_room_at_all_is_a_sentence(pieces, monkeypatch, where):
    from maxmargin.problems.tensors import TensorProblem

    owner, name = (DeviceAscent, "block") if where == "block" else (TensorProblem, "evaluate")
    monkeypatch.setattr(owner, name, fails(getattr(owner, name), 10**9, NO_ROOM))
    fitted = model()
    with pytest.raises(MemoryError, match=r"has no room for .*fit on the processor"):
        fitted.fit(X, Y)
    assert not hasattr(fitted, "coef_")


def test_a_lost_device_is_a_sentence():
    lost = RuntimeError("CUDA error: unspecified launch failure\nmany lines more")
    gpu, said = torch.device("cuda:0"), r"cuda:0 was lost during the fit .*launch failure\): nothing was fitted"
    with pytest.raises(RuntimeError, match=said), on_device(gpu):
        raise lost
    with pytest.raises(MemoryError, match="no room for the tables of this problem"), on_device(gpu):
        raise NO_ROOM
    with pytest.raises(RuntimeError, match=r"^CUDA error"), on_device(None):
        raise lost


def test_a_sparse_matrix_stays_on_the_processor():
    import scipy.sparse as sp

    with pytest.raises(ValueError, match="leave device out"):
        model().fit(sp.csr_array(X), Y)


def test_pieces_become_smaller_where_there_is_no_room_for_them(pieces, monkeypatch):
    """As on a GPU, with a sender that finds room for four rows only."""
    asked = []

    class Cramped:
        def __init__(self, matrix, device, rows, pinned):
            asked.append(rows)
            if rows > 4:
                raise MemoryError("no room")
            self.matrix, self.device = matrix, device

        def pieces(self, cuts):
            return (self.matrix[start:stop].to(self.device) for start, stop in cuts)

    monkeypatch.setattr(streamed, "Sender", Cramped)
    table = table_of_pieces()
    table._sends = True
    blocks = [block.X for block in table.blocks()]
    assert asked == [16, 8, 4] and max(map(len, blocks)) == 4 and sum(map(len, blocks)) == 90
