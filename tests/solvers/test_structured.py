"""Structured solvers against a convex solver over all outputs, against each other, and against the paper's example."""

import warnings
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.enumerated import optimum, primal, tables
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV

import maxmargin as mm
from maxmargin.problems.structured import StructuredProblem
from maxmargin.solvers.polytope.linearization import Linearization
from maxmargin.solvers.polytope.run import StructuredOptions
from maxmargin.structures import Chain, Graph, Multiclass, Structure, Tree

SQUARE = [(0, 1), (1, 2), (3, 2), (3, 0), (0, 2)]  # tree-width 2
SOLVERS = {
    "dual coordinate": mm.DualCoordinate(),
    "dual coordinate, plain": mm.DualCoordinate(momentum=False, average=False),
    "pairwise": mm.FrankWolfe(),
    "pairwise, no cache": mm.FrankWolfe(cache=0, sampling="gap"),
    "away": mm.FrankWolfe(steps="away", sampling="permutation"),
    "plain": mm.FrankWolfe(steps="plain", sampling="uniform"),
    "batch": mm.FrankWolfe(block=False),
    "partial linearization": mm.PartialLinearization(temperature=0.3),
    "cooled": mm.PartialLinearization(temperature=1.0, cooling=0.9, sampling="gap"),
    "batch linearization": mm.PartialLinearization(temperature=0.3, block=False),
    "exponentiated gradient": mm.ExponentiatedGradient(),
}
SLOW = {"plain", "batch", "cooled", "exponentiated gradient", "batch linearization"}  # far from linear convergence: looser tol


def sequences(seed=0, lengths=(1, 2, 3, 3), K=3, d=3):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(size, d)) for size in lengths], [
        np.r_[i % K, rng.integers(0, K, size - 1)] for i, size in enumerate(lengths)
    ]


def case(name):
    rng = np.random.default_rng(1)
    if name == "chain":
        return Chain(), *sequences()
    if name == "tree":
        return Tree(edges=[(0, 1), (2, 1), (1, 3)]), *sequences(2, (4, 4, 4), K=2)
    if name == "graph":
        return Graph(edges=SQUARE), *sequences(3, (4, 4, 4), K=2)
    X = rng.normal(size=(12, 3))
    return Multiclass(), X, np.arange(12) % 3


CASES = ("chain", "tree", "graph", "multiclass")
FOUND = {name: tables(*case(name)) for name in CASES}
BEST = {name: optimum(FOUND[name], np.full(len(FOUND[name]), 0.7)) for name in CASES}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_optimum_is_that_of_a_convex_solver(name, solver):
    structure, X, y = case(name)
    tol = 2e-2 if solver in SLOW else 1e-4
    model = mm.StructuredSVM(structure, C=0.7, tol=tol, solver=SOLVERS[solver], random_state=0).fit(X, y)
    certificate = model.certificate_
    assert certificate.converged and certificate.relative_gap <= tol
    assert certificate.dual <= BEST[name] * (1 + 1e-7) and certificate.primal >= BEST[name] * (1 - 1e-7)
    assert primal(FOUND[name], model.w_, np.full(len(y), 0.7)) == pytest.approx(certificate.primal, rel=1e-9)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("solver", ["dual coordinate", "pairwise", "plain", "partial linearization"])
def test_certificate_is_true(name, solver):
    """Weights and dual value rebuilt from the duals alone."""
    structure, X, y = case(name)
    cap = 0.7 * np.arange(1, len(y) + 1) / 3
    model = mm.StructuredSVM(structure, C=0.7, tol=5e-3, solver=SOLVERS[solver], keep_duals=True, random_state=0)
    model.fit(X, y, sample_weight=np.arange(1, len(y) + 1) / 3)
    if solver in ("dual coordinate", "pairwise"):
        w, reward = np.zeros_like(model.w_), 0.0
        for c, (psi, loss, every), pairs in zip(cap, FOUND[name], model.dual_coef_, strict=True):
            keys = [tuple(np.atleast_1d(output).tolist()) for output in every]
            assert sum(a for _, a in pairs) == pytest.approx(c)
            for output, a in pairs:
                j = keys.index(tuple(np.atleast_1d(output).tolist()))
                assert a > 0
                w, reward = w + a * psi[j], reward + a * loss[j]
        assert w == pytest.approx(model.w_, abs=1e-9)
        assert reward - 0.5 * w @ w == pytest.approx(model.certificate_.dual, rel=1e-9)
    else:
        for c, entry in zip(cap, model.dual_coef_, strict=True):
            assert entry["node"].sum(axis=1) == pytest.approx(c) and entry["node"].min() >= 0
    assert primal(FOUND[name], model.w_, cap) == pytest.approx(model.certificate_.primal, rel=1e-9)


