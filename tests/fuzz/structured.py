"""Structured models on samples so small that all outputs can be listed."""

from itertools import product

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

import maxmargin as mm
from maxmargin import structures

from . import checks
from .checks import Report
from .draws import Draw, labels, matrix, weights
from .objectives import Listed

SOLVERS = ("auto", "dual_coordinate", "frank_wolfe", "bundle")
MORE = (
    "online",
    mm.DualCoordinate(momentum=False),
    mm.FrankWolfe(steps="away"),
    mm.FrankWolfe(steps="plain", sampling="uniform"),
    mm.FrankWolfe(block=False),
    mm.Bundle(prox=False),
    mm.Bundle(n_models=1),
)
WITH_MARGINALS = (
    "partial_linearization",
    "exponentiated_gradient",
    mm.PartialLinearization(temperature=1.0, block=False),
    mm.PartialLinearization(cooling=0.9, sampling="gap"),
    mm.ExponentiatedGradient(block=False),
)
MOST = 400  # outputs of a sample


class Ordinal(mm.Structure):
    """A user's own: ratings 0 ... 4, the loss is how far off one is."""

    def size(self, X, y):
        return X[0].size + 5

    def joint_feature(self, x, y):
        return np.concatenate([y * x, np.eye(5)[y]])

    def loss(self, y_true, y):
        return float(abs(y_true - y))

    def decode(self, w, x):
        return max(range(5), key=lambda y: w @ self.joint_feature(x, y))

    def loss_augmented_decode(self, w, x, y_true):
        return max(range(5), key=lambda y: w @ self.joint_feature(x, y) + abs(y_true - y))

    def every_output(self, x, y, most):
        return list(range(5))


class Candidates(mm.LatentStructure):
    """A user's own with a hidden part: classes of bags, where one row of the bag matters."""

    def size(self, X, y):
        self.classes_, self.width_ = sorted(set(y)), X[0].shape[1]
        return len(self.classes_) * self.width_

    def joint_feature(self, x, y, z):
        result = np.zeros((len(self.classes_), self.width_))
        result[self.classes_.index(y)] = x[z]
        return result.ravel()

    def loss(self, y_true, y):
        return float(y_true != y)

    def scores(self, w, x):
        return x @ w.reshape(len(self.classes_), -1).T

    def decode(self, w, x):
        return self.classes_[int(self.scores(w, x).max(axis=0).argmax())]

    def impute(self, w, x, y):
        return int(self.scores(w, x)[:, self.classes_.index(y)].argmax())

    def loss_augmented_decode(self, w, x, y_true, z):
        value = self.scores(w, x) + (np.array(self.classes_) != y_true)
        best, k = np.unravel_index(value.argmax(), value.shape)
        return self.classes_[k], int(best)


# ---- samples: (structure, X, y, whether it has marginals) -------------------------------------------------------------------


def features(draw: Draw, n: int, d: int):
    """A matrix of features, dense or CSR."""
    return matrix(draw, n, d, tame=draw.chance(0.7))


def stored(draw: Draw, X: list) -> list:
    """The samples as arrays of one type."""
    exact = all(np.all(x.astype(np.float32) == x) for x in X)
    kind = "dense" if draw.quick else draw.typed(("dense", "dense", "csr"), ("float32",) if exact else ())
    draw.note(stored=kind)
    return [sp.csr_array(x) if kind == "csr" else x.astype(np.float32) if kind == "float32" else x for x in X]


def options(draw: Draw, K: int) -> dict:
    found = {"normalize_loss": draw.chance(0.3), "bias": draw.chance(0.7)}
    if draw.chance(0.3):
        found["cost"] = draw.rng.random((K, K)) * 2.0 * (1.0 - np.eye(K))
    return found


def multiclass(draw: Draw):
    K, n, d = int(draw.rng.integers(2, 6)), int(draw.rng.integers(5, 20)), int(draw.rng.integers(1, 6))
    chosen = options(draw, K)
    chosen.pop("normalize_loss")
    return structures.Multiclass(**chosen), features(draw, n, d), labels(draw, n, K), True


def nodes(draw: Draw, lengths: list, d: int, K: int) -> tuple[list, list]:
    X = features(draw, sum(lengths), d)
    y = labels(draw, sum(lengths), K)
    cuts = np.cumsum(lengths)[:-1]
    names = draw.one(lambda part: part, lambda part: part.tolist(), lambda part: ["abc"[k] for k in part])
    return np.split(X, cuts), [names(part) for part in np.split(y, cuts)]


