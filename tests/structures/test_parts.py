"""Parts: distance transforms and oracles against the list of all placements, solvers under sign constraints against a convex
solver, and samples it cannot read."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.enumerated import optimum, primal, tables
from helpers.structured import PARTS, ThreeClasses, images
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin import datasets
from maxmargin.structures import Parts, check_structure
from maxmargin.structures.encoded import contract
from maxmargin.structures.encoded.grids import maximise_line, new_line

SOLVERS = {
    "dual coordinate": mm.DualCoordinate(),
    "dual coordinate, plain": mm.DualCoordinate(momentum=False, average=False),
    "pairwise": mm.FrankWolfe(),
    "away": mm.FrankWolfe(steps="away", sampling="permutation"),
    "plain": mm.FrankWolfe(steps="plain", sampling="uniform"),
    "batch": mm.FrankWolfe(block=False),
}
SLOW = {"plain", "batch"}


# ---- oracles ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PARTS)
def test_every_method_agrees_with_the_list_of_all_placements(name):
    structure, X, y = images(name)
    check_structure(structure, X, y)


@pytest.mark.parametrize("quadratic", [-1.5, 0.0, 1e-300, 0.7])
def test_flat_and_pushing_springs_are_exact(quadratic):
    """Weights of zero make the hull's directions one; negative ones, which a user may decode with, turn them around."""
    structure, X, y = images("a chain, its edges turned")
    structure = clone(structure)
    w = np.random.default_rng(5).normal(size=structure.size(X, y))
    w[structure.nonnegative()] = quadratic
    check_structure(structure, X, y, w=w)


@given(st.integers(1, 12), st.integers(0, 10_000), st.sampled_from([0.0, 1e-12, 0.3, 1.0, 50.0, -0.2, -4.0]), st.booleans())
def test_a_distance_transform_is_the_maximum_over_all_cells(size, seed, quadratic, ties):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 3, size).astype(float) if ties else rng.normal(size=size)
    linear = float(rng.integers(-1, 2)) if ties else rng.normal()
    z, p = np.arange(size), np.arange(size)[:, None]
    every = values + linear * (z - p) - quadratic * (z - p) ** 2
    found, arrow = np.zeros(2 * size), np.zeros(2 * size, np.int32)
    found[::2] = values
    scratch = SimpleNamespace(line=new_line(size), hull=np.zeros(size, np.int32))
    maximise_line(scratch, found, 0, 2, size, linear, quadratic, arrow)
    np.testing.assert_allclose(found[::2], every.max(axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(every[np.arange(size), arrow[::2]], every.max(axis=1), rtol=1e-12, atol=1e-12)
    assert not found[1::2].any()


def test_features_and_loss_are_those_of_the_formula():
    structure = Parts([(0, 1), (2, 1)], window=3, unit=2.0, reference=(0, 2))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 5, 2)), np.array([[0, 0], [2, 4], [3, 1]])
    assert structure.size([x], [y]) == 3 * 9 * 2 + 2 * 4
    first = np.zeros((3, 3, 2))
    first[1:, 1:] = x[:2, :2]
    second, third = np.zeros((3, 3, 2)), np.zeros((3, 3, 2))
    second[:, :2], third[:2] = x[1:4, 3:], x[2:4, :3]
    springs = [1.0, 2.0, -1.0, -4.0, 0.5, -1.5, -0.25, -2.25]  # 1 from 0 by (2, 4), 2 from 1 by (1, -3), in units of 2
    np.testing.assert_allclose(
        structure.joint_feature(x, y), np.concatenate([first.ravel(), second.ravel(), third.ravel(), springs])
    )
    assert structure.loss(y, y - np.array([[0, 0], [1, 0], [3, 0]])) == pytest.approx((1 + 3) / 3 / np.hypot(3, 1))
    np.testing.assert_array_equal(structure.nonnegative(), [56, 57, 60, 61])