@pytest.mark.parametrize("solver", ["dual coordinate", "pairwise", "partial linearization"])
def test_weights_are_repetitions(solver):
    structure, X, y = case("chain")
    weight = np.array([2, 0, 1, 3])
    often = [i for i, times in enumerate(weight) for _ in range(times)]
    once = mm.StructuredSVM(structure, tol=1e-4, solver=SOLVERS[solver]).fit(X, y, sample_weight=weight)
    many = mm.StructuredSVM(structure, tol=1e-4, solver=SOLVERS[solver]).fit([X[i] for i in often], [y[i] for i in often])
    assert once.certificate_.dual <= many.certificate_.primal and many.certificate_.dual <= once.certificate_.primal


@given(seed=st.integers(0, 10_000), C=st.floats(1e-3, 1e3), solver=st.sampled_from(sorted(SOLVERS)))
def test_primal_is_never_below_dual(seed, C, solver):
    X, y = sequences(seed, (2, 1, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = mm.StructuredSVM(Chain(3), C=C, tol=1e-6, max_iter=5, solver=SOLVERS[solver], random_state=seed).fit(X, y)
    for record in model.history_:
        assert record.primal >= record.dual - 1e-9 * abs(record.primal)
    assert model.certificate_.gap >= -1e-9 * model.certificate_.primal


# ---- the two ends of partial linearization ---------------------------------------------------------------


def test_worked_example_of_the_paper():
    """Mohapatra et al. (2016), section 4: with A = diag(2, 1, 3), b = (1, 1, 0), lam = 1 and the point (0.125, 0.5, 0.5) the best
    steps along the directions at temperature 0 and 1 lower the objective by 0.5341 and 1.2550."""
    A, b, a = np.diag([2.0, 1.0, 3.0]), np.array([1.0, 1.0, 0.0]), np.array([0.125, 0.5, 0.5])
    gradient = A.T @ A @ a - b

    def fall(direction):
        step = direction - a
        gamma = np.clip(-gradient @ step / (step @ A.T @ A @ step), 0.0, 1.0)
        value = [0.5 * np.sum((A @ p) ** 2) - b @ p for p in (a, a + gamma * step)]
        return value[0] - value[1]

    structure, w = single_node(-gradient)
    frank_wolfe = np.eye(3)[structure.decode(w, [1.0])]  # of the two best labels, which are tied, the first
    assert frank_wolfe.tolist() == [1, 0, 0]
    assert fall(frank_wolfe) == pytest.approx(0.5341, abs=5e-5)
    base = {"node": a[None] / a.sum(), "edge": np.zeros((0, 3, 3))}
    warm = structure.marginals(w, [1.0], 0, 1.0, base)["node"][0]
    assert warm == pytest.approx([0.199, 0.796, 0.005], abs=1e-3)
    assert fall(warm) == pytest.approx(1.2550, abs=5e-5)


def single_node(scores):
    """A structure without loss, and weights under which the three labels have these scores at a feature of one."""
    structure = Multiclass(3, bias=False)
    structure.size(np.ones((3, 1)), [0, 1, 2])
    structure.cost_ = np.zeros((3, 3))
    return structure, scores


@pytest.mark.parametrize("name", ["chain", "graph", "multiclass"])
def test_directions_at_temperature_zero_are_those_of_frank_wolfe(name):
    structure, X, y = case(name)
    structure = clone(structure)
    w = np.random.default_rng(5).normal(size=structure.size(X, y))
    for x, true in zip(X, y, strict=True):
        cold = structure.marginals(w, x, true, 1e-7)["node"]
        found = np.atleast_1d(structure.loss_augmented_decode(w, x, true))
        assert cold == pytest.approx(np.eye(len(structure.labels_))[np.searchsorted(structure.labels_, found)], abs=1e-12)


def test_step_one_is_exponentiated_gradient():
    structure, X, y = case("chain")
    common = {"sampling": "permutation", "average": False}
    by_step = mm.PartialLinearization(temperature=0.8, step=1.0, **common)
    by_name = mm.ExponentiatedGradient(temperature=0.8, **common)
    with pytest.warns(ConvergenceWarning):
        models = [
            mm.StructuredSVM(structure, tol=1e-9, max_iter=7, solver=s, random_state=3).fit(X, y) for s in (by_step, by_name)
        ]
    assert np.array_equal(models[0].w_, models[1].w_)


def test_exponentiated_gradient_is_the_explicit_one():
    """On a single node the distribution is p exp((loss + scores) / temperature), normalised, step after step."""
    X, y = np.array([[1.0, -0.5], [0.3, 2.0], [-1.0, 1.0]]), [0, 1, 2]
    structure = Multiclass(3, bias=False)
    structure.size(X, y)
    problem = StructuredProblem(structure.encode(X, y), np.full(3, 0.9))
    options = StructuredOptions(1e-9, 0, "permutation", average=False)
    run = Linearization(problem, None, options, temperature=np.full(3, 2.0), step=1.0, longest=1.0, cooling=1.0, smooth=True)
    p = run.points.node.flat[:, :3].copy()
    for _ in range(4):
        run.advance(lambda: False)
        for i in run.plan.order[:3]:
            w = 0.9 * sum(np.outer(np.eye(3)[y[j]] - p[j], X[j]) for j in range(3))
            q = p[i] * np.exp((1.0 - np.eye(3)[y[i]] + w @ X[i]) / 2.0)
            p[i] = q / q.sum()
        assert run.points.node.flat[:, :3] == pytest.approx(p, abs=1e-8)


def test_block_exponentiated_gradient_at_its_own_temperature_never_falls():
    structure, X, y = case("chain")
    structure.size(X, y)
    problem = StructuredProblem(structure.encode(X, y), np.full(len(y), 2.0))
    run = mm.ExponentiatedGradient(average=False).run_on(problem, None, StructuredOptions(1e-9, 0, "permutation", False))
    values = []
    for _ in range(40):
        run.advance(lambda: False)
        values.append(problem.evaluate(run.points).dual)
    assert np.all(np.diff(values) >= -1e-12)


# ---- structures in plain Python --------------------------------------------------------------------------


class Plain(Structure):
    """A chain by brute force, with everything a user could define."""

    def __init__(self, K=3):
        self.K = K

    def size(self, X, y):
        self.chain = Chain(self.K)
        return self.chain.size(X, y)

    def joint_feature(self, x, y):
        return self.chain.joint_feature(x, y)

    def loss(self, y_true, y):
        return float(np.sum(np.asarray(y_true) != np.asarray(y)))

    def decode(self, w, x):
        return max(self.all(len(x)), key=lambda y: w @ self.joint_feature(x, y))

    def loss_augmented_decode(self, w, x, y_true):
        return max(self.all(len(x)), key=lambda y: w @ self.joint_feature(x, y) + self.loss(y_true, y))

    def all(self, size):
        return [list(y) for y in product(range(self.K), repeat=size)]


class PlainWithMarginals(Plain):
    """Its marginals are the probabilities of all outputs."""

    def marginals(self, w, x, y_true, temperature, base=None):
        every = self.all(len(x))
        value = np.array([w @ self.joint_feature(x, y) + self.loss(y_true, y) for y in every]) / temperature
        if base is not None:
            value += np.log(np.maximum(base, 1e-300))
        p = np.exp(value - value.max())
        return p / p.sum()

    def expect(self, x, y_true, m):
        every = self.all(len(x))
        features = np.array([self.joint_feature(x, y) for y in every])
        return m @ features, float(m @ [self.loss(y_true, y) for y in every])


PYTHON = [name for name in SOLVERS if name not in ("batch", "plain", "cooled")]


@pytest.mark.parametrize("solver", PYTHON)
def test_structures_in_plain_python(solver):
    X, y = sequences(lengths=(1, 2, 2))
    needs = "linearization" in solver or "gradient" in solver
    tol = 1e-2 if solver in SLOW else 1e-3
    structure = PlainWithMarginals() if needs else Plain()
    chosen = mm.ExponentiatedGradient(temperature=4.0) if "gradient" in solver else SOLVERS[solver]
    model = mm.StructuredSVM(structure, C=0.7, tol=tol, solver=chosen, random_state=0).fit(X, y)
    best = optimum(tables(Chain(3), X, y), np.full(3, 0.7))
    assert model.certificate_.converged
    assert model.certificate_.dual <= best * (1 + 1e-7) and model.certificate_.primal >= best * (1 - 1e-7)
    assert len(model.predict(X)) == 3
    assert model.score(X, y) == pytest.approx(-np.mean([structure.loss(a, b) for a, b in zip(y, model.predict(X), strict=True)]))
    assert not hasattr(structure, "chain")  # the user's own object is left alone


def test_plain_python_steps_and_batches():
    X, y = sequences(lengths=(1, 2, 2))
    for solver in (mm.FrankWolfe(steps="plain"), mm.FrankWolfe(block=False), mm.PartialLinearization(0.5, block=False)):
        model = mm.StructuredSVM(PlainWithMarginals(), C=0.1, tol=2e-2, solver=solver, keep_duals=True).fit(X, y)
        assert model.certificate_.converged and len(model.dual_coef_) == 3


def test_solvers_that_need_marginals_say_so():
    X, y = sequences(lengths=(1, 2))
    with pytest.raises(TypeError, match="Plain defines no marginals and expect"):
        mm.StructuredSVM(Plain(), solver="partial_linearization").fit(X, y)
    with pytest.raises(ValueError, match="temperature='auto' needs a structure of this package"):
        mm.StructuredSVM(PlainWithMarginals(), solver="exponentiated_gradient").fit(X, y)


def broken(**methods):
    return type("Broken", (Plain,), methods)()


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        (broken(loss_augmented_decode=lambda self, w, x, y: [0] * len(x)), "loss_augmented_decode is wrong for sample"),
        (broken(loss=lambda self, a, b: 1.0), r"loss\(y, y\) must be zero; for sample 0"),
        (broken(loss=lambda self, a, b: np.nan if list(a) != list(b) else 0.0), "loss must be finite and not negative"),
        (broken(joint_feature=lambda self, x, y: np.full(3, np.nan)), "joint_feature returned NaN or infinity for sample 0"),
        (broken(joint_feature=lambda self, x, y: np.ones(len(x))), "joint_feature returned 2 numbers for sample 1"),
        (broken(joint_feature=lambda self, x, y: "no"), "joint_feature must return a vector of numbers"),
        (
            broken(size=lambda self, X, y: 7, joint_feature=lambda self, x, y: np.ones(5)),
            "size says 7 weights, joint_feature has 5",
        ),
    ],
)
def test_structures_whose_methods_disagree(structure, message):
    X, y = sequences(lengths=(1, 2, 2))
    y = [np.minimum(labels + 1, 2) for labels in y]
    with pytest.raises(ValueError, match=message):
        mm.StructuredSVM(structure, C=10.0).fit(X, y)