def sizes(draw: Draw, most: int = 4) -> tuple[list, int, int]:
    K, d = int(draw.rng.integers(2, 4)), int(draw.rng.integers(1, 5))
    return [4, *draw.rng.integers(1, most + 1, draw.rng.integers(0, 8)).tolist()], d, K


def chain(draw: Draw):
    lengths, d, K = sizes(draw)
    X, y = nodes(draw, lengths, d, K)
    structure, X = structures.Chain(first_last_bias=draw.chance(0.7), **options(draw, K)), stored(draw, X)
    if draw.quick or draw.chance(0.7):  # edges with features compile for long
        return structure, X, y, True
    count = int(draw.rng.integers(1, 4))
    edges = [draw.rng.normal(size=(x.shape[0] - 1, count)) for x in X]
    if draw.chance(0.5):  # ties and zeros
        edges = [np.round(values) for values in edges]
    draw.note(edge_features=count)
    return structure.set_params(edge_features=True), list(zip(X, edges)), y, True


def tree(draw: Draw):
    lengths, d, K = sizes(draw)
    X, y = nodes(draw, lengths, d, K)
    edges = [[(int(draw.rng.integers(child)), child) for child in range(1, len(x))] for x in X]
    return structures.Tree(**options(draw, K)), list(zip(stored(draw, X), edges)), y, True


def graph(draw: Draw):
    lengths, d, K = sizes(draw)
    X, y = nodes(draw, lengths, d, K)
    part = 0.6 if draw.installed("networkx") else 0.0  # cycles need it
    edges = []
    for x in X:
        every = [(a, b) for b in range(len(x)) for a in range(b)]
        spanning = [(int(draw.rng.integers(child)), child) for child in range(1, len(x))]
        edges.append(spanning + [pair for pair in every if pair not in spanning and draw.chance(part)])
    return structures.Graph(**options(draw, K)), list(zip(stored(draw, X), edges)), y, True


def segmentation(draw: Draw):
    rng, d = draw.rng, int(draw.rng.integers(1, 4))
    widths = {"a": 1, "b": (1, 2), "c": 2} if draw.chance(0.5) else [1, (1, 3)]
    lengths = [int(length) for length in rng.integers(1, 6, rng.integers(1, 7))]
    X = np.split(features(draw, sum(lengths), d), np.cumsum(lengths)[:-1])
    chosen = {"transitions": draw.chance(0.5), "columns": draw.one(None, 1)}
    chosen |= {name: value for name, value in options(draw, len(widths)).items()}
    structure = structures.Segmentation(widths, **chosen)
    pieces = [(a, u) for a, w in (widths.items() if isinstance(widths, dict) else enumerate(widths)) for u in every_width(w)]
    return structure, stored(draw, X), [cut(rng, pieces, length) for length in lengths], True


def every_width(width) -> list[int]:
    return [width] if isinstance(width, int) else list(range(width[0], width[1] + 1))


def cut(rng, pieces, length: int) -> list:
    found = []
    while length > 0:
        fitting = [piece for piece in pieces if piece[1] <= length]
        found.append(fitting[rng.integers(len(fitting))])
        length -= found[-1][1]
    return found


def parts(draw: Draw):
    rng, d = draw.rng, int(draw.rng.integers(1, 3))
    edges, most = draw.one(([], 5), ([(0, 1)], 4), ([(0, 1), (2, 1)], 2))
    shapes = [tuple(rng.integers(1, most + 1, 2).tolist()) for _ in range(rng.integers(1, 5))]
    X = [features(draw, a * b, d).reshape(a, b, d) for a, b in shapes]
    y = [np.stack([rng.integers(0, side, len(edges) + 1) for side in shape], axis=1) for shape in shapes]
    structure = structures.Parts(edges, window=draw.one(1, 2, 3, (1, 3)), unit=draw.one(None, 2.0))
    return structure, X, y, False


def ordinal(draw: Draw):
    n, d = int(draw.rng.integers(1, 10)), int(draw.rng.integers(1, 5))
    return Ordinal(), list(features(draw, n, d)), draw.rng.integers(0, 5, n).tolist(), False


MAKERS = (multiclass, chain, chain, tree, graph, segmentation, parts, ordinal)
FEW = (multiclass, chain, ordinal)  # of a quick draw: each of the others compiles for as long as these together


# ---- the problem ------------------------------------------------------------------------------------------------------------