@pytest.mark.parametrize("sparse", [False, True])
def test_functions_that_solvers_are_made_of(sparse):
    for name in PARTS:
        structure, X, y = images(name, 1)
        structure = clone(structure)
        rng, dim = np.random.default_rng(1), structure.size(X, y)
        stored = [(sp.csr_array(x.reshape(-1, x.shape[2])), x.shape[:2]) for x in X] if sparse else X
        data, w = structure.encode(stored, y), rng.normal(size=dim)
        W, scratch = structure.unflatten(w), contract.new_scratch(data)
        np.testing.assert_array_equal(structure.flatten(W), w)
        assert W.shape == contract.weight_shape(data)
        bound = np.zeros(dim)
        bound[structure.nonnegative()] = 1.0
        np.testing.assert_array_equal(np.flatnonzero(structure.unflatten(bound)), np.sort(contract.nonnegative(data)))
        for i in (1, 0):
            cells = X[i].shape[0] * X[i].shape[1]
            codes = [rng.integers(0, cells, structure.n_parts_).astype(np.int32) for _ in range(2)]
            two = [contract.output_of(data, structure, i, code) for code in codes]
            phi, loss = [structure.joint_feature(X[i], each) for each in two], [structure.loss(y[i], each) for each in two]
            contract.prepare(data, i, W, scratch)
            for code, feature, value in zip(codes, phi, loss, strict=True):
                assert contract.score_of(data, i, scratch, code) == pytest.approx(w @ feature)
                assert contract.loss_of(data, i, code) == pytest.approx(value)
            contract.against(data, i, scratch, codes[0])
            assert contract.inner(data, i, scratch, codes[1]) == pytest.approx(phi[0] @ phi[1])
            assert contract.inner(data, i, scratch, codes[0]) == pytest.approx(phi[0] @ phi[0])
            contract.clear(data, i, scratch)
            contract.tally(data, i, 0.5, codes[0], scratch)
            contract.tally(data, i, -0.75, codes[1], scratch)
            change = 0.5 * phi[0] - 0.75 * phi[1]
            gain, square = contract.measure(data, i, scratch)
            assert gain == pytest.approx(w @ change + 0.5 * loss[0] - 0.75 * loss[1])
            assert square == pytest.approx(change @ change)
            moved = W.copy()
            contract.push(data, i, 2.0, scratch, moved)
            np.testing.assert_allclose(structure.flatten(moved), w + 2.0 * change, atol=1e-12)


# ---- solvers ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["two parts", "a chain, its edges turned", "a star, by the eyes"])
def solved(request):
    structure, X, y = images(request.param, 3)
    found, weight = tables(structure, X, y), np.arange(1.0, len(X) + 1)
    fitted = clone(structure)
    fitted.size(X, y)
    bound = fitted.nonnegative()
    return structure, X, y, found, weight, bound, optimum(found, 0.7 * weight, bound)


@pytest.mark.parametrize("solver", SOLVERS)
def test_optimum_is_that_of_a_convex_solver(solved, solver):
    structure, X, y, found, weight, bound, best = solved
    tol = 2e-2 if solver in SLOW else 1e-4
    model = mm.StructuredSVM(structure, C=0.7, tol=tol, solver=SOLVERS[solver], random_state=0).fit(X, y, weight)
    certificate = model.certificate_
    assert certificate.converged and certificate.relative_gap <= tol
    assert certificate.dual <= best * (1 + 1e-7) and certificate.primal >= best * (1 - 1e-7)
    assert np.all(model.w_[bound] >= 0.0)
    assert primal(found, model.w_, 0.7 * weight) == pytest.approx(certificate.primal, rel=1e-9)


def test_the_signs_matter(solved):
    """The cases are such that springs would push outwards without the constraints."""
    _, _, _, found, weight, _, best = solved
    assert optimum(found, 0.7 * weight) < best * (1 - 1e-3)