# ---- the estimator ---------------------------------------------------------------------------------------


def longer(n=30, seed=0):
    rng = np.random.default_rng(seed)
    y = [rng.integers(0, 3, rng.integers(1, 7)) for _ in range(n)]
    return [np.eye(3)[labels] + rng.normal(scale=0.6, size=(len(labels), 3)) for labels in y], y


def test_predict_and_score():
    X, y = longer()
    model = mm.StructuredSVM(Chain(), random_state=0).fit(X, y)
    found = model.predict(X)
    right = sum(np.sum(a == b) for a, b in zip(y, found, strict=True))
    assert model.score(X, y) == pytest.approx(right / sum(map(len, y))) and model.score(X, y) > 0.7
    assert model.n_oracle_calls_ > 0 and model.w_.shape == (3 * (3 + 3 + 3),)
    weight = np.arange(30.0)
    exact = sum(w * np.sum(a == b) for w, a, b in zip(weight, y, found, strict=True)) / sum(weight * [len(a) for a in y])
    assert model.score(X, y, sample_weight=weight) == pytest.approx(exact)
    assert model.predict([]) == []
    several = clone(model).set_params(n_jobs=2).fit(X, y)
    assert np.array_equal(several.w_, model.w_)
    assert all(np.array_equal(a, b) for a, b in zip(several.predict(X), found, strict=True))


