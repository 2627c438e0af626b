"""Chains as users of taggers have them: lists, empty sequences, rules of transitions, weights by name, classes with weights."""

from itertools import pairwise, product

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.certificates import consistent
from hypothesis import given, settings
from hypothesis import strategies as st

import maxmargin as mm
from maxmargin.structures import Chain, Multiclass, Tree, reading
from maxmargin.structures.transitions import has_output, scheme_rules

SOLVERS = ["dual_coordinate", "frank_wolfe", "partial_linearization", "exponentiated_gradient", "bundle"]
IOB = ["B-N", "B-V", "I-N", "I-V", "O"]


def drawn(seed: int, labels, sizes, follows=lambda a, b: True):
    """Random sequences whose labels, and the ends as None, follow each other as they may."""
    rng, X, y = np.random.default_rng(seed), [], []
    for size in sizes:
        every = [c for c in product(labels, repeat=size) if all(map(follows, (None, *c), (*c, None)))]
        y.append(list(every[rng.integers(len(every))]))
        X.append(rng.normal(size=(size, 3)))
    return X, y


def follows_iob(a, b):
    return b is None or not b.startswith("I-") or (a is not None and a[2:] == b[2:] and a != "O")


def primal(structure, X, y, w, C):
    """By brute force over the outputs that are allowed."""
    losses = []
    for x, true in zip(X, y, strict=True):
        outputs = structure.every_output(x, true, 10**6)
        mine = w @ structure.joint_feature(x, true)
        losses.append(max(structure.loss(true, out) + w @ structure.joint_feature(x, out) - mine for out in outputs))
    return 0.5 * w @ w + C * sum(losses)


# ---- lists, empty sequences ------------------------------------------------------------------------------


def test_lists_in_lists_out():
    X, y = drawn(0, "ab", [3, 1, 0, 4])
    model = mm.StructuredSVM("chain", random_state=0).fit([x.tolist() for x in X], y)
    assert isinstance(model.structure_, Chain)
    found = model.predict([x.tolist() for x in X])
    assert all(type(labels) is list for labels in found) and [len(labels) for labels in found] == [3, 1, 0, 4]
    assert model.predict(X) == found == [model.predict([x])[0] for x in X]
    assert all(type(labels) is list for best in model.predict_n_best(X, 2) for labels, _ in best)
    arrays = mm.StructuredSVM("chain", random_state=0).fit(X, [np.array(labels, "U1") for labels in y]).predict(X)
    assert all(isinstance(labels, np.ndarray) for labels in arrays) and [labels.tolist() for labels in arrays] == found


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("sparse", [False, True])
def test_an_empty_sequence_changes_nothing(solver, sparse):
    X, y = drawn(1, [0, 1, 2], [3, 2, 4, 2])
    X = [sp.csr_array(x) for x in X] if sparse else X
    nothing = sp.csr_array((0, 3)) if sparse else []
    params = {"solver": solver, "tol": 1e-4, "random_state": 0, "max_iter": 3000}
    plain = mm.StructuredSVM(Chain(normalize_loss=True), **params).fit(X, y)
    model = mm.StructuredSVM(Chain(normalize_loss=True), **params).fit(
        [nothing, *X[:2], nothing, *X[2:]], [[], *y[:2], [], *y[2:]]
    )
    consistent(model)
    assert model.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=3e-4)
    assert model.predict([nothing, X[0]]) == [[], *plain.predict(X[:1])]
    outputs, scores = model.predict([nothing], return_score=True)
    assert outputs == [[]] and scores.tolist() == [0.0]
    assert model.predict_n_best([nothing], 3) == [[([], 0.0)]]
    assert model.predict_marginals([nothing, X[0]])[0].shape == (0, 3)


def test_only_empty_sequences():
    with pytest.raises(ValueError, match="At least two labels are needed; y holds none"):
        mm.StructuredSVM("chain").fit([[], []], [[], []])
    with pytest.raises(ValueError, match="Sample 1 has 0 nodes in X and 1 labels in y"):
        mm.StructuredSVM("chain").fit([np.eye(2), []], [[0, 1], [1]])
    with pytest.raises(ValueError, match="structure"):
        mm.StructuredSVM("chains").fit([np.eye(2)], [[0, 1]])