def test_a_weight_is_so_many_repetitions(solved):
    structure, X, y, _, weight, _, best = solved
    often = [i for i, count in enumerate(weight.astype(int)) for _ in range(count)]
    model = mm.StructuredSVM(structure, C=0.7, tol=1e-4, random_state=0).fit([X[i] for i in often], [y[i] for i in often])
    assert model.certificate_.dual <= best * (1 + 1e-7) and best * (1 - 1e-7) <= model.certificate_.primal


@pytest.mark.parametrize("solver", ["dual coordinate", "pairwise", "plain"])
def test_weights_and_dual_value_follow_from_the_duals(solved, solver):
    structure, X, y, found, weight, bound, _ = solved
    model = mm.StructuredSVM(structure, C=0.7, tol=2e-2, solver=SOLVERS[solver], keep_duals=True, random_state=0)
    model.fit(X, y, weight)
    fitted, v, reward = model.structure_, np.zeros_like(model.w_), 0.0
    for i, (_, _, _) in enumerate(found):
        here = fitted.joint_feature(X[i], y[i])
        if solver == "plain":
            mass, edge = model.dual_coef_[i]["cell"], model.dual_coef_[i]["edge"]
            v += weight[i] * 0.7 * here
            feature = np.zeros_like(v)
            count = np.prod(fitted.window_) * fitted.n_features_
            for p, r, c in zip(*np.nonzero(mass), strict=True):
                places = np.tile([r, c], (fitted.n_parts_, 1))
                window = fitted.joint_feature(X[i], places)[p * count : (p + 1) * count]
                feature[p * count : (p + 1) * count] += mass[p, r, c] * window
                moved = y[i].copy()
                moved[p] = r, c
                reward += mass[p, r, c] * fitted.loss(y[i], moved)
            feature[fitted.n_parts_ * count :] = edge[1:].ravel()
            v -= feature
        else:
            assert sum(a for _, a in model.dual_coef_[i]) == pytest.approx(0.7 * weight[i])
            for places, a in model.dual_coef_[i]:
                v += a * (here - fitted.joint_feature(X[i], places))
                reward += a * fitted.loss(y[i], places)
    w = v.copy()
    w[bound] = np.maximum(v[bound], 0.0)
    np.testing.assert_allclose(w, model.w_, atol=1e-9)
    assert reward - 0.5 * w @ w == pytest.approx(model.certificate_.dual, rel=1e-9)


