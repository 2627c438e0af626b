"""`partial_fit` of structured models beside tables of all outputs: the certificate from the duals of all samples ever given,
whatever was frozen or forgotten."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.enumerated import optimum, tables
from helpers.structured import SEGMENTATIONS, Brackets, bits, images, lines, words
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin.structures import Chain, Multiclass, Parts

C, TOL = 0.3, 1e-6
SMALL = 0.003  # megabytes: room for a few samples, so that many are frozen


def classes(n=24):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    return list(np.eye(3)[y] + rng.normal(size=(n, 3))), y.tolist()


def landmarks():
    parts = [images("two parts", seed) for seed in range(4)]
    return Parts([(0, 1)], window=3), [x for _, X, _ in parts for x in X], [y for _, _, Y in parts for y in Y]


def segmented():
    structure = SEGMENTATIONS["fixed widths"]
    return structure, *lines(structure, (5, 4, 3, 6, 4, 3, 5, 4))


KINDS = {
    "chain": lambda: (Chain(n_labels=3), *words()),
    "classes": lambda: (Multiclass(3), *classes()),
    "segments": segmented,
    "parts": landmarks,
    "python": lambda: (Brackets(), *bits()),
}


class Account:
    """All samples of a model that is told them in pieces, and the coefficients of each as last reported."""

    def __init__(self, model, structure, X, y, weight):
        self.model, self.given, self.cap = model, (X, y, weight), C * weight
        self.structure = structure if isinstance(structure, Brackets) else clone(structure)
        if isinstance(structure, Brackets):
            every = [(a, b) for a in (0, 1) for b in (0, 1)]
            self.psi = [
                np.array([structure.joint_feature(x, t) - structure.joint_feature(x, o) for o in every]) for x, t in zip(X, y)
            ]
            self.loss = [np.array([structure.loss(t, o) for o in every]) for t in y]
            self.found = [(psi, loss, every) for psi, loss in zip(self.psi, self.loss)]
        else:
            self.found = tables(structure, X, y)
        self.structure.size(X, y)
        self.coefs = [[] for _ in y]  # pairs of psi, loss and coefficient
        self.active: list[int] = []

    def tell(self, part):
        X, y, weight = self.given
        self.active = [*self.active, *part]
        self.model.partial_fit([X[i] for i in part], [y[i] for i in part], sample_weight=weight[part])
        return self.note(self.active)

    def fit(self, part):
        """Distributions of these samples stay as they are from now on."""
        X, y, weight = self.given
        self.model.fit([X[i] for i in part], [y[i] for i in part], sample_weight=weight[part])
        return self.note(part)

    def note(self, samples):
        X, y, _ = self.given
        for i, pairs in zip(samples, self.model.dual_coef_, strict=True):
            truth = self.structure.joint_feature(X[i], y[i])
            self.coefs[i] = [
                (truth - self.structure.joint_feature(X[i], out), self.structure.loss(y[i], out), mass) for out, mass in pairs
            ]
        return self

    def forget(self):
        """The samples that the model has kept: the last ones of those with other outputs."""
        matter = [i for i in self.active if any(mass > 0 and np.any(psi != 0) for psi, _, mass in self.coefs[i])]
        self.active = matter[len(matter) - len(self.model._kept.y) :]

    def sums(self, which):
        r = np.zeros(self.model.w_.size)
        for i in which:
            for psi, _, mass in self.coefs[i]:
                r += mass * psi
        return r, sum(mass * loss for i in which for _, loss, mass in self.coefs[i])

    def check(self):
        """The certificate is what the formulas say of these coefficients and of the model."""
        found, w = self.model.certificate_, self.model.w_
        assert found.converged and -1e-12 <= found.gap <= TOL * found.primal + 1e-12  # but for rounding
        for i, pairs in enumerate(self.coefs):
            assert all(mass >= 0 for _, _, mass in pairs)
            assert not pairs or sum(mass for _, _, mass in pairs) == pytest.approx(self.cap[i], abs=1e-12)
        r, reward = self.sums(range(len(self.coefs)))
        bound = self.structure.nonnegative() if isinstance(self.structure, Parts) else []
        r[bound] = np.maximum(r[bound], 0.0)
        np.testing.assert_allclose(w, r, atol=1e-9)
        assert found.dual == pytest.approx(reward - 0.5 * r @ r, rel=1e-9, abs=1e-12)
        frozen, owed = self.sums([i for i in range(len(self.coefs)) if i not in self.active])
        primal = 0.5 * w @ w + owed - frozen @ w
        primal += sum(self.cap[i] * np.max(self.found[i][1] - self.found[i][0] @ w) for i in self.active)
        assert found.primal == pytest.approx(primal, rel=1e-9, abs=1e-12)
        return found


@pytest.mark.parametrize("cache_size", [None, SMALL], ids=["all kept", "frozen"])
@pytest.mark.parametrize("name", KINDS)
def test_certificate_from_all_duals(name, cache_size):
    structure, X, y = KINDS[name]()
    weight = np.random.default_rng(1).integers(0, 4, len(y)) * 0.5
    solver = "auto" if cache_size is None else mm.OnlineDual(cache_size=cache_size)
    model = mm.StructuredSVM(structure, C=C, tol=TOL, solver=solver, keep_duals=True, random_state=0)
    account = Account(model, structure, X, y, weight)
    bound = account.structure.nonnegative() if isinstance(structure, Parts) else ()
    best, before = optimum(account.found, account.cap, bound), 0.0
    pieces = np.array_split(np.arange(len(y)), 3)
    for part in pieces:
        found = account.tell(part).check()
        assert found.dual <= best * (1 + 1e-7)
        assert found.dual >= before * (1 - TOL)
        before = found.dual
        account.forget()
    assert bool(model._kept.frozen.size) == (cache_size is not None)
    assert model._kept.dropped or found.verified
    assert cache_size is None or not found.verified


def test_nothing_forgotten_is_the_fit_of_everything():
    X, y = words(count=12)
    whole = mm.StructuredSVM("chain", C=0.01, tol=TOL, random_state=0).fit(X, y)
    model = mm.StructuredSVM("chain", C=0.01, tol=TOL, random_state=0)
    for part in np.array_split(np.arange(12), 4):
        model.partial_fit([X[i] for i in part], [y[i] for i in part], classes=[0, 1, 2])
        assert not model._kept.dropped  # at a small C no sample keeps its margin
    assert model.certificate_.verified
    assert model.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=2 * TOL)
    np.testing.assert_allclose(model.w_, whole.w_, atol=1e-2)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.floats(-2, 1), st.sampled_from([200.0, SMALL, 1e-6]))
def test_dual_is_below_the_objective_of_everything(seed, power, cache_size):
    X, y = words(seed, 9)
    model = mm.StructuredSVM(
        Chain(n_labels=3), C=10.0**power, max_iter=3, solver=mm.OnlineDual(cache_size=cache_size), random_state=0
    )
    risk = mm.StructuredSVM(Chain(n_labels=3)).risk(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for part in np.array_split(np.arange(9), 3):
            model.partial_fit([X[i] for i in part], [y[i] for i in part])
    found, rng = model.certificate_, np.random.default_rng(seed)
    assert found.dual <= found.primal * (1 + 1e-12)
    for w in (model.w_, 0.5 * model.w_, model.w_ + 0.1 * rng.normal(size=model.w_.size)):
        assert found.dual <= 0.5 * w @ w + model.C * risk(w)[0] + 1e-9


def test_integer_weights_are_repetitions():
    X, y = words()
    times = np.arange(len(y)) % 3
    weighted, repeated = (mm.StructuredSVM(Chain(n_labels=3), C=C, tol=1e-7, random_state=0) for _ in range(2))
    for part in np.array_split(np.arange(len(y)), 2):
        weighted.partial_fit([X[i] for i in part], [y[i] for i in part], sample_weight=times[part])
        many = np.repeat(part, times[part])
        repeated.partial_fit([X[i] for i in many], [y[i] for i in many])
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-6)


def test_samples_are_the_models_own():
    X, y = words()
    model = mm.StructuredSVM(Chain(n_labels=3), C=C, tol=TOL, random_state=0)
    other = clone(model)
    for start in (0, 7):
        model.partial_fit(X[start : start + 7], y[start : start + 7])
        given = [x.copy() for x in X[start : start + 7]], [labels.copy() for labels in y[start : start + 7]]
        other.partial_fit(*given)
        for array in (*given[0], *given[1]):
            array[...] = 0  # as users do who read the next piece into the same arrays
    np.testing.assert_array_equal(model.w_, other.w_)


def test_matrices_of_classes():
    X, y = classes()
    X = np.array(X)
    found = []
    for form in (X, sp.csr_array(X), list(X)):
        model = mm.StructuredSVM("multiclass", C=C, tol=TOL, random_state=0)
        for part in np.array_split(np.arange(len(y)), 3):
            piece = [form[i] for i in part] if isinstance(form, list) else form[part]
            model.partial_fit(piece, np.array(y)[part], classes=[0, 1, 2])
        found.append(model.certificate_.primal)
    np.testing.assert_allclose(found, found[0], rtol=2 * TOL)


@pytest.mark.parametrize("name", KINDS)
def test_certificate_after_fit(name):
    """The distributions of the fit stay as they are, and new samples are added to them."""
    structure, X, y = KINDS[name]()
    weight = np.random.default_rng(1).integers(1, 4, len(y)) * 0.5
    model = mm.StructuredSVM(structure, C=C, tol=TOL, keep_duals=True, random_state=0)
    account = Account(model, structure, X, y, weight)
    bound = account.structure.nonnegative() if isinstance(structure, Parts) else ()
    best = optimum(account.found, account.cap, bound)
    first, *others = np.array_split(np.arange(len(y)), 3)
    account.fit(first)
    before = model.certificate_.dual
    for part in others:
        found = account.tell(part).check()
        assert before * (1 - 1e-9) <= found.dual <= best * (1 + 1e-7) and not found.verified
        before = found.dual
        account.forget()


@pytest.mark.parametrize("solver", ["auto", "frank_wolfe", "online", "partial_linearization"])
def test_after_any_fit_the_bound_is_that_of_all_samples(solver, tmp_path):
    """Whatever weights a fit returns; from a source too, and through files."""
    X, y = words()
    model = mm.StructuredSVM(Chain(n_labels=3), C=C, tol=1e-2, solver=solver, random_state=0)
    best = clone(model).set_params(solver="auto", tol=TOL).fit(X, y).certificate_.primal
    given = (mm.Samples([(X[:4], y[:4]), (X[4:9], y[4:9])]), None) if solver == "online" else (X[:9], y[:9])
    model.fit(*given)
    before = model.certificate_.dual
    model.set_params(solver="auto", tol=TOL)
    mm.save(model, tmp_path / "model")
    found = mm.load(tmp_path / "model").partial_fit(X[9:], y[9:])
    assert before * (1 - 1e-9) <= found.certificate_.dual <= min(best, found.certificate_.primal)
    assert found.certificate_.converged and found.score(X, y) > 0.5
    np.testing.assert_array_equal(model.partial_fit(X[9:], y[9:]).w_, found.w_)


@pytest.mark.parametrize(
    ("fitted", "then", "message"),
    [
        ({}, {"C": 1.0}, "frozen duals, which belong to C=0.3, not to C=1.0: set it back"),
        ({}, {"class_weight": {0: 2.0}}, "belong to another class_weight"),
        ({}, {"structure": "tree"}, "structure='tree' is not what this model has learned with, a Chain"),
        ({"solver": "bundle"}, {"solver": "auto"}, "keeps nothing that partial_fit could go on from"),
    ],
)
def test_what_a_fit_cannot_be_gone_on_from(fitted, then, message):
    X, y = words()
    model = mm.StructuredSVM("chain", C=C, tol=1e-2, random_state=0, **fitted).fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.set_params(**then).partial_fit(X, y)


def test_labels_are_named_in_the_first_call():
    X, y = words()
    names = np.array(["a", "b", "c"])
    text = [names[labels].tolist() for labels in y]
    first = [i for i, labels in enumerate(text) if "c" not in labels][:3]
    model = mm.StructuredSVM("chain", C=C, random_state=0)
    with pytest.raises(ValueError, match="unknown label 'c'"):
        model.partial_fit([X[i] for i in first], [text[i] for i in first]).partial_fit(X, text)
    model = mm.StructuredSVM("chain", C=C, random_state=0)
    model.partial_fit([X[i] for i in first], [text[i] for i in first], classes=names)
    model.partial_fit(X, text, classes=["c", "b", "a"])
    assert model.structure_.labels_.tolist() == ["a", "b", "c"]
    assert model.score(X, text) > 0.5
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        model.partial_fit(X, text, classes=["a", "b"])
    model.fit(X, text)
    assert model._kept.y == [] and model._kept.dropped
    with pytest.raises(ValueError, match="unknown label 'd'"):
        model.partial_fit([X[0]], [["d"] * len(y[0])])


def test_kept_samples_are_saved(tmp_path):
    X, y = words()
    model = mm.StructuredSVM(Chain(n_labels=3), C=C, tol=TOL, solver=mm.OnlineDual(cache_size=SMALL), random_state=0)
    model.partial_fit(X[:7], y[:7])
    mm.save(model, tmp_path / "model")
    others = mm.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))
    model.partial_fit(X[7:], y[7:])
    for other in others:
        np.testing.assert_array_equal(other.partial_fit(X[7:], y[7:]).w_, model.w_)
        assert other.certificate_ == model.certificate_


@pytest.mark.parametrize(
    ("given", "classes", "message"),
    [
        ({"class_weight": "balanced"}, None, "class_weight='balanced' needs all data at once"),
        ({"solver": "bundle"}, None, "partial_fit needs a solver with duals of samples"),
        ({"solver": "partial_linearization"}, None, "partial_fit keeps outputs with their masses; PartialLinearization does not"),
        ({}, [0, 1], "are not the labels 0 to 2 that n_labels=3 stands for"),
    ],
)
def test_what_is_refused(given, classes, message):
    X, y = words()
    with pytest.raises(ValueError, match=message):
        mm.StructuredSVM(Chain(n_labels=3), **given).partial_fit(X, y, classes=classes)


def test_what_later_pieces_must_not_have():
    X, y = words()
    model = mm.StructuredSVM(Chain(n_labels=3), C=C, solver=mm.OnlineDual(cache_size=SMALL), random_state=0).partial_fit(X, y)
    kept = model._kept
    with pytest.raises(ValueError, match="features"):
        model.partial_fit([x[:, :2] for x in X], y)
    with pytest.raises(ValueError, match="X has 14 samples, y has 13"):
        model.partial_fit(X, y[:-1])
    with pytest.raises(ValueError, match=r"frozen duals, which belong to C=0\.3, not to C=1\.0: set it back"):
        model.set_params(C=1.0).partial_fit(X, y)
    assert model.set_params(C=C)._kept is kept
    with pytest.raises(ValueError, match="has no such labels"):
        mm.StructuredSVM(Brackets()).partial_fit(*bits(), classes=[0, 1])
    with pytest.raises(TypeError, match="source"):
        model.partial_fit(mm.Samples([(X, y)]), None)
    with pytest.raises(AttributeError, match="has no partial_fit"):
        mm.StructuredSVMCV(Chain()).partial_fit(X, y)