def run(draw: Draw, report: Report) -> None:
    maker = draw.one(*(FEW if draw.quick else MAKERS))
    structure, X, y, marginals = maker(draw)
    n = len(y)
    weight = weights(draw, n)
    C = draw.one(1.0, draw.power(-3, 2), draw.power(-6, 5))
    solver = draw.typed(SOLVERS[: 3 if draw.quick else 4], MORE + (WITH_MARGINALS if marginals else ()))
    params = settings(draw, C) | {"keep_duals": draw.chance(0.3) and not is_bundle(solver)}
    model = mm.StructuredSVM(structure, solver=solver, **params)
    draw.note(structure=maker.__name__, model=model, X=X, y=y, sample_weight=weight)
    objective = listed(structure, X, y, C * (np.ones(n) if weight is None else weight))
    way = draw.one("fit", "fit", "path", "warm", "source")
    draw.note(way=way)
    if way == "path":
        factors = np.sort(10.0 ** draw.rng.uniform(-1, 1, 2))
        with checks.timed(report, model.max_time, 2):
            models = model.regularization_path(X, y, C * factors, sample_weight=weight)
        for factor, each in zip(factors, models):
            check(draw, report, each, objective.scaled(factor), (X, y), f"C x {factor:g}: ")
        return
    with checks.timed(report, model.max_time, 2):
        if way == "warm":
            model.set_params(warm_start=True).fit(X, y, sample_weight=weight)
        if way == "source" and maker is not multiclass:
            half = max(1, n // 2)
            if labels_in(y[:half]) < labels_in(y) or maker is parts:
                half = n  # labels, and the unit of parts, are learned from the first block
            columns = X, y, *(() if weight is None else (weight,))
            blocks = [tuple(column[part] for column in columns) for part in (slice(half), slice(half, n))]
            model.set_params(solver="online", keep_duals=False).fit(mm.Samples([block for block in blocks if len(block[1])]))
        else:
            model.fit(X, y, sample_weight=weight)
    check(draw, report, model, objective, (X, y))
    decoded(report, model, X, y)
    other = clone(model).set_params(solver=draw.one(*SOLVERS[:3]), warm_start=False, keep_duals=False, random_state=7)
    draw.note(twin_solver=other.solver)
    with checks.timed(report, other.max_time):
        other.fit(X, y, sample_weight=weight)
    check(draw, report, other, objective, (X, y), "twin: ", (model.w_,))
    checks.below(report, model.certificate_.dual, objective.at(other.w_), objective.slack(other.w_), "elsewhere: ")


def settings(draw: Draw, C: float) -> dict:
    passes = draw.one(1, 3, 30) if draw.quick else draw.one(1, 3, 30, 300, 10_000)
    return {
        "C": C,
        "tol": draw.one(1e-2, 1e-3, 1e-5),
        "max_iter": passes,
        "max_time": 30.0 if draw.quick else 1.0,
        "random_state": int(draw.rng.integers(100)),
        "n_jobs": draw.one(None, None, 2),
    }


def is_bundle(solver) -> bool:
    return solver == "bundle" or isinstance(solver, mm.Bundle)


def labels_in(outputs) -> set:
    """The labels in some outputs, as something hashable."""
    return {str(label) for y in outputs for label in (y if hasattr(y, "__len__") else [y])}


def listed(structure, X, y, cap) -> Listed:
    """Joint features and losses of all outputs."""
    structure = clone(structure)
    dim = structure.size(X, y)
    psi, delta = [], []
    for x, true in zip(X, y):
        every = structure.every_output(x, true, MOST)
        assert every is not None, "too many outputs to list"
        here = structure.joint_feature(x, true)
        psi.append(np.array([here - structure.joint_feature(x, other) for other in every]))
        delta.append(np.array([structure.loss(true, other) for other in every]))
    bound = structure.nonnegative() if hasattr(structure, "nonnegative") else []
    return Listed(psi, delta, cap, np.isin(np.arange(dim), bound))


def check(draw: Draw, report: Report, model, objective: Listed, samples, what: str = "", more=()) -> None:
    found, w = model.certificate_, np.asarray(model.w_, float)
    if not found.verified:
        report.expect(not found.converged, f"{what}converged and not verified")
        checks.below(report, found.dual, objective.at(w), objective.slack(w), f"{what}not verified: ")
        return
    if not checks.certificate(report, found, model.tol, what):
        return
    here = checks.bounds(report, found, objective, w, draw.rng, more, what)
    if here is None:
        return
    checks.history(report, model.history_, here, objective.slack(w), what)
    if model.keep_duals and isinstance(model.dual_coef_[0], list):
        rebuilt(report, model, objective, w, samples, what)


def rebuilt(report: Report, model, objective: Listed, w, samples, what: str) -> None:
    """The dual value and the weights from the outputs that have mass; these are found again by their losses and features."""
    X, y = samples
    v, reward, size = np.zeros_like(w), 0.0, 0.0
    for i, pairs in enumerate(model.dual_coef_):
        here = model.structure_.joint_feature(X[i], y[i])
        for output, mass in pairs:
            report.expect(mass >= 0.0, f"{what}sample {i} has a dual of {mass:.3g}")
            off = mass * (here - model.structure_.joint_feature(X[i], output))
            v, size = v + off, size + float(np.abs(off).sum())
            reward += mass * model.structure_.loss(y[i], output)
        total, most = sum(mass for _, mass in pairs), objective.cap[i]
        size += 1e-6 * most * float(np.abs(here).sum())  # masses are held as parts of their caps
        report.expect(total <= most * (1 + 1e-9), f"{what}duals of sample {i} sum up to {total!r} > {most!r}")
    v[objective.nonnegative] = np.maximum(v[objective.nonnegative], 0.0)
    report.expect(np.max(np.abs(v - w)) <= 1e-9 * (size + 1e-300), f"{what}w_ is not rebuilt: off by {np.max(np.abs(v - w)):.3g}")
    off = model.certificate_.dual - (reward - 0.5 * float(v @ v))
    most = checks.RELATIVE * abs(model.certificate_.primal) + 4 * objective.slack(w)
    report.expect(abs(off) <= most, f"{what}dual is not that of dual_coef_: off by {off:.3g}")


def decoded(report: Report, model, X, y) -> None:
    """Predictions have the best score of all outputs."""
    structure, w = model.structure_, model.w_
    for i, (x, true, found) in enumerate(zip(X, y, model.predict(X))):
        every = [w @ structure.joint_feature(x, other) for other in structure.every_output(x, true, MOST)]
        score, size = w @ structure.joint_feature(x, found), np.abs(w) @ np.abs(structure.joint_feature(x, found))
        best = max(every)
        report.expect(score >= best - 1e-9 * (size + abs(best)), f"predict of sample {i} scores {score!r} < {best!r}")


# ---- hidden parts -----------------------------------------------------------------------------------------------------------


def latent(draw: Draw, report: Report) -> None:
    rng, K, d = draw.rng, int(draw.rng.integers(2, 4)), int(draw.rng.integers(1, 4))
    n = int(rng.integers(K, 8))
    counts = rng.integers(1, 4, n)
    X = np.split(features(draw, int(counts.sum()), d), np.cumsum(counts)[:-1])
    y, weight, C = labels(draw, n, K).tolist(), weights(draw, n), draw.power(-2, 2)
    params = settings(draw, C) | {"max_cccp_iter": draw.one(1, 3, 50), "n_restarts": draw.one(0, 0, 1)}
    params["init"] = draw.one("zero", "random")
    model = mm.LatentStructuredSVM(Candidates(), solver=draw.one("auto", "frank_wolfe", "bundle"), **params)
    draw.note(model=model, X=X, y=y, sample_weight=weight)
    with checks.timed(report, model.max_time):
        model.fit(X, y, sample_weight=weight)
    cap = C * (np.ones(n) if weight is None else weight)
    structure, w = model.structure_, model.w_
    psi, delta = [], []
    for x, true in zip(X, y):
        best = max((structure.joint_feature(x, true, z) for z in range(len(x))), key=lambda phi: phi @ w)
        pairs = list(product(structure.classes_, range(len(x))))
        psi.append(np.array([best - structure.joint_feature(x, k, z) for k, z in pairs]))
        delta.append(np.array([structure.loss(true, k) for k, _ in pairs]))
    objective = Listed(psi, delta, cap, np.zeros(w.size, bool))
    settled(report, model, objective, w, objective.at(np.zeros_like(w)))


def settled(report: Report, model, objective, point, zero) -> None:
    """What holds of every latent model: the objective is the last of its history and falls; the certificate is not below it.

    `objective` has the best candidates at `point` fixed, so that there, and there only, it is the objective of the model.
    """
    found, here = model.certificate_, objective.at(point)
    if not checks.certificate(report, found, model.tol):
        return
    near = checks.RELATIVE * abs(here.value) + 4 * here.rounding
    last = float(model.outer_history_[-1])
    report.expect(abs(last - here.value) <= near, f"outer_history_ ends at {last!r}, the objective is {here.value!r}")
    report.expect(np.all(np.diff(model.outer_history_) <= near), f"outer_history_ rises: {model.outer_history_}")
    report.expect(found.primal >= here.value - near, f"primal {found.primal!r} is below the objective {here.value!r}")
    checks.below(report, found.dual, zero, objective.slack(point), "at zero: ")
    if abs(found.primal - here.value) <= near:  # then the candidates fixed were these, or as good
        checks.below(report, found.dual, here, objective.slack(point), "here: ")
