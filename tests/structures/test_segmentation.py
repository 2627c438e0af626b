"""Segmentation: every oracle against the list of all cuts, every solver against a convex solver, and samples it cannot read."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.enumerated import optimum, primal, tables
from helpers.structured import SEGMENTATIONS, cuts, lines
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin import datasets
from maxmargin.structures import Segmentation, check_structure
from maxmargin.structures.encoded import contract

SOLVERS = {
    "dual coordinate": mm.DualCoordinate(),
    "dual coordinate, plain": mm.DualCoordinate(momentum=False, average=False),
    "pairwise": mm.FrankWolfe(),
    "away": mm.FrankWolfe(steps="away", sampling="permutation"),
    "plain": mm.FrankWolfe(steps="plain", sampling="uniform"),
    "batch": mm.FrankWolfe(block=False),
    "partial linearization": mm.PartialLinearization(temperature=0.3),
    "batch linearization": mm.PartialLinearization(temperature=0.3, block=False),
    "exponentiated gradient": mm.ExponentiatedGradient(),
}
SLOW = {"plain", "batch", "exponentiated gradient", "batch linearization"}  # far from linear convergence: a looser tol


# ---- oracles ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SEGMENTATIONS)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_every_method_agrees_with_the_list_of_all_cuts(name, kind):
    X, y = lines(SEGMENTATIONS[name])
    check_structure(SEGMENTATIONS[name], [kind(x) for x in X], y)


def test_features_are_those_of_the_formula():
    structure = Segmentation({"a": (2, 4), "b": 1}, columns={"a": 2, "b": 1}, transitions=True)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3)), [("a", 4), ("b", 1), ("a", 3)]
    assert structure.size([x], [y]) == 3 * 3 + 4 + 4
    first, second, b = x[:2].sum(0) + x[5:7].sum(0), x[2:4].sum(0) + x[7], x[4]
    pieces, pairs = [0, 1, 1, 1], [0, 1, 1, 0]  # a of width 2, 3, 4, b; aa, ab, ba, bb
    np.testing.assert_allclose(structure.joint_feature(x, y), np.concatenate([first, second, b, pieces, pairs]))
    assert structure.loss(y, [("a", 2), ("b", 1), ("b", 1), ("a", 4)]) == 3.0  # the labels are aabbaaaa, and should be aaaabaaa


def test_outputs_come_back_as_they_were_given():
    structure = SEGMENTATIONS["ranges and transitions"]
    X, y = lines(structure)
    model = mm.StructuredSVM(structure, C=100.0, random_state=0).fit(X, y)
    assert all(
        isinstance(cut, list) and sum(width for _, width in cut) == len(x) for x, cut in zip(X, model.predict(X), strict=True)
    )
    assert model.score(X, model.predict(X)) == 1.0
    assert model.predict(X[::-1]) == model.predict(X)[::-1]
    threaded = clone(model).set_params(n_jobs=3).fit(X, y)
    assert threaded.predict(X) == model.predict(X)


@given(st.data())
@settings(max_examples=40)
def test_decoders_on_random_widths(data):
    count = data.draw(st.integers(2, 3))
    widths = []
    for _ in range(count):
        least = data.draw(st.integers(1, 3))
        widths.append((least, least + data.draw(st.integers(0, 2))))
    options = {name: data.draw(st.booleans()) for name in ("transitions", "bias", "normalize_loss")}
    structure = Segmentation(widths, columns=data.draw(st.sampled_from([None, 1, 2])), **options)
    lengths = [t for t in range(1, 8) if cuts(widths, t)]
    chosen = data.draw(st.lists(st.sampled_from(lengths), min_size=1, max_size=3))
    check_structure(structure, *lines(structure, chosen, seed=data.draw(st.integers(0, 99))))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_functions_that_solvers_are_made_of(kind):
    """Inner products, differences and their measure against the features themselves; on one set of scratch memory."""
    for name, structure in SEGMENTATIONS.items():
        structure = clone(structure)
        X, y = lines(structure)
        dim = structure.size(X, y)
        rng, data = np.random.default_rng(1), structure.encode([kind(x) for x in X], y)
        w = rng.normal(size=dim)
        W, scratch = structure.unflatten(w), contract.new_scratch(data)
        np.testing.assert_array_equal(structure.flatten(W), w)
        assert W.shape == contract.weight_shape(data), name
        for i in (2, 0, 1):
            every = structure.every_output(X[i], y[i], 10_000)
            two = [every[k] for k in rng.integers(len(every), size=2)]
            codes = [structure._code(structure._segments(cut, 0)) for cut in two]
            phi = [structure.joint_feature(X[i], cut) for cut in two]
            loss = [structure.loss(y[i], cut) for cut in two]
            contract.prepare(data, i, W, scratch)
            for code, feature, value, cut in zip(codes, phi, loss, two, strict=True):
                assert contract.score_of(data, i, scratch, code) == pytest.approx(w @ feature)
                assert contract.loss_of(data, i, code) == pytest.approx(value)
                assert contract.output_of(data, structure, i, code) == cut
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
            features = np.array([structure.joint_feature(X[i], cut) for cut in every])
            farthest = np.square(features[:, None] - features[None]).sum(axis=2).max()
            assert contract.diameter(data, i) >= farthest


# ---- solvers ------------------------------------------------------------------------------------------------------------


def case(name):
    structure = SEGMENTATIONS[name]
    X, y = lines(structure, (5, 4, 6, 3), seed=3)
    return structure, X, y


CASES = ("as in the paper", "ranges and transitions", "one vector for each label")


@pytest.fixture(scope="module", params=CASES)
def solved(request):
    structure, X, y = case(request.param)
    found, weight = tables(structure, X, y), np.array([1.0, 2.0, 0.0, 3.0])
    return structure, X, y, found, weight, optimum(found, 0.7 * weight)


@pytest.mark.parametrize("solver", SOLVERS)
def test_optimum_is_that_of_a_convex_solver(solved, solver):
    structure, X, y, found, weight, best = solved
    tol = 2e-2 if solver in SLOW else 1e-4
    model = mm.StructuredSVM(structure, C=0.7, tol=tol, solver=SOLVERS[solver], random_state=0).fit(X, y, weight)
    certificate = model.certificate_
    assert certificate.converged and certificate.relative_gap <= tol
    assert certificate.dual <= best * (1 + 1e-7) and certificate.primal >= best * (1 - 1e-7)
    assert primal(found, model.w_, 0.7 * weight) == pytest.approx(certificate.primal, rel=1e-9)


def test_a_weight_is_so_many_repetitions(solved):
    structure, X, y, _, _, best = solved
    often = [i for i, count in enumerate((1, 2, 0, 3)) for _ in range(count)]
    model = mm.StructuredSVM(structure, C=0.7, tol=1e-4, random_state=0).fit([X[i] for i in often], [y[i] for i in often])
    assert model.certificate_.dual <= best * (1 + 1e-7) and best * (1 - 1e-7) <= model.certificate_.primal


@pytest.mark.parametrize("solver", ["dual coordinate", "plain", "partial linearization"])
def test_weights_and_dual_value_follow_from_the_duals(solved, solver):
    structure, X, y, found, weight, _ = solved
    model = mm.StructuredSVM(structure, C=0.7, tol=2e-2, solver=SOLVERS[solver], keep_duals=True, random_state=0)
    model.fit(X, y, weight)
    w, reward = np.zeros_like(model.w_), 0.0
    for i, (psi, loss, every) in enumerate(found):
        given, cap = model.dual_coef_[i], 0.7 * weight[i]
        if solver == "dual coordinate":
            assert sum(a for _, a in given) == pytest.approx(cap)
            for cut, a in given:
                j = every.index(cut)
                w += a * psi[j]
                reward += a * loss[j]
        elif cap > 0:
            tables_of = {name: table / cap for name, table in given.items()}
            pair = tables_of.get("pair", np.zeros((1, 1)))
            K = len(model.structure_.labels_)
            total = pair.reshape(-1, pair.shape[-2], pair.shape[-1]).sum(axis=0) if structure.transitions else np.zeros((K, K))
            feature, expected = model.structure_.expect(X[i], y[i], {"segment": tables_of["segment"], "pair": total[None]})
            w += cap * (model.structure_.joint_feature(X[i], y[i]) - feature)
            reward += cap * expected
    np.testing.assert_allclose(w, model.w_, atol=1e-9)
    assert reward - 0.5 * w @ w == pytest.approx(model.certificate_.dual, rel=1e-9)


@given(st.integers(0, 10_000), st.sampled_from(sorted(SEGMENTATIONS)), st.floats(1e-3, 1e3))
@settings(max_examples=25)
def test_the_dual_is_never_above_the_primal(seed, name, C):
    X, y = lines(SEGMENTATIONS[name], (4, 6, 9), seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = mm.StructuredSVM(SEGMENTATIONS[name], C=C, tol=0.1, max_iter=200, random_state=0).fit(X, y)
    assert model.certificate_.gap >= -1e-9 * abs(model.certificate_.primal)


@pytest.mark.long
def test_storage_of_features_does_not_matter():
    structure, X, y = case("ranges and transitions")
    fits = [
        mm.StructuredSVM(structure, tol=1e-5, random_state=0).fit([kind(x) for x in X], y)
        for kind in (np.asarray, sp.csr_array, np.asfortranarray)
    ]
    for model in fits[1:]:
        assert model.certificate_.primal == pytest.approx(fits[0].certificate_.primal, rel=1e-4)


@pytest.mark.parametrize("solver", ["dual coordinate", "plain", "partial linearization"])
def test_warm_start(solver):
    structure, X, y = case("ranges and transitions")
    model = mm.StructuredSVM(structure, tol=2e-2, warm_start=True, solver=SOLVERS[solver], random_state=0).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ <= first and model.certificate_.converged


def test_path():
    structure, X, y = case("ranges and transitions")
    path = mm.StructuredSVM(structure, tol=1e-3, random_state=0).regularization_path(X, y, [0.1, 1.0])
    assert [each.certificate_.converged for each in path] == [True, True]


# ---- plates -------------------------------------------------------------------------------------------------------------


@pytest.mark.compiled
def test_plates_are_read():
    X, y, widths = datasets.make_plates(120, alphabet="0123456789", noise=0.15, random_state=0)
    structure = Segmentation(widths, bias=False)
    model = mm.StructuredSVM(structure, C=0.1, tol=1e-2, random_state=0).fit(X[:80], y[:80])
    assert model.certificate_.converged
    assert model.score(X[80:], y[80:]) > 0.85


def test_plates_are_repeatable_and_whole():
    X, y, widths = datasets.make_plates(5, random_state=1)
    again = datasets.make_plates(5, random_state=1)
    assert y == again[1] and all(np.array_equal(a, b) for a, b in zip(X, again[0], strict=True))
    assert y != datasets.make_plates(5, random_state=2)[1]
    for x, cut in zip(X, y, strict=True):
        assert sum(width for _, width in cut) == len(x) and all(width == widths[label] for label, width in cut)
        assert x.shape[1] == X[0].shape[1] and np.isfinite(x).all()
    wide = datasets.make_plates(3, scale=2, random_state=1)
    assert wide[0][0].shape[1] == 2 * X[0].shape[1] and wide[2]["A"] == 2 * widths["A"]
    assert datasets.make_plates(4, n_characters=3, random_state=0)[1] != datasets.make_plates(4, random_state=0)[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_samples": 0}, "n_samples must be an integer of at least 1; got 0"),
        ({"n_characters": 1.5}, "n_characters must be an integer of at least 1; got 1.5"),
        ({"scale": 0}, "scale must be an integer of at least 1; got 0"),
        ({"noise": -1.0}, "noise must be a finite number of at least 0; got -1.0"),
        ({"alphabet": "A"}, "alphabet must name at least two characters"),
        ({"alphabet": "AB?"}, r"alphabet must be made of digits and capital letters; '\?' is neither"),
    ],
)
def test_plates_refuse(options, message):
    with pytest.raises(ValueError, match=message):
        datasets.make_plates(**options)


# ---- samples that cannot be read ----------------------------------------------------------------------------------------

X3 = [np.random.default_rng(0).normal(size=(length, 2)) for length in (4, 5, 3)]
Y3 = [[("a", 2), ("b", 2)], [("b", 3), ("a", 2)], [("b", 3)]]
WIDTHS = {"a": 2, "b": (2, 3)}


def refuse(message, X=X3, y=Y3, **options):
    structure = Segmentation(**({"widths": WIDTHS} | options))
    with pytest.raises(ValueError, match=message) as caught:
        mm.StructuredSVM(structure).fit(X, y)
    assert "\n" not in str(caught.value)


def replaced(sequence, i, new):
    return [new if j == i else each for j, each in enumerate(sequence)]


@pytest.mark.parametrize(
    ("widths", "message"),
    [
        (3, "'widths' parameter of Segmentation must be .*Mapping' or an array-like. Got 3"),
        ("ab", "'widths' parameter of Segmentation must be .* Got 'ab'"),
        ([2], "widths must name at least two labels; got 1"),
        ({"a": 2, "b": 0}, "widths must be integers of at least 1; the label 'b' has 0"),
        ({"a": 2, "b": -3}, "widths must be integers of at least 1; the label 'b' has -3"),
        ({"a": 2.5, "b": 2}, "widths must be integers of at least 1; the label 'a' has 2.5"),
        ({"a": (1, 2.5), "b": 2}, "widths must be integers of at least 1; the label 'a' has 2.5"),
        ({"a": (0, 2), "b": 2}, "widths must be integers of at least 1; the label 'a' has 0"),
        ({"a": "wide", "b": 2}, "widths must be integers of at least 1; the label 'a' has 'wide'"),
        ({"a": True, "b": 2}, "widths must be integers of at least 1; the label 'a' has True"),
        ({"a": (3, 2), "b": 2}, r"The label 'a' is given no width: \(3, 2\) is empty"),
        ({"a": 3, "b": 6}, r"Sample 0 of X has 4 positions: no segments of the allowed widths \(3, 6\) add up to that"),
    ],
)
def test_widths(widths, message):
    refuse(message, widths=widths)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (0, "columns must be integers of at least 1; the label 'a' has 0"),
        ([1], "columns must be an integer, or one for each of the 2 labels"),
        ({"a": 1}, "columns names no number for the label 'b'"),
        ("x", "columns must be an integer, or one for each of the 2 labels"),
        ([1, 2.5], "columns must be integers of at least 1; the label 'b' has 2.5"),
    ],
)
def test_columns(columns, message):
    refuse(message, columns=columns)


def test_costs():
    refuse(r"cost must have shape \(2, 2\)", cost=np.ones((3, 3)))
    refuse("cost must be finite and not negative, with a zero diagonal", cost=np.ones((2, 2)))


@pytest.mark.parametrize(
    ("i", "x", "message"),
    [
        (1, np.zeros((5, 3)), "Sample 1 of X has 3 features; 2 are expected"),
        (1, [[1.0, 2.0], [1.0]], "Sample 1 of X is not an array of numbers with rows of one length"),
        (2, np.zeros(3), "Sample 2 of X must have two dimensions, positions and features; got 1"),
        (2, np.zeros((0, 2)), "Sample 2 of X is empty: it has no positions"),
        (2, np.zeros((1, 2)), r"Sample 2 of X has 1 positions: no segments of the allowed widths \(2, 3\) add up to that"),
        (
            1,
            np.where(np.arange(10).reshape(5, 2) == 7, np.nan, 1.0),
            "Sample 1 of X holds, in the features of position 3, NaN or",
        ),
        (
            1,
            sp.csr_array(np.where(np.arange(10).reshape(5, 2) == 7, np.inf, 1.0)),
            "Sample 1 of X holds, in the features of position 3",
        ),
        (1, np.full((5, 2), 1e200), "Sample 1 of X is too large: the squared norm of its features overflows float64"),
        (0, np.full((4, 2), "a"), "Sample 0 of X must hold real numbers; its dtype is <U1"),
        (1, np.zeros((4, 2)), "Sample 1 has 4 positions in X, and segments of 5 in y"),
    ],
)
def test_lines(i, x, message):
    refuse(message, X=replaced(X3, i, x))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ("ab", r"Sample 1 of y must be a list of segments \(label, width\); got 'ab'"),
        (7, r"Sample 1 of y must be a list of segments \(label, width\); got 7"),
        ([("a", 2), "b"], r"Sample 1 of y must be a list of segments \(label, width\); entry 1 is 'b'"),
        ([("a", 2), ("c", 3)], "Segment 1 of sample 1 of y has the unknown label 'c'; known are 'a', 'b'"),
        ([("a", 3), ("b", 2)], "Segment 0 of sample 1 of y has width 3; segments of 'a' are 2 wide"),
        ([("a", 2), ("b", 3.0)], "Segment 1 of sample 1 of y has width 3.0; segments of 'b' are 2, 3 wide"),
        ([([], 2), ("b", 3)], r"Segment 0 of sample 1 of y has the label \[\], which cannot be one: it is not hashable"),
        ([("a", 2), ("b", 2)], "Sample 1 has 5 positions in X, and segments of 4 in y"),
        ([], "Sample 1 has 5 positions in X, and segments of 0 in y"),
    ],
)
def test_segments(y, message):
    refuse(message, y=replaced(Y3, 1, y))


def test_lists():
    refuse("X has 3 samples, y has 2", y=Y3[:2])
    refuse("There are no samples: X is empty", X=[], y=[])
    refuse("requires y to be passed", y=None)


def test_samples_at_test_time():
    model = mm.StructuredSVM(Segmentation(WIDTHS), random_state=0).fit(X3, Y3)
    assert model.predict([]) == []
    with pytest.raises(ValueError, match="Sample 1 of X has 1 positions: no segments"):
        model.predict([X3[0], X3[0][:1]])
    with pytest.raises(ValueError, match="Sample 0 of X has 1 features; 2 are expected"):
        model.predict([X3[0][:, :1]])
    with pytest.raises(ValueError, match=r"w must be a vector of \d+ weights; got an array of shape \(3,\)"):
        model.structure_.decode(np.zeros(3), X3[0])
    with pytest.raises(ValueError, match="Sample 0 has 4 positions in X, and segments of 5 in y"):
        model.score(X3[:1], Y3[1:2])
    with pytest.raises(ValueError, match="The outputs cover 4 and 5 positions"):
        model.structure_.loss(Y3[0], Y3[1])


@pytest.mark.parametrize("spoiled", ["all", "every third"])
def test_weights_that_are_no_numbers_do_no_harm(spoiled):
    """Nothing is best then: whatever is answered is a cut of the line, into segments that there are."""
    structure = SEGMENTATIONS["ranges and transitions"]
    X, y = lines(structure)
    model = mm.StructuredSVM(structure, C=100.0, random_state=0).fit(X, y)
    model.w_ = np.where((np.arange(model.w_.size) % 3 == 0) | (spoiled == "all"), np.nan, model.w_)
    found = model.predict(X)
    assert len(found) == len(X)
    for x, cut in zip(X, found, strict=True):
        assert set(cut) <= set(model.structure_.pieces_) and sum(width for _, width in cut) == len(x)