@given(st.integers(0, 10_000), st.sampled_from(sorted(PARTS)), st.floats(1e-3, 1e3), st.sampled_from(["frank_wolfe", "auto"]))
@settings(max_examples=25)
def test_the_dual_is_never_above_the_primal(seed, name, C, solver):
    structure, X, y = images(name, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = mm.StructuredSVM(structure, C=C, tol=0.1, max_iter=200, solver=solver, random_state=0).fit(X, y)
    assert model.certificate_.gap >= -1e-9 * abs(model.certificate_.primal)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_planes_of_features_that_are_nearly_nothing(C):
    """Values of the risk differ by rounding only: nobody is accused of a wrong subgradient, and the bounds are bounds."""
    structure, X, y = images("two parts")
    model = mm.StructuredSVM(structure, C=C, solver="bundle", max_iter=200, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = model.fit([1e-16 * x for x in X], y).certificate_
    assert found.verified and found.dual <= found.primal
    assert found.dual <= primal(tables(structure, [1e-16 * x for x in X], y), 0.0 * model.w_, np.full(len(X), C)) * (1.0 + 1e-12)


@pytest.mark.parametrize("solver", ["partial_linearization", "exponentiated_gradient"])
def test_solvers_that_need_marginals_say_so(solver):
    structure, X, y = images("two parts")
    with pytest.raises(TypeError, match="Parts has no marginals, which partial linearization and exponentiated gradient need"):
        mm.StructuredSVM(structure, solver=solver).fit(X, y)


@pytest.mark.long
def test_storage_of_features_does_not_matter():
    structure, X, y = images("two parts")
    forms = {
        "float32": [x.astype(np.float32) for x in X],
        "column by column": [np.asfortranarray(x) for x in X],
        "sparse": [(sp.csr_array(x.reshape(-1, 2)), x.shape[:2]) for x in X],
        "cells": [(x.reshape(-1, 2), x.shape[:2]) for x in X],
    }
    best = mm.StructuredSVM(structure, tol=1e-5, random_state=0).fit(X, y)
    for form, given_x in forms.items():
        if form in ("sparse", "float32"):  # every function on sparse cells: below, uncompiled
            check_structure(structure, given_x, y)
        else:
            model = mm.StructuredSVM(structure, tol=1e-5, random_state=0).fit(given_x, y)
            assert model.certificate_.primal == pytest.approx(best.certificate_.primal, rel=1e-4), form
    flat = Parts([(0, 1)], window=1)
    check_structure(flat, [x[:, :, 0] for x in X], y)


@pytest.mark.parametrize("solver", ["dual coordinate", "plain"])
def test_warm_start(solver):
    structure, X, y = images("two parts")
    model = mm.StructuredSVM(structure, tol=2e-2, warm_start=True, solver=SOLVERS[solver], random_state=0).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ <= first and model.certificate_.converged


def test_path_and_threads():
    structure, X, y = images("two parts")
    path = mm.StructuredSVM(structure, tol=1e-3, random_state=0).regularization_path(X, y, [0.1, 1.0])
    assert [each.certificate_.converged for each in path] == [True, True]
    several = clone(path[1]).set_params(n_jobs=3, C=1.0).fit(X, y)
    assert all(np.array_equal(a, b) for a, b in zip(several.predict(X), several.set_params(n_jobs=1).predict(X), strict=True))
    assert several.score(X, several.predict(X)) == 0.0 >= several.score(X, y)


# ---- sign constraints of a structure in plain Python ---------------------------------------------------------------------


class Signed(ThreeClasses):
    """Three classes whose first weights must not be negative."""

    def __init__(self, bound=(0, 1)):
        self.bound = bound

    def every_output(self, x, y, most):
        return [0, 1, 2]

    def nonnegative(self):
        return np.array(self.bound)


@pytest.mark.parametrize("solver", SOLVERS)
def test_signs_of_a_users_structure(solver):
    rng = np.random.default_rng(0)
    X, y = list(rng.normal(size=(9, 2))), [i % 3 for i in range(9)]
    structure, bound = Signed((0, 1, 3)), np.array([0, 1, 3])
    found, tol = tables(structure, X, y), 2e-2 if solver in SLOW else 1e-4
    best = optimum(found, np.ones(9), bound)
    assert optimum(found, np.ones(9)) < best * (1 - 1e-3)
    model = mm.StructuredSVM(structure, tol=tol, solver=SOLVERS[solver], random_state=0).fit(X, y)
    assert model.certificate_.dual <= best * (1 + 1e-7) and best * (1 - 1e-7) <= model.certificate_.primal
    assert model.certificate_.converged and np.all(model.w_[bound] >= 0.0)


@pytest.mark.parametrize("bound", [[6], [-1], [0.5], [[0, 1]]])
def test_signs_of_no_weight(bound):
    with pytest.raises(ValueError, match=r"Signed\.nonnegative must return numbers of weights, from 0 to 5; got"):
        mm.StructuredSVM(Signed(bound)).fit([np.ones(2)] * 2, [0, 1])


# ---- faces --------------------------------------------------------------------------------------------------------------


@pytest.mark.compiled
def test_landmarks_are_found():
    X, y, edges = datasets.make_landmarks(40, shape=(24, 24), random_state=0)
    structure = Parts(edges, window=7, reference=(1, 4))
    model = mm.StructuredSVM(structure, C=1.0, tol=5e-2, random_state=0).fit(X[:30], y[:30])
    assert model.certificate_.converged
    middle = np.mean(y[:30], axis=0).round()
    guess = np.mean([model.structure_.loss(true, middle) for true in y[30:]])
    assert -model.score(X[30:], y[30:]) < 0.6 * guess


def test_landmarks_are_repeatable_and_inside():
    X, y, edges = datasets.make_landmarks(4, shape=(20, 30), random_state=1)
    again = datasets.make_landmarks(4, shape=(20, 30), random_state=1)
    assert all(np.array_equal(a, b) for a, b in zip(X + y, again[0] + again[1], strict=True))
    assert not np.array_equal(X[0], datasets.make_landmarks(4, shape=(20, 30), random_state=2)[0][0])
    for x, places in zip(X, y, strict=True):
        assert x.shape == (20, 30, 1) and np.isfinite(x).all() and x.mean() == pytest.approx(0.0, abs=1e-12)
        assert places.shape == (8, 2) and np.all(places >= 0) and np.all(places < [20, 30])
    assert len(edges) == 7
    gradients = datasets.make_landmarks(1, features="gradients", random_state=0)[0][0]
    assert gradients.shape == (40, 40, 8) and np.all((gradients > 0).sum(axis=2) <= 1) and np.all(gradients >= 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_samples": 2.0}, "n_samples must be an integer of at least 1; got 2.0"),
        ({"shape": 40}, "shape must be a pair, rows and columns; got 40"),
        ({"shape": (40, 8)}, "shape must be an integer of at least 16; got 8"),
        ({"jitter": np.nan}, "jitter must be a finite number of at least 0; got nan"),
        ({"noise": "much"}, "noise must be a finite number of at least 0; got 'much'"),
        ({"features": "pixels"}, "features must be 'intensity' or 'gradients'; got 'pixels'"),
    ],
)
def test_landmarks_refuse(options, message):
    with pytest.raises(ValueError, match=message):
        datasets.make_landmarks(**options)


# ---- samples that cannot be read ----------------------------------------------------------------------------------------

X3 = [np.random.default_rng(i).normal(size=(3, 4, 2)) for i in range(3)]
Y3 = [np.array([[0, 0], [2, 3]]), np.array([[1, 0], [2, 2]]), np.array([[0, 1], [1, 1]])]


def refuse(message, X=X3, y=Y3, **options):
    structure = Parts(**({"edges": [(0, 1)], "window": 3} | options))
    with pytest.raises(ValueError, match=message) as caught:
        mm.StructuredSVM(structure).fit(X, y)
    assert "\n" not in str(caught.value)


def replaced(sequence, i, new):
    return [new if j == i else each for j, each in enumerate(sequence)]


def spoiled(value):
    image = X3[1].copy()
    image[2, 1, 1] = value
    return image


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ("tree", "'edges' parameter of Parts must be an array-like. Got 'tree'"),
        (3, "'edges' parameter of Parts must be an array-like. Got 3"),
        ([(0, 1), (1, 2), (2, 0)], "edges must form a tree; there is a cycle through part"),
        ([(0, 1), (2, 3), (3, 2)], r"The structure joins the nodes 3 and 2 twice \(edges 1 and 2\)"),
        ([(0, 1), (2, 3), (3, 4), (4, 2)], "edges must form a tree of the parts 0 to 4; part 2 is not joined to part 0"),
        ([(0, 2)], r"The structure has the edge \(0, 2\), but its 2 nodes are numbered from 0 to 1"),
        ([(0, -1)], r"The structure has the edge \(0, -1\), but its 2 nodes"),
        ([(0, 0)], r"The structure has an edge from node 0 to itself \(edge 0\)"),
        ([(0, 1, 2)], r"The structure has edges of shape \(1, 3\)"),
        ([(0.0, 1.0)], "The structure has edges that are not pairs of node numbers: they must be integers, and are float64"),
    ],
)
def test_edges(edges, message):
    refuse(message, edges=edges)