@pytest.mark.long
def test_sparse_and_float32_features():
    X, y = longer()
    dense = mm.StructuredSVM(Chain(), tol=1e-4, random_state=0).fit(X, y)
    sparse = mm.StructuredSVM(Chain(), tol=1e-4, random_state=0).fit([sp.csr_matrix(x) for x in X], y)
    single = mm.StructuredSVM(Chain(), tol=1e-4, dtype=np.float32, random_state=0).fit(X, y)
    for other in (sparse, single):
        assert other.certificate_.primal == pytest.approx(dense.certificate_.primal, rel=2e-4)
    with pytest.raises(ValueError, match="dtype must be None, float32 or float64"):
        mm.StructuredSVM(Chain(), dtype=int).fit(X, y)


def test_any_hashable_labels():
    X, y = longer()
    names = np.array(["a", "b", "c"])
    plain = mm.StructuredSVM(Chain(), random_state=0).fit(X, y)
    named = mm.StructuredSVM(Chain(), random_state=0).fit(X, [names[labels].tolist() for labels in y])
    assert np.array_equal(plain.w_, named.w_)
    assert named.predict(X[:3])[2] == names[plain.predict(X[:3])[2]].tolist()


def test_grid_search_and_clone():
    X, y = longer(18)
    model = mm.StructuredSVM(Chain(), solver=mm.FrankWolfe(), tol=1e-2)
    grid = {"C": [0.1, 1.0], "structure__first_last_bias": [True, False], "solver__sampling": ["rest", "gap"]}
    search = GridSearchCV(model, grid, cv=2).fit(X, y)
    assert search.best_score_ > 0.5
    assert isinstance(clone(model).structure, Chain)