def test_one_sequence_is_decoded_as_many():
    rng = np.random.default_rng(2)
    X, y = drawn(2, IOB, [3, 4, 2, 5, 1])
    for table in (lambda x: x, sp.csr_array, lambda x: sp.csr_array(x.astype(np.float32))):
        model = mm.StructuredSVM(Chain(forbidden=None), tol=0.1, random_state=0).fit([table(x) for x in X], y)
        new = [table(rng.normal(size=(size, 3)) * (rng.random((size, 3)) < 0.7)) for size in (1, 3, 130, 6)]
        outputs, scores = model.predict(new, return_score=True)
        for x, output, score in zip(new, outputs, scores, strict=True):
            alone = model.predict([x], return_score=True)
            assert alone[0] == [output] and alone[1][0] == pytest.approx(score, abs=1e-9)
    shuffled = sp.csr_array(new[1])
    shuffled.indices, shuffled.data = shuffled.indices.copy(), shuffled.data.copy()
    for first, last in zip(shuffled.indptr[:-1], shuffled.indptr[1:], strict=True):
        shuffled.indices[first:last] = shuffled.indices[first:last][::-1]
        shuffled.data[first:last] = shuffled.data[first:last][::-1]
    assert model.predict([shuffled]) == [outputs[1]]
    for bad, message in (
        (np.full((2, 3), np.nan), "NaN"),
        (np.zeros((2, 4)), "4 features; 3"),
        (np.full((2, 3), 1e200), "large"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict([bad])


@pytest.mark.parametrize("value", [1.0, 0.5])
def test_rows_that_name_a_column_twice_are_decoded_as_they_lie(value, monkeypatch):
    rng = np.random.default_rng(3)
    X, y = drawn(2, IOB, [3, 4, 2, 5, 1])
    model = mm.StructuredSVM("chain", tol=0.1, random_state=0).fit([sp.csr_array(x) for x in X], y)
    columns = [rng.integers(0, 3, (size, 6)) for size in (1, 3, 130, 6)]
    new = [sp.csr_array((np.full(6 * len(c), value), c.ravel(), np.arange(0, 6 * len(c) + 1, 6)), (len(c), 3)) for c in columns]
    merged = [x.copy() for x in new]
    for x in merged:
        x.sum_duplicates()
    outputs, scores = model.predict(merged, return_score=True)
    monkeypatch.setattr(sp.csr_array, "sum_duplicates", None)
    found = [model.predict(new, return_score=True), *(model.predict([x], return_score=True) for x in new)]
    assert found[0][0] == outputs == [labels for alone, _ in found[1:] for labels in alone]
    assert np.allclose(found[0][1], scores) and np.allclose(np.concatenate([alone for _, alone in found[1:]]), scores)
    assert all(x.nnz == 6 * x.shape[0] for x in new)


# ---- weights by name -------------------------------------------------------------------------------------


def test_weights_by_name():
    X, y = drawn(3, "abc", [3, 4, 2, 5])
    model = mm.StructuredSVM("chain", random_state=0)
    assert not hasattr(model, "coef_")
    model.fit(X, y)
    assert model.coef_.shape == (3, 3) and model.transitions_.shape == (3, 3) and np.shares_memory(model.coef_, model.w_)
    labels = model.structure_.labels_.tolist()
    outputs, scores = model.predict(X, return_score=True)
    for x, output, score in zip(X, outputs, scores, strict=True):
        at = [labels.index(label) for label in output]
        told = sum(model.coef_[k] @ row + model.intercept_[k] for k, row in zip(at, x, strict=True))
        told += sum(model.transitions_[a, b] for a, b in pairwise(at))
        assert score == pytest.approx(told + model.first_[at[0]] + model.last_[at[-1]])
    top = model.top_features(["x", "y", "z"], n=2)
    for label, row in zip(labels, model.coef_, strict=True):
        best = np.argsort(-np.abs(row))[:2]
        assert top[label] == [("xyz"[k], row[k]) for k in best]
    assert model.top_features(n=1)["a"][0][0] in (0, 1, 2)
    with pytest.raises(ValueError, match="names has 2 names; the model has 3 features"):
        model.top_features(["x", "y"])
    plain = mm.StructuredSVM(Chain(first_last_bias=False, bias=False), random_state=0).fit(X, y)
    assert not hasattr(plain, "first_") and not hasattr(plain, "intercept_") and plain.coef_.size + plain.transitions_.size == 18
    single = mm.StructuredSVM("multiclass", random_state=0).fit(np.eye(3), [0, 1, 2])
    assert single.coef_.shape == (3, 3) and not hasattr(single, "transitions_")


def test_class_weight():
    X, y = drawn(4, "ab", [3, 4, 2, 5, 3])
    weights, params = np.array([2.0, 1, 0, 3, 1]), {"random_state": 0, "tol": 1e-5}
    costs = {"a": {"b": 5.0}, "b": {"a": 0.5}}
    by_weight = mm.StructuredSVM("chain", class_weight={"a": 5.0, "b": 0.5}, **params).fit(X, y)
    by_cost = mm.StructuredSVM(Chain(cost=costs), **params).fit(X, y)
    assert by_weight.certificate_.primal == pytest.approx(by_cost.certificate_.primal, rel=1e-6)
    repeated = [i for i, count in enumerate(weights.astype(int)) for _ in range(count)]
    weighted = mm.StructuredSVM("chain", class_weight="balanced", **params).fit(X, y, weights)
    again = mm.StructuredSVM("chain", class_weight="balanced", **params).fit([X[i] for i in repeated], [y[i] for i in repeated])
    assert np.allclose(weighted.structure_.cost_, again.structure_.cost_)
    assert weighted.certificate_.primal == pytest.approx(again.certificate_.primal, rel=3e-5)
    with pytest.raises(ValueError, match="class_weight names 'z'"):
        mm.StructuredSVM("chain", class_weight={"z": 1.0}).fit(X, y)
    three = Chain(cost={"a": {"c": 3.0}})
    three.size([np.zeros((3, 1))], [["a", "b", "c"]])
    assert three.cost_.tolist() == [[0, 1, 3], [1, 0, 1], [1, 1, 0]]  # unnamed pairs cost 1


# ---- rules -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("first_last_bias", [True, False])
def test_the_optimum_under_rules(solver, first_last_bias):
    X, y = drawn(5, IOB, [3, 4, 2, 1, 3], follows_iob)
    structure = Chain(first_last_bias=first_last_bias, forbidden="iob")
    model = mm.StructuredSVM(structure, 0.5, solver=solver, tol=1e-4, random_state=0, max_iter=5000).fit(X, y)
    consistent(model)
    other = mm.StructuredSVM(structure, 0.5, tol=1e-5, random_state=0).fit(X, y)
    true = primal(model.structure_, X, y, np.asarray(model.w_), 0.5)
    assert model.certificate_.primal == pytest.approx(true, rel=1e-9)
    assert model.certificate_.dual <= other.certificate_.primal * (1 + 1e-9)
    assert model.certificate_.primal == pytest.approx(other.certificate_.primal, rel=2e-4)
    free = mm.StructuredSVM(Chain(first_last_bias=first_last_bias), 0.5, tol=1e-4, random_state=0).fit(X, y)
    assert model.certificate_.primal < free.certificate_.primal * (1 - 1e-3)  # fewer outputs to keep away from


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(SOLVERS), st.sampled_from([1e-2, 0.3]))
def test_primal_is_above_dual_under_rules(seed, solver, tol):
    rng = np.random.default_rng(seed)
    pairs = [(a, b) for a in [0, 1, 2, None] for b in [0, 1, 2, None] if rng.random() < 0.35 and (a, b) != (None, None)]
    sizes = rng.integers(1, 5, size=4).tolist()
    try:
        X, y = drawn(seed, [0, 1, 2], sizes, lambda a, b: (a, b) not in pairs)
    except ValueError:  # no sequence of that length is allowed
        return
    model = mm.StructuredSVM(Chain(3, forbidden=pairs), solver=solver, tol=tol, random_state=0).fit(X, y)
    found = model.certificate_
    assert found.primal == pytest.approx(primal(model.structure_, X, y, np.asarray(model.w_), 1.0), rel=1e-9)
    best = mm.StructuredSVM(Chain(3, forbidden=pairs), tol=1e-6, random_state=0).fit(X, y).certificate_
    assert found.dual <= best.primal * (1 + 1e-9)
    assert best.dual <= found.primal * (1 + 1e-9)


def test_decoding_and_marginals_under_rules():
    X, y = drawn(6, IOB, [3, 4, 2, 1, 4, 4], follows_iob)
    assert {label for labels in y for label in labels} == set(IOB)
    model = mm.StructuredSVM(Chain(forbidden="iob"), random_state=0).fit(X, y)
    w = np.random.default_rng(0).normal(size=model.w_.size) * 3
    model.w_, structure = w, model.structure_
    labels = structure.labels_.tolist()
    for x, found, marginals, best in zip(
        X, model.predict(X), model.predict_marginals(X), model.predict_n_best(X, 10**4), strict=True
    ):
        every = [c for c in product(IOB, repeat=len(x)) if all(map(follows_iob, (None, *c), (*c, None)))]
        scores = np.array([w @ structure.joint_feature(x, list(c)) for c in every])
        assert found == list(every[scores.argmax()]) == model.predict([x])[0] == best[0][0]
        assert len(best) == len(every) and np.allclose([score for _, score in best], np.sort(scores)[::-1])
        mass = np.exp(scores - scores.max())
        expected = np.zeros(marginals.shape)
        for c, p in zip(every, mass / mass.sum(), strict=True):
            expected[np.arange(len(x)), [labels.index(label) for label in c]] += p
        assert np.allclose(marginals, expected)
    mm.check_structure(Chain(forbidden="iob"), X, y)


def test_pairs_and_what_must_follow():
    X, y = [np.eye(3), np.eye(3)[:2]], [["a", "b", "c"], ["a", "b"]]
    forbidden = Chain(forbidden=[("a", "a"), ("a", "c"), ("a", None), (None, "b"), (None, "c")])
    required = Chain(required={"a": ["b"], None: ["a"]})
    for structure in (forbidden, required):
        structure.size(X, y)
        assert structure.every_output(X[1], y[1], 100) == [["a", "b"]]
    assert np.array_equal(forbidden.rules_, required.rules_)


def test_schemes():
    labels = ["B-N", "E-N", "I-N", "O", "S-N", "B-V", "E-V"]
    banned = scheme_rules("BIOES", labels)
    allowed = {(a, b) for k, a in enumerate(labels) for j, b in enumerate(labels) if not banned[2 + k, j]}
    opening, open_ = {"O", "S-N", "B-N", "B-V"}, {"B-N": {"I-N", "E-N"}, "I-N": {"I-N", "E-N"}, "B-V": {"E-V"}}
    assert allowed == {(a, b) for a in labels for b in open_.get(a, opening)}
    assert {b for b, no in zip(labels, banned[0], strict=True) if not no} == opening
    assert {a for a, no in zip(labels, banned[1], strict=True) if no} == set(open_)
    for name, follows in (("iob", follows_iob), ("io", lambda a, b: True)):
        banned = scheme_rules(name, IOB)
        assert banned[2:].tolist() == [[not follows(a, b) for b in IOB] for a in IOB]
        assert banned[:2].tolist() == [[not follows(None, b) for b in IOB], [not follows(a, None) for a in IOB]]
    rules = np.array([[0, 1], [1, 0], [1, 0], [1, 1]])  # from 0 to 1, and no further
    assert [has_output(rules, size) for size in range(4)] == [True, False, True, False]


@pytest.mark.parametrize(
    ("structure", "y", "message"),
    [
        (Chain(forbidden="iob"), ["O", "I-N"], "Sample 1 of y has 'I-N' after 'O', at position 1, which is .*'repair'.*'io'"),
        (Chain(forbidden="iob"), ["I-N", "B-N"], "Sample 1 of y begins with 'I-N', at position 0"),
        (Chain(forbidden="bioes"), ["O", "B-N"], "Sample 0 of y has 'O' after 'B-N'"),
        (Chain(forbidden=[("O", None)]), ["B-N", "O"], "Sample 0 of y ends with 'O', at position 1"),
        (Chain(forbidden="iob"), ["O", "X-N"], "forbidden='iob' reads labels 'B-...', 'I-...', 'O'; 'X-N' is none of them"),
        (Chain(forbidden="iob9"), ["O", "O"], "forbidden must be 'iob', 'io', 'bioes' or a list of pairs"),
        (Chain(forbidden=["O"]), ["O", "O"], "forbidden must be 'iob', 'io', 'bioes' or a list of pairs"),
        (Chain(forbidden=[("O", "Q")]), ["O", "O"], "forbidden names 'Q', which is not among the labels"),
        (Chain(required=["O"]), ["O", "O"], "required must be a dict"),
        (Chain(required={"O": "B-N"}), ["O", "O"], "required\\['O'\\] must be a list"),
        (Chain(required={"O": ["Q"]}), ["O", "O"], "required names 'Q', which is not among the labels"),
        (Chain(required={"Q": ["O"]}), ["O", "O"], "required names 'Q', which is not among the labels"),
        (Chain(required={None: [None]}), ["O", "O"], "required has the pair \\(None, None\\)"),
        (Chain(forbidden=[("B-N", "B-N")], required={"O": [None]}), ["B-N", "B-N"], "has 'B-N' after 'B-N', at position 1"),
        (Chain(forbidden=[("B-N", "B-N")], required={"O": [None]}), ["O", "B-N"], "has 'B-N' after 'O', at position 1"),
        (Chain(forbidden=[(None, None)]), ["O", "O"], "there is no label"),
        (Chain(forbidden="bioes", on_error="repair"), ["O", "O"], "on_error='repair' is for forbidden='iob'; got .*'bioes'"),
        (Chain(forbidden="iob", on_error="mend"), ["O", "O"], "on_error"),
    ],
)
def test_bad_rules(structure, y, message):
    with pytest.raises(ValueError, match=message):
        mm.StructuredSVM(structure).fit([np.eye(2), np.eye(2)], [["B-N", "O"], y])


@pytest.mark.parametrize(("empty", "where"), [((0,), 3), ((1, 2), 4), ((3,), 2), ((0, 1, 5), 4)])
def test_forbidden_labels_are_found_beside_empty_sequences(empty, where):
    y = [["B-N", "I-N"], ["O", "B-N"], ["O", "O", "I-N"]]  # from I-N to O, and from B-N to O, there are other samples
    for at in empty:
        y.insert(at, [])
    X = [np.ones((len(labels), 2)) for labels in y]
    with pytest.raises(ValueError, match=f"Sample {where} of y has 'I-N' after 'O', at position 2"):
        mm.StructuredSVM(Chain(forbidden="iob")).fit(X, y)


def test_broken_chunks_are_repaired_or_allowed():
    broken = [["I-N", "I-N", "O"], ["O", "I-V"], ["B-N", "I-V", "I-V", "I-N"], ["B-N", "I-N"]]  # B-V is in none of them
    read = [["B-N", "I-N", "O"], ["O", "B-V"], ["B-N", "B-V", "I-V", "B-N"], ["B-N", "I-N"]]
    rng = np.random.default_rng(8)
    X, y = [rng.normal(size=(len(labels), 3)) for labels in broken], [broken[0], np.array(broken[1]), tuple(broken[2]), broken[3]]
    with pytest.warns(UserWarning, match="is read as B-X: 4 in 3 of 4 samples"):
        model = mm.StructuredSVM(Chain(forbidden="iob", on_error="repair"), random_state=0).fit(X, y)
    assert [list(labels) for labels in y] == broken
    same = mm.StructuredSVM(Chain(forbidden="iob"), random_state=0).fit(X, read)
    assert np.array_equal(model.w_, same.w_) and model.score(X, y) == same.score(X, read)
    allowed = mm.StructuredSVM(Chain(forbidden="io"), C=100.0, random_state=0).fit(X, broken)
    assert np.array_equal(allowed.w_, mm.StructuredSVM(Chain(), C=100.0, random_state=0).fit(X, broken).w_)
    with pytest.raises(ValueError, match=r"forbidden='io' reads labels .*; 'S-N' is none of them"):
        mm.StructuredSVM(Chain(forbidden="io")).fit(X[:1], [["S-N", "O", "O"]])


def test_lengths_without_an_output_and_features_too_large():
    chain = Chain(required={"a": ["b"], "b": [None]})
    model = mm.StructuredSVM(chain).fit([np.eye(2), np.eye(2)[:1]], [["a", "b"], ["b"]])
    with pytest.raises(ValueError, match="Sample 1 of X has 3 positions; the structure's rules allow no sequence"):
        model.predict([np.eye(2), np.zeros((3, 2))])
    with pytest.raises(ValueError, match="has 4 positions"):
        model.predict([np.zeros((4, 2))])
    ending = Chain(required={None: ["a"], "a": ["a", "b"], "b": [None]})  # a goes on as long as it likes, and b ends it
    longer = mm.StructuredSVM(ending).fit([np.eye(2)], [["a", "b"]])
    assert longer.predict([np.zeros((4, 2))]) == [["a", "a", "a", "b"]]
    with pytest.raises(ValueError, match="Sample 0 of X has 1 positions"):
        longer.predict([np.zeros((1, 2))])
    for many, value in ((1, 1e30), (2, 1e30), (1, -1e30), (2, -1e30)):
        with pytest.raises(ValueError, match="features may be at most 1e\\+25"):
            model.predict([np.full((2, 2), value)] * many)


def test_class_weight_needs_labels():
    tree = mm.StructuredSVM(Tree(edges=[(0, 1)]), class_weight={0: 2.0}).fit([np.eye(2)] * 2, [[0, 1], [1, 0]])
    assert tree.structure_.cost_.tolist() == [[0, 2], [1, 0]]
    assert mm.StructuredSVM(Multiclass(), class_weight="balanced").fit(np.eye(3), [0, 0, 1]).structure_.cost_[1, 0] == 1.5
    with pytest.raises(ValueError, match="class_weight is there for"):
        mm.StructuredSVM(mm.structures.Parts([(0, 1)], 1), class_weight={0: 1.0}).fit([np.eye(3)], [[[0, 0], [1, 1]]])


def test_saved_with_rules_and_lists(tmp_path):
    X, y = drawn(7, IOB, [3, 4, 2, 1], follows_iob)
    model = mm.StructuredSVM(Chain(forbidden="iob"), class_weight={"O": 0.5}, random_state=0).fit(X, y)
    mm.save(model, tmp_path / "model")
    again = mm.load(tmp_path / "model")
    assert again.predict(X) == model.predict(X) and np.array_equal(again.structure_.rules_, model.structure_.rules_)


# ---- edges of several types ------------------------------------------------------------------------------


def typed_words(seed=0, n=14):
    """Labels change where the type of the edge is 1, and seldom elsewhere; type 2 says nothing."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for i in range(n):
        size = [0, 1, 4, 5, 6][i % 5]
        types = rng.integers(0, 3, max(size - 1, 0))
        labels = [int(rng.integers(3))] if size else []
        for kind in types:
            labels.append((labels[-1] + 1) % 3 if kind == 1 else labels[-1] if kind == 0 else int(rng.integers(3)))
        X.append((rng.normal(size=(size, 2)) + 0.5 * np.eye(3)[labels][:, :2].reshape(size, 2), types))
        y.append(labels)
    return X, y


@pytest.mark.parametrize("rules", [None, [(0, 2)]])
def test_typed_edges_are_those_of_a_tree(rules):
    X, y = typed_words()
    filled = [i for i, labels in enumerate(y) if labels and not any((a, b) == (0, 2) for a, b in pairwise(labels))]
    X, y = [X[i] for i in filled], [y[i] for i in filled]
    params = {"C": 0.5, "tol": 1e-5, "random_state": 0}
    model = mm.StructuredSVM(Chain(3, first_last_bias=False, edge_types=True, forbidden=rules), **params).fit(X, y)
    assert model.certificate_.converged and model.transitions_.shape == (3, 3, 3)
    if rules is None:
        steps = [[(t, t + 1) for t in range(len(labels) - 1)] for labels in y]
        as_trees = [(x, np.reshape(edges, (-1, 2)).astype(int), types) for (x, types), edges in zip(X, steps)]
        tree = mm.StructuredSVM(Tree(3), **params).fit(as_trees, y)
        assert model.certificate_.dual <= tree.certificate_.primal and tree.certificate_.dual <= model.certificate_.primal
        np.testing.assert_allclose(model.w_, tree.w_, atol=1e-2)
    for x, found, best in zip(X, model.predict(X), model.predict_n_best(X, 4), strict=True):
        every = model.structure_.every_output(x, found, 1000)
        scores = sorted((float(model.w_ @ model.structure_.joint_feature(x, output)) for output in every), reverse=True)
        np.testing.assert_allclose([score for _, score in best], scores[:4], atol=1e-9)
        assert float(model.w_ @ model.structure_.joint_feature(x, found)) == pytest.approx(scores[0], abs=1e-9)
        assert model.predict([x])[0] == found == best[0][0]


def test_typed_edges_by_brute_force_and_from_files(tmp_path):
    X, y = typed_words()
    mm.check_structure(Chain(3, edge_types=True), X, y)  # the first is empty
    assert mm.StructuredSVM(Chain(3, edge_types=True), tol=0.1).fit(X, y).predict_marginals(X[:1])[0].shape == (0, 3)
    model = mm.StructuredSVM(Chain(3, edge_types=True), tol=1e-3, random_state=0).fit(X, y)
    K, w = 3, model.w_
    np.testing.assert_array_equal(np.concatenate([model.coef_.ravel(), model.intercept_, model.first_, model.last_]), w[: K * 5])
    np.testing.assert_array_equal(model.transitions_.ravel(), w[K * 5 :])
    risk = 0.5 * w @ w
    for x, labels in zip(X, y):
        own = model.structure_.joint_feature(x, labels)
        outputs = model.structure_.every_output(x, labels, 1000)
        risk += max(
            w @ (model.structure_.joint_feature(x, other) - own) + model.structure_.loss(labels, other) for other in outputs
        )
    assert risk == pytest.approx(model.certificate_.primal, rel=1e-9)
    mm.save(model, tmp_path / "typed.safetensors")
    assert mm.load(tmp_path / "typed.safetensors").predict(X) == model.predict(X)


def test_one_type_is_the_plain_chain():
    X, y = typed_words(1)
    plain = mm.StructuredSVM(Chain(3), tol=1e-4, random_state=0).fit([x for x, _ in X], y)
    typed = mm.StructuredSVM(Chain(3, edge_types=True), tol=1e-4, random_state=0).fit([(x, 0 * types) for x, types in X], y)
    np.testing.assert_array_equal(typed.w_, plain.w_)
    assert typed.transitions_.shape == (1, 3, 3)


X3, Y3 = typed_words(2, 5)
FEATURED = Chain(3, edge_features=True)


@pytest.mark.parametrize(
    ("structure", "x", "words"),
    [
        (Chain(3, edge_types=True), X3[2][0], r"Sample 2 of X must be a pair \(features, types of edges\)"),
        (Chain(3, edge_types=True), (X3[2][0], [0, 1]), r"Sample 2 of X has 3 edges but edge_types of shape \(2,\)"),
        (Chain(3, edge_types=True), (X3[2][0], [0, -1, 0]), "Sample 2 of X has a negative edge type, -1"),
        (Chain(3, edge_types=True), (X3[2][0], [0.5, 1.0, 0.0]), "Sample 2 of X has edge_types that are not integers"),
        (Chain(3), X3[2], r"Sample 2 of X is a pair; .* needs Chain\(edge_types=True\), .* Chain\(edge_features=True\)"),
        (FEATURED, X3[2][0], r"Sample 2 of X must be a pair \(features, edge features\), for edge_features=True"),
        (FEATURED, (X3[2][0], np.ones((4, 2))), r"Sample 2 of X has 3 edges but edge features of shape \(4, 2\); .* \(3, number"),
        (FEATURED, (X3[2][0], np.ones(3)), r"Sample 2 of X has 3 edges but edge features of shape \(3,\)"),
        (FEATURED, (X3[2][0], np.ones((3, 0))), r"Sample 2 of X has 3 edges but edge features of shape \(3, 0\)"),
        (FEATURED, (X3[2][0], np.ones((3, 5))), "Sample 3 of X has 3 edge features; 5 are expected"),
        (FEATURED, (X3[2][0], [[1.0], [2.0, 3.0], [0.0]]), "edge features of sample 2 of X is not an array of numbers .*row 1"),
        (FEATURED, (X3[2][0], [["a"], ["b"], ["c"]]), "edge features of sample 2 of X must hold real numbers"),
        (FEATURED, (X3[2][0], [[1.0], [np.nan], [0.0]]), "Sample 2 of X holds, in the features of edge 1, NaN or infinity"),
        (FEATURED, (X3[2][0], [[1e200], [1.0], [0.0]]), "Sample 2 of X is too large: edge features may be at most 1e"),
        (FEATURED, (X3[2][0], sp.csr_array(np.eye(3))), "Sample 2 of X has a sparse matrix of edge features; .*toarray"),
        (Chain(3, edge_types=True, edge_features=True), X3[2], "edge_types and edge_features are both set"),
        (Chain(3, edge_features="yes"), X3[2], "edge_features"),
    ],
)
def test_bad_edges_are_named(structure, x, words):
    samples = [given[0] if not (structure.edge_types or structure.edge_features) else given for given in X3]
    if structure.edge_features:
        samples = [(features, np.eye(3)[types]) for features, types in X3]
    with pytest.raises(ValueError, match=words):
        mm.StructuredSVM(structure).fit([*samples[:2], x, *samples[3:]], Y3)


def test_types_never_met_are_refused():
    model = mm.StructuredSVM(Chain(3, edge_types=True), tol=0.1, random_state=0).fit(*typed_words())
    for predict in (model.predict, model.predict_marginals, lambda X: model.predict_n_best(X, 2)):
        with pytest.raises(ValueError, match="Sample 0 of X has an edge of type 7; the training samples have types 0 to 2 only"):
            predict([(np.zeros((2, 2)), [7])])
    with pytest.raises(ValueError, match="edge_types"):
        mm.StructuredSVM(Chain(3, edge_types=[0, 1])).fit(*typed_words())


def test_rows_are_stacked_a_few_samples_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    parts = [sp.random_array((size, 30), density=0.3, format="csr", rng=rng) for size in (3, 1, 7, 2, 40, 5)]
    for part in parts:
        part.sort_indices()
    start = np.concatenate([[0], np.cumsum([part.shape[0] for part in parts])])
    taken = np.concatenate([np.arange(a, b)[::-1] for a, b in pairwise(start)])
    wanted = sp.vstack(parts, format="csr")[taken].toarray()
    for entries in (1, 40, 2**18):
        monkeypatch.setattr(reading, "GATHERED", entries)
        found = reading.stacked_nodes(parts, taken, start)
        assert found.indices.dtype == found.indptr.dtype == np.int32
        np.testing.assert_array_equal(found.toarray(), wanted)


@pytest.mark.parametrize("structure", [mm.structures.Chain, mm.structures.Tree])
def test_samples_are_read_once_in_fit_and_not_kept(monkeypatch, structure):
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(4, 3)) for _ in range(12)], [rng.integers(0, 2, 4) for _ in range(12)]
    if structure is mm.structures.Tree:
        X = [(x, [(0, 1), (0, 2), (1, 3)]) for x in X]
    read, parts = [], structure._parts
    monkeypatch.setattr(structure, "_parts", lambda self, x, which: read.append(which) or parts(self, x, which))
    model = mm.StructuredSVM(structure(), random_state=0).fit(X, y)
    assert len(read) == len(X)
    assert model.structure_._read is None
    twice, again = structure(), structure()
    assert twice.size(X, y) == again.size(X, y) == model.w_.size
    with again._reading_once():
        assert again.size(X, y) == model.w_.size
        assert np.array_equal(again.loss(y[0], y[1]), twice.loss(y[0], y[1]))


def test_what_was_read_is_that_of_the_sample():
    """Samples that are made anew, as rows of one array are, are read anew."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(10, 4, 3)), rng.integers(0, 2, (10, 4))
    model = mm.StructuredSVM(mm.structures.Chain(), random_state=0).fit(X, y)
    lists = mm.StructuredSVM(mm.structures.Chain(), random_state=0).fit(list(X), list(y))
    assert np.array_equal(model.w_, lists.w_)