@pytest.mark.parametrize("window", [0, -1, 2.5, (3,), (3, 0), "3", True])
def test_windows(window):
    refuse("window must be an integer of at least 1, or a pair of them; got", window=window)


def test_units_and_references():
    for unit in (0.0, -1.0, np.nan, np.inf, "2", True):
        refuse(r"'unit' parameter of Parts must be a float in the range \(0.0, inf\) or None. Got", unit=unit)
    for reference in (1, (0,), (0, 2), "01", (0.0, 1.0)):
        refuse("reference must be a pair of parts, numbers from 0 to 1; got", reference=reference)
    same = replaced(Y3, 2, np.array([[1, 1], [1, 1]]))
    refuse(
        "Sample 2 of y has the parts 0 and 1 on one cell; their distance is the reference of the loss", y=same, reference=(0, 1)
    )


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((3, 4, 3)), "Sample 1 of X has 3 features for each cell; 2 are expected"),
        (np.zeros(5), r"Sample 1 of X must be an array \(rows, columns\) or \(rows, columns, features\)"),
        (np.zeros((3, 0, 2)), "Sample 1 of X is empty: its grid is 3 x 0"),
        ([[[1.0, 2.0]], [[1.0]]], "Sample 1 of X is not an array of numbers with rows of one length"),
        (spoiled(np.nan), r"Sample 1 of X holds, in cell \(2, 1\), NaN or infinity"),
        ((sp.csr_array(spoiled(np.inf).reshape(12, 2)), (3, 4)), r"Sample 1 of X holds, in cell \(2, 1\), NaN or infinity"),
        (spoiled(1e170), "Sample 1 of X is too large: the squared norm of its features overflows float64"),
        (np.full((3, 4, 2), "a"), "Sample 1 of X must hold real numbers; its dtype is <U1"),
        ((np.zeros((12, 2)),), r"Sample 1 of X must be a pair \(matrix of cells, \(rows, columns\)\) where it is a tuple"),
        ((np.zeros((11, 2)), (3, 4)), r"Sample 1 of X has features of shape \(11, 2\); a row for each of 3 x 4 cells is needed"),
        (np.zeros((2, 4, 2)), r"Sample 1 of y has part 1 at \(2, 2\), outside its grid of 2 x 4 cells"),
    ],
)
def test_images(x, message):
    refuse(message, X=replaced(X3, 1, x))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([[0, 0]], r"Sample 1 of y must be an array of numbers \(2, 2\), row and column of each part"),
        ([[0, 0], [1]], r"Sample 1 of y must be an array of numbers \(2, 2\)"),
        ([["a", "b"], ["c", "d"]], r"Sample 1 of y must be an array of numbers \(2, 2\)"),
        ([[0, 0], [3, 1]], r"Sample 1 of y has part 1 at \(3, 1\), outside its grid of 3 x 4 cells"),
        ([[0, -1], [2, 1]], r"Sample 1 of y has part 0 at \(0, -1\), outside its grid of 3 x 4 cells"),
        ([[0, 0], [1.5, 1]], r"Sample 1 of y has part 1 at \(1.5, 1\); cells have whole numbers"),
        ([[0, 0], [np.nan, 1]], r"Sample 1 of y has part 1 at \(nan, 1\); cells have whole numbers"),
        ([[np.inf, 0], [0, 1]], r"Sample 1 of y has part 0 at \(inf, 0\); cells have whole numbers"),
    ],
)
def test_places(y, message):
    refuse(message, y=replaced(Y3, 1, y))


def test_lists():
    refuse("X has 3 samples, y has 2", y=Y3[:2])
    refuse("There are no samples: X is empty", X=[], y=[])
    refuse("requires y to be passed", y=None)


def test_samples_at_test_time():
    model = mm.StructuredSVM(Parts([(0, 1)], 3), random_state=0).fit(X3, Y3)
    assert model.predict([]) == []
    with pytest.raises(ValueError, match="Sample 1 of X has 1 features for each cell; 2 are expected"):
        model.predict([X3[0], X3[0][:, :, :1]])
    with pytest.raises(ValueError, match=r"w must be a vector of \d+ weights; got an array of shape \(3,\)"):
        model.structure_.decode(np.zeros(3), X3[0])