@pytest.mark.parametrize(("solver", "tol"), [("dual_coordinate", 1e-3), ("frank_wolfe", 1e-2), ("partial_linearization", 1e-3)])
def test_warm_start(solver, tol):
    X, y = longer()
    model = mm.StructuredSVM(Chain(), tol=tol, solver=solver, warm_start=True, random_state=0).fit(X, y)
    model.fit(X, y)
    assert model.n_iter_ == 0 and model.certificate_.converged
    model.set_params(C=2.0).fit(X, y)
    cold = mm.StructuredSVM(Chain(), C=2.0, tol=tol, solver=solver, random_state=0).fit(X, y)
    assert model.certificate_.dual <= cold.certificate_.primal and cold.certificate_.dual <= model.certificate_.primal
    other, labels = longer(seed=9)
    fresh = clone(model).fit(other, labels).certificate_
    changed = model.fit(other, labels).certificate_  # samples of other shapes: the old duals are left aside
    assert changed.dual <= fresh.primal and fresh.dual <= changed.primal
    shuffled = [labels[::-1] for labels in y]
    changed = model.fit(X, y).fit(X, shuffled).certificate_  # the same shapes with other labels
    fresh = clone(model).fit(X, shuffled).certificate_
    assert changed.dual <= fresh.primal and fresh.dual <= changed.primal


def test_path():
    X, y = longer()
    Cs = [0.01, 0.1, 1.0]
    path = mm.StructuredSVM(Chain(), random_state=0).regularization_path(X, y, Cs)
    for C, model in zip(Cs, path, strict=True):
        alone = mm.StructuredSVM(Chain(), C=C, random_state=0).fit(X, y)
        assert model.C == C and model.certificate_.converged
        assert model.certificate_.dual <= alone.certificate_.primal and alone.certificate_.dual <= model.certificate_.primal
        assert 0.0 <= model.score(X, y) <= 1.0
    with pytest.raises(ValueError, match="Cs must be a list of finite numbers > 0"):
        mm.StructuredSVM(Chain()).regularization_path(X, y, [0.0])


def test_batch_on_several_threads_is_the_same():
    X, y = longer()
    models = [
        mm.StructuredSVM(Chain(), tol=0.05, solver=mm.FrankWolfe(block=False), n_jobs=jobs, random_state=0).fit(X, y)
        for jobs in (1, 2)
    ]
    assert models[0].certificate_.primal == pytest.approx(models[1].certificate_.primal, rel=1e-9)


