"""A small fitted model of every estimator and of every kind of thing that a model may hold; and how two are compared."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.model_selection import KFold

import maxmargin as mm
from maxmargin import losses
from maxmargin.structures import Chain, Graph, LatentStructure, Multiclass, Tree

from .structured import SEGMENTATIONS, Brackets, bits, images, lines, words

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5))
TWO = (X[:, 0] + 0.3 * RNG.normal(size=40) > 0).astype(int)
THREE = np.array(["ä", "bb", "ccc"])[np.argmax(X[:, :3] + 0.3 * RNG.normal(size=(40, 3)), axis=1)]
LABELS = (X[:, :3] + 0.3 * RNG.normal(size=(40, 3)) > 0).astype(int)
REAL = X[:, 0] - X[:, 1] + 0.1 * RNG.normal(size=40)
COMMON = {"tol": 1e-2, "random_state": 0}


class Halves(LatentStructure):
    """One of two candidate rows shows the sign y."""

    def size(self, X, y):
        self.width_ = X[0].shape[1]
        return self.width_

    def joint_feature(self, x, y, z):
        return y * x[z]

    def loss(self, y_true, y):
        return float(y_true != y)

    def decode(self, w, x):
        return max((-1, 1), key=lambda y: max(y * (x @ w)))

    def impute(self, w, x, y):
        return int(np.argmax(y * (x @ w)))

    def loss_augmented_decode(self, w, x, y_true, z):
        every = [(y, z) for y in (-1, 1) for z in range(len(x))]
        return max(every, key=lambda pair: pair[0] * (x[pair[1]] @ w) + self.loss(y_true, pair[0]))


def inner(left, right):
    return np.asarray(left @ right.T)


class Case(NamedTuple):
    make: Callable[[], Any]  # the fitted model
    samples: Any  # to predict
    given: dict[str, Any]  # what `load` needs


def framed():
    import pandas as pd

    return mm.SVMClassifier(**COMMON).fit(pd.DataFrame(X, columns=[f"Größe {k}" for k in range(5)]), THREE)


def pieces(model, y):
    for part in (slice(0, 20), slice(20, 40)):
        model.partial_fit(X[part], y[part], classes=None if np.ndim(y) == 2 else np.unique(y))
    return model


def signed(model):
    return model.fit([sample.astype(float) for sample in BAGS], [-1, 1] * 6)


BAGS = [np.array([[-1.0, 0.2], [0.1, (-1.0) ** k]]) * (1 + 0.1 * k) for k in range(12)]
NAMED_WORDS = words()[0], [[("u", 1) if label == 0 else True if label == 1 else 2.5 for label in output] for output in words()[1]]
LINES = lines(SEGMENTATIONS["ranges and transitions"])
GRIDS = images("two parts")
TREE = [RNG.normal(size=(4, 3)) for _ in range(6)], [RNG.integers(0, 2, 4) for _ in range(6)]
SPARSE = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
COST = {"ä": {"bb": 2.0}}


def pieces_of_words(model):
    """Samples that are kept, and others that have left their weights."""
    samples, outputs = words()
    model.set_params(solver=mm.OnlineDual(cache_size=0.003), C=0.3)
    for start in range(0, len(samples), 7):
        model.partial_fit(samples[start : start + 7], outputs[start : start + 7], classes=[0, 1, 2])
    assert model._kept.frozen.size and len(model._kept.y)
    return model


SVM, LABELLED, STRUCTURED = mm.SVMClassifier, mm.MultilabelSVMClassifier, mm.StructuredSVM
CASES: dict[str, Case] = {
    "two classes": Case(lambda: SVM(keep_duals=True, **COMMON).fit(X, TWO), X, {}),
    "three classes": Case(lambda: SVM(cost=COST, class_weight={"ä": 2.0}, standardize=True, **COMMON).fit(X, THREE), X, {}),
    "names of columns": Case(framed, None, {}),
    "booleans": Case(lambda: SVM(loss="squared_hinge", **COMMON).fit(X, TWO == 1), X, {}),
    "mixed objects": Case(lambda: SVM(**COMMON).fit(X, np.where(TWO == 1, "no", "yes").astype(object)), X, {}),
    "single precision": Case(lambda: SVM(dtype=np.float32, C=np.float32(0.5), **COMMON).fit(X.astype(np.float32), TWO), X, {}),
    "sigmoid": Case(lambda: SVM(probability="sigmoid", **COMMON).fit(X, TWO), X, {}),
    "isotonic": Case(lambda: SVM(probability="isotonic", **COMMON).fit(X, THREE), X, {}),
    "temperature": Case(lambda: SVM(probability="temperature", **COMMON).fit(X, THREE), X, {}),
    "priors": Case(lambda: SVM(prior_mean=np.ones(5), prior_covariance=np.eye(5) + 0.5, **COMMON).fit(X, TWO), X, {}),
    "signs": Case(lambda: SVM(positive=np.arange(5) < 2, tol=1e-2, random_state=np.random.RandomState(3)).fit(X, TWO), X, {}),
    "objects": Case(lambda: SVM(loss=losses.HingeLoss(), solver=mm.DualCoordinate(), **COMMON).fit(X, TWO), X, {}),
    "rbf": Case(lambda: SVM(kernel="rbf", **COMMON).fit(X, THREE), X, {}),
    "rbf of sparse rows": Case(lambda: SVM(kernel="rbf", **COMMON).fit(SPARSE, TWO), SPARSE, {}),
    "precomputed": Case(lambda: SVM(kernel="precomputed", **COMMON).fit(X @ X.T, TWO), X @ X.T, {}),
    "a function": Case(lambda: SVM(kernel=inner, **COMMON).fit(X, TWO), X, {"kernel": inner}),
    "pieces": Case(lambda: pieces(SVM(**COMMON), TWO), X, {}),
    "regression": Case(lambda: mm.SVMRegressor(**COMMON).fit(X, REAL), X, {}),
    "rankings": Case(lambda: mm.RankingSVM(**COMMON).fit(X, REAL, groups=None), X, {}),
    "classes in an order": Case(lambda: mm.OrdinalSVM(**COMMON).fit(X, np.round(REAL)), X, {}),
    "one class": Case(lambda: mm.OneClassSVM(nu=0.2, keep_duals=True, **COMMON).fit(X + 2.0), X, {}),
    "regression with a kernel": Case(lambda: mm.SVMRegressor(kernel="poly", **COMMON).fit(X, REAL), X, {}),
    "top-2": Case(lambda: mm.TopKSVMClassifier(k=2, **COMMON).fit(X, THREE), X, {}),
    "labels": Case(lambda: LABELLED(keep_duals=True, **COMMON).fit(X, LABELS), X, {}),
    "sparse labels": Case(lambda: LABELLED(keep_duals=True, **COMMON).fit(SPARSE, sp.csr_array(LABELS)), SPARSE, {}),
    "label prior": Case(lambda: LABELLED(label_prior=mm.label_correlation(LABELS, 0.1), **COMMON).fit(X, LABELS), X, {}),
    "labels with a kernel": Case(
        lambda: LABELLED(kernel="rbf", label_prior=np.eye(3) + 0.5, probability="sigmoid", **COMMON).fit(X, LABELS), X, {}
    ),
    "named labels": Case(
        lambda: LABELLED(thresholds="f1", **COMMON).fit(X, [set(np.flatnonzero(row) + 7) for row in LABELS]), X, {}
    ),
    "labels in pieces": Case(lambda: pieces(LABELLED(**COMMON), LABELS), X, {}),
    "classes never seen": Case(
        lambda: mm.ZeroShotClassifier(LABELLED(**COMMON), np.eye(3), classes=["p", "q", "r"]).fit(X, LABELS), X, {}
    ),
    "search": Case(lambda: mm.SVMClassifierCV(Cs=2, cv=KFold(3), **COMMON).fit(X, TWO), X, {}),
    "search, regression": Case(lambda: mm.SVMRegressorCV(Cs=[0.1, 1.0], **COMMON).fit(X, REAL), X, {}),
    "search, top-2": Case(lambda: mm.TopKSVMClassifierCV(Cs=2, cv=3, k=2, **COMMON).fit(X, THREE), X, {}),
    "search, labels": Case(lambda: mm.MultilabelSVMClassifierCV(Cs=2, cv=3, **COMMON).fit(X, LABELS), X, {}),
    "search, chains": Case(lambda: mm.StructuredSVMCV(Chain(), Cs=2, cv=3, **COMMON).fit(*words()), words()[0], {}),
    "chains": Case(lambda: STRUCTURED(Chain(), keep_duals=True, **COMMON).fit(*NAMED_WORDS), words()[0], {}),
    "chains in pieces": Case(lambda: pieces_of_words(STRUCTURED(Chain(), **COMMON)), words()[0], {}),
    "trees": Case(lambda: STRUCTURED(Tree(edges=[(0, 1), (1, 2), (1, 3)]), **COMMON).fit(*TREE), TREE[0], {}),
    "graphs": Case(lambda: STRUCTURED(Graph(edges=[(0, 1), (1, 2), (0, 2), (2, 3)]), **COMMON).fit(*TREE), TREE[0], {}),
    "multiclass": Case(lambda: STRUCTURED(Multiclass(cost=COST), **COMMON).fit(X, THREE), X, {}),
    "segments": Case(lambda: STRUCTURED(SEGMENTATIONS["ranges and transitions"], **COMMON).fit(*LINES), LINES[0], {}),
    "parts": Case(lambda: STRUCTURED(GRIDS[0], **COMMON).fit(*GRIDS[1:]), GRIDS[1], {}),
    "a structure in Python": Case(lambda: STRUCTURED(Brackets(), **COMMON).fit(*bits()), bits()[0], {"structure": Brackets()}),
    "bags": Case(lambda: signed(mm.LatentSVMClassifier(keep_duals=True, **COMMON)), BAGS, {}),
    "hidden parts": Case(lambda: signed(mm.LatentStructuredSVM(Halves(), **COMMON)), BAGS, {"structure": Halves()}),
}


@cache
def fitted(name: str) -> Any:
    return CASES[name].make()


def identical(one: Any, two: Any, at: str = "model") -> None:
    """Both are made of the same things, to the last bit and the last type."""
    assert type(one) is type(two), at
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape, one.flags.f_contiguous) == (two.dtype, two.shape, two.flags.f_contiguous), at
        if one.dtype.hasobject:
            identical(one.tolist(), two.tolist(), at)
        else:
            assert one.tobytes() == two.tobytes(), at
    elif sp.issparse(one):
        for name in ("data", "indices", "indptr"):
            identical(getattr(one, name), getattr(two, name), f"{at}.{name}")
        assert one.shape == two.shape, at
    elif isinstance(one, np.random.RandomState):
        identical(one.get_state(), two.get_state(), at)
    elif isinstance(one, mm.History):
        identical([list(one), one.methods], [list(two), two.methods], at)
    elif isinstance(one, dict):
        identical(list(one), list(two), at)
        for key in one:
            identical(one[key], two[key], f"{at}[{key!r}]")
    elif isinstance(one, list | tuple):
        assert len(one) == len(two), at
        for k, (a, b) in enumerate(zip(one, two, strict=True)):
            identical(a, b, f"{at}[{k}]")
    elif callable(one) or isinstance(one, type | np.dtype):
        assert one is two or one == two, at
    elif isinstance(one, BaseEstimator) or (hasattr(one, "__dict__") and not isinstance(one, np.generic)):
        left = {"_last", "_packed", "_silent", "_state_bytes", "norms", "counts"}  # no part of a model
        a, b = ({key: held for key, held in vars(model).items() if key not in left} for model in (one, two))
        assert a.keys() == b.keys(), at
        for key in a:
            identical(a[key], b[key], f"{at}.{key}")
    elif isinstance(one, float | np.floating):
        assert np.array(one).tobytes() == np.array(two).tobytes(), at
    else:
        assert one == two, at