def test_limits_and_messages():
    X, y = longer()
    with pytest.warns(ConvergenceWarning, match="max_iter=2 passes.*target was 1e-10 % .tol=1e-12"):
        model = mm.StructuredSVM(Chain(), tol=1e-12, max_iter=2).fit(X, y)
    assert not model.certificate_.converged and model.n_iter_ == 2
    X, y = longer(400)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        mm.StructuredSVM(Chain(), C=100.0, tol=1e-12, max_time=0.02).fit(X, y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"structure": "line"}, "structure"),
        ({"C": 0}, "C"),
        ({"solver": "none"}, "solver"),
        (
            {"solver": mm.FrankWolfe(sampling="all")},
            "'sampling' parameter of FrankWolfe must be a str among .*'rest'.* Got 'all'",
        ),
        ({"solver": mm.FrankWolfe(steps="some")}, "'steps' parameter of FrankWolfe must be a str among .*'plain'"),
        ({"solver": mm.FrankWolfe(step=0.5)}, "A fixed step goes with steps='plain'"),
        ({"solver": mm.FrankWolfe(cache=2)}, r"'cache' parameter of FrankWolfe must be a float in the range \[0.0, 1.0\]"),
        (
            {"solver": mm.PartialLinearization(temperature=0)},
            r"'temperature' parameter .* must be a float in the range \(0.0, inf\)",
        ),
        (
            {"solver": mm.PartialLinearization(step=1.5)},
            r"'step' parameter .* must be a str among {'optimal'} or a float in the range \(0.0, 1.0\]",
        ),
        ({"solver": mm.PartialLinearization(cooling=0)}, r"'cooling' parameter .* must be a float in the range \(0.0, 1.0\]"),
        (
            {"solver": mm.ExponentiatedGradient(temperature=-1)},
            "'temperature' parameter .* must be a str among {'auto'} or a float",
        ),
    ],
)
def test_bad_parameters(change, message):
    X, y = longer(5)
    with pytest.raises(ValueError, match=message):
        mm.StructuredSVM(**{"structure": Chain()} | change).fit(X, y)


def test_bad_samples():
    X, y = longer(5)
    model = mm.StructuredSVM(Chain())
    for call, message in (
        (lambda: model.fit(X), "requires y"),
        (lambda: model.fit(X, y[:4]), "X has 5 samples, y has 4"),
        (lambda: model.fit([], []), "no samples"),
        (lambda: model.fit(X, y, sample_weight=[1, 2]), "sample_weight has shape"),
        (lambda: model.fit(X, y, sample_weight=[1, 1, 1, 1, -1]), "sample_weight must be finite and not negative"),
        (lambda: model.fit(3, y), "X must be a sequence of samples"),
        (lambda: model.fit(X, y).predict([np.ones((2, 4))]), "has 4 features"),
        (lambda: model.fit(X, y).score(X, y[:2]), "X has 5 samples, y has 2"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(NotFittedError):
        mm.StructuredSVM(Chain()).predict(X)


# ---- the same solvers on multiclass ----------------------------------------------------------------------


@pytest.mark.parametrize("solver", [name for name in SOLVERS if not name.startswith("dual")])
def test_classifier_with_structured_solvers(solver):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), np.arange(30) % 3
    tol = 5e-3 if solver in SLOW else 1e-3
    options = {"tol": tol, "random_state": 0, "cost": [[0, 1, 2], [1, 0, 1], [2, 1, 0]], "class_weight": {0: 2.0}}
    model = mm.SVMClassifier(0.5, solver=SOLVERS[solver], keep_duals=True, **options).fit(X, y)
    best = mm.SVMClassifier(0.5, **options | {"tol": 1e-6}).fit(X, y).certificate_
    assert model.certificate_.converged
    assert model.certificate_.dual <= best.primal and model.certificate_.primal >= best.dual
    np.testing.assert_allclose(model.dual_coef_.T @ X, model.coef_, atol=1e-9)
    assert model.dual_coef_.sum(axis=1) == pytest.approx(0, abs=1e-12)
    again = clone(model).set_params(warm_start=True).fit(X, y)
    again.fit(X, y)
    assert again.certificate_.converged and again.n_iter_ <= 1


def test_structured_solvers_refuse_what_they_do_not_serve():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    with pytest.raises(TypeError, match="FrankWolfe serves multiclass and structured problems"):
        mm.SVMClassifier(solver="frank_wolfe").fit(X, y)
    with pytest.raises(TypeError, match="PartialLinearization serves neither priors nor sign constraints"):
        mm.SVMClassifier(solver="partial_linearization", positive=True).fit(X, np.arange(20) % 3)
