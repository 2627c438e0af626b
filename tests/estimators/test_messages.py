"""What is said to a user: the warning of an unfinished run, and one sentence with the way out for each plausible bad call."""

# ruff: noqa: E501 - a call, its error and the words that matter stand in one row

import warnings
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin as mm
from maxmargin.data import mistakes
from maxmargin.data.sources.blocks import Block
from maxmargin.estimators.advice import Spread, still_falling, unfinished
from maxmargin.result import Certificate
from maxmargin.structures import Chain, Graph, Multiclass, Segmentation

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
Y = np.arange(40) % 2
Y3 = np.arange(40) % 3
YM = np.c_[Y, Y3 == 0].astype(int)
LINES = [X[:3], X[3:6], X[6:9], X[9:12]]
MARKS = [[0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1]]
BAGS = X[:, None, :]
TABLE = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=Y)


# ---- the warning of a run that missed its target -----------------------------------------------------------


def ended(message, gap=0.1):
    return Certificate(1.0, 1.0 - gap, gap, gap, False, True, message)


@pytest.mark.parametrize(
    ("message", "gap", "spread", "resumable", "said"),
    [
        ("Stopped after max_iter=3 passes.", 0.1, 1.0, True, "Raise max_iter (warm_start=True goes on from here)."),
        ("Stopped after max_time=2 seconds.", 0.1, None, False, "Raise max_time."),
        (
            "Stopped after max_iter=3 passes.", 0.1, 123456.0, True,
            "The columns of X differ in size by a factor of 1e+05 ('income' is the largest, column 3 the smallest): "
            "scale them (StandardScaler, MaxAbsScaler), or lower C.",
        ),
        ("Stopped after max_iter=5 passes.", 0.41, 999.0, False, "Raise max_iter."),
        ("Stopped by Ctrl-C.", 0.9, 1e6, True, ""),
        ("Stopped by a callback.", 0.1, 1e6, True, ""),
    ],
)  # fmt: skip
def test_warning_says_what_was_seen(message, gap, spread, resumable, said):
    seen = None if spread is None else Spread(spread, "'income'", "column 3")
    text = unfinished(ended(message, gap), 1e-3, seen, resumable)
    reached = f"The duality gap is {100 * gap:g} % of the primal value, the target was 0.1 % (tol=0.001)."
    assert text == f"{message} {reached} {said}".rstrip()


def test_warning_without_a_gap_claims_nothing_of_it():
    text = unfinished(ended("Stopped after max_time=2 seconds. The primal value was not computed.", np.inf), 1e-3, None, False)
    assert text.endswith("The primal value was not computed. The target was 0.1 % (tol=0.001). Raise max_time.")


@pytest.mark.parametrize(
    ("stopped", "advice"),
    [
        ("", "Raise max_cccp_iter (warm_start=True goes on from here)."),
        ("Stopped after max_time=2 seconds.", "Raise max_time (warm_start=True goes on from here)."),
        ("Stopped by Ctrl-C.", "The objective still fell; the last convex problem is certified."),
    ],
)
def test_warning_of_a_latent_model(stopped, advice):
    text = still_falling(stopped, 5)
    assert text.startswith(stopped or "Stopped after max_cccp_iter=5 convex problems.") and text.endswith(advice)


def warned(model, *data):
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(*data)
    assert len(caught) == 1
    return str(caught[0].message)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_warning_sees_columns_of_different_size(kind):
    wide = X * [1.0, 1e-3, 3e4]
    wide[:, 1] *= -1.0
    size = np.abs(wide).max(axis=0)
    text = warned(mm.SVMClassifier(max_iter=1, tol=1e-9, random_state=0), kind(wide), Y)
    said = f"by a factor of {size.max() / size.min():.0e} (column 2 is the largest, column 1 the smallest): scale them"
    assert said in text and "max_iter (" not in text
    even = warned(mm.SVMClassifier(max_iter=1, tol=1e-9, random_state=0), kind(X), Y)
    assert even.endswith("Raise max_iter (warm_start=True goes on from here).")
    scaled = mm.SVMClassifier(max_iter=1, tol=1e-9, prior_scale=1.0 / size, random_state=0)
    assert "scale them" not in warned(scaled, kind(wide), Y)


def test_warning_offers_a_warm_start_only_where_it_goes_on(tmp_path):
    parameters = {"max_iter": 1, "tol": 1e-9, "random_state": 0}
    source = mm.open_source([(X[:20], Y[:20]), (X[20:], Y[20:])])
    online = warned(mm.SVMClassifier(**parameters), source)
    assert "warm_start" not in online and "Raise max_iter." in online
    with pytest.warns(ConvergenceWarning) as caught:
        mm.SVMClassifier(**parameters).partial_fit(X, Y, classes=[0, 1])
    assert "warm_start" not in str(caught[0].message)
    assert "warm_start" not in warned(mm.StructuredSVM(Own(), **parameters), list(X), list(Y))
    assert "warm_start=True" in warned(mm.StructuredSVM(Multiclass(2), **parameters), X, Y)


class Stop:
    """A callback that stops after the first pass."""

    def setup(self, estimator, context): ...
    def on_fit_task_begin(self, estimator, context): ...
    def teardown(self, estimator, context): ...
    def on_fit_task_end(self, estimator, context):
        return True


def test_warning_after_a_callback_gives_no_advice():
    text = warned(mm.SVMClassifier(tol=1e-9, random_state=0).set_callbacks(Stop()), X * [1.0, 1e5, 1.0], Y)
    assert text.startswith("Stopped by a callback. The duality gap is") and text.endswith("the target was 1e-07 % (tol=1e-09).")


# ---- bad calls ---------------------------------------------------------------------------------------------


class Own(mm.Structure):
    """Two classes in plain Python; `bad` returns `value` from the call number `first` on."""

    def __init__(self, bad=None, value=None, first=0):
        self.bad, self.value, self.first = bad, value, first

    def size(self, X, y):
        return 6

    def _said(self, method, answer):
        self.calls_ = getattr(self, "calls_", {})
        self.calls_[method] = self.calls_.get(method, -1) + 1
        return self.value if self.bad == method and self.calls_[method] >= self.first else answer

    def joint_feature(self, x, y):
        phi = np.zeros((2, 3))
        phi[y] = x
        return self._said("joint_feature", phi.ravel())

    def loss(self, y_true, y):
        return self._said("loss", float(y_true != y))

    def decode(self, w, x):
        return self._said("decode", int(np.argmax(w.reshape(2, 3) @ x)))

    def loss_augmented_decode(self, w, x, y_true):
        return self._said("loss_augmented_decode", int(np.argmax(w.reshape(2, 3) @ x + (np.arange(2) != y_true))))


class Hidden(mm.LatentStructure):
    def size(self, X, y):
        return 3

    def joint_feature(self, x, y, z):
        return y * x

    def loss(self, y_true, y):
        return float(y_true != y)

    def decode(self, w, x):
        return int(w @ x > 0)

    def impute(self, w, x, y):
        return 0

    def loss_augmented_decode(self, w, x, y_true, z):
        return 1


def fit(model, *data, **more):
    return lambda: model.fit(*data, **more)


def own(bad, value, first=0):
    model = mm.StructuredSVM(Own(bad, value, first), max_iter=3, random_state=0)
    if bad == "decode":
        return lambda: mm.StructuredSVM(Own(bad, value, first)).fit(list(X[:4]), list(Y[:4])).predict(list(X[:4]))
    return lambda: model.fit(list(X[:4]), list(Y[:4]))


CLASSES = {1: {0: 2.0}}
ONE = np.ones(40)
DATES = pd.DataFrame({"a": ONE, "when": pd.date_range("2026-01-01", periods=40)})
DAYS = np.array(["2020-01-01", "NaT"] * 20, "M8[ns]")
CALLS = {
    "path": (fit(mm.SVMClassifier(), "train.svm"), TypeError, r"X is a path, 'train.svm'.*maxmargin.open_source\('train.svm'\)"),
    "path object": (fit(mm.SVMRegressor(), Path("train.svm"), Y), TypeError, r"path.*open_source"),
    "path, multi-label": (fit(mm.MultilabelSVMClassifier(), "train.svm"), TypeError, r"path.*open_source"),
    "path, bags": (fit(mm.LatentSVMClassifier(), "bags.pkl"), TypeError, r"path, 'bags.pkl': read"),
    "path, structure": (fit(mm.StructuredSVM(Chain()), "text.conll"), TypeError, r"path, 'text.conll': read"),
    "lazy frame": (fit(mm.SVMClassifier(), pl.LazyFrame({"a": [0.0, 1.0]}), [0, 1]), TypeError, r"LazyFrame.*X\.collect\(\)"),
    "lazy frame, bags": (fit(mm.LatentSVMClassifier(), pl.LazyFrame({"a": [0.0]}), [0]), TypeError, r"LazyFrame.*collect"),
    "pipeline": (fit(make_pipeline(StandardScaler(), mm.SVMClassifier()), mm.open_source([(X, Y)])), TypeError, r"source.*no array.*in a pipeline maxmargin.BlockTransformer"),
    "search": (fit(GridSearchCV(mm.SVMClassifier(), {"C": [1.0]}), mm.open_source([(X, Y)])), TypeError, r"source.*no array.*only maxmargin's own fit"),
    "samples as array": (lambda: np.asarray(mm.Samples([(LINES, MARKS)])), TypeError, r"Samples.*no array"),
    "source, latent": (fit(mm.LatentSVMClassifier(), mm.open_source([(X, Y)])), TypeError, r"source, which is not taken here"),
    "source, partial_fit": (lambda: mm.SVMClassifier().partial_fit(mm.open_source([(X, Y)]), None, classes=[0, 1]), TypeError, r"block by block"),
    "None": (fit(mm.SVMClassifier(), None, Y), TypeError, r"X is None"),
    "generator": (fit(mm.SVMClassifier(), (x for x in X), Y), TypeError, r"X is an iterator: give"),
    "dict": (fit(mm.SVMClassifier(), {"a": [0.0, 1.0]}, [0, 1]), ValueError, r"dictionary; a data frame"),
    "texts": (fit(mm.SVMClassifier(), ["good day", "bad day"], [0, 1]), ValueError, r"texts.*TfidfVectorizer"),
    "dates": (fit(mm.SVMClassifier(), DATES), ValueError, r"column 'when' holds datetime64.*the days since a date"),
    "dates alone, kernel": (fit(mm.SVMClassifier(kernel="rbf"), DATES[["when"]]), ValueError, r"column 'when' holds datetime64"),
    "dates, polars": (fit(mm.SVMRegressor(), pl.DataFrame({"a": ONE, "when": list(DATES["when"])})), ValueError, r"column 'when' holds Datetime"),
    "date, polars": (fit(mm.SVMRegressor(), pl.DataFrame({"when": [date(2026, 1, 1)] * 40})), ValueError, r"column 'when' holds Date;"),
    "durations, multi-label": (fit(mm.MultilabelSVMClassifier(), DATES[["when"]] - DATES[["when"]], np.ones((40, 1))), ValueError, r"'when' holds timedelta64"),
    "periods, ranking": (fit(mm.RankingSVM(), DATES.assign(when=DATES["when"].dt.to_period("D")), Y, groups=None), ValueError, r"'when' holds period"),
    "categories of dates": (fit(mm.SVMClassifier(), DATES[["when"]].astype("category")), ValueError, r"'when' holds datetime64"),
    "dates, Arrow": (fit(mm.SVMClassifier(), pa.Table.from_pandas(DATES)), ValueError, r"'when' holds timestamp"),
    "dates, array": (fit(mm.SVMClassifier(), DATES[["when"]].to_numpy()), ValueError, r"it holds datetime64"),
    "dates in predict": (lambda: mm.SVMClassifier(random_state=0).fit(X[:, :1], Y).predict(DATES[["when"]]), ValueError, r"'when' holds datetime64"),
    "dates, list": (fit(mm.SVMClassifier(), [[day] for day in DATES["when"].to_numpy()]), ValueError, r"it holds dates or times"),
    "None among labels": (fit(mm.SVMClassifier(), X, ["a", None] * 20), ValueError, r"y holds None, for sample 1: leave out"),
    "None among labels, bags": (fit(mm.LatentSVMClassifier(), BAGS, ["a", None] * 20), ValueError, r"y holds None, for sample 1"),
    "None among targets": (fit(mm.SVMRegressor(), X, [1.0] * 39 + [None]), ValueError, r"y holds None, for sample 39"),
    "mixed labels": (fit(mm.SVMClassifier(), X, [0, "a"] * 20), ValueError, r"all strings or all numbers"),
    "one text among numbers": (fit(mm.SVMClassifier(), X, [0, 1] * 19 + [0, "a"]), ValueError, r"all strings or all numbers"),
    "one number among texts": (fit(mm.SVMClassifier(), X, ["b", "a"] * 19 + ["a", 0]), ValueError, r"all strings or all numbers"),
    "a sample without a label": (fit(mm.SVMClassifier(), X[:2], [["a"], []]), ValueError, r"one class.*sample 1 has 0"),
    "scores that sum to one": (fit(mm.SVMClassifier(), X[:2], [[2.0, -1.0], [0.0, 1.0]]), ValueError, r"sample 0 has 2: for samples with several labels"),
    "columns that sum to one": (fit(mm.SVMClassifier(), X[:2], [[1, 1], [0, 0]]), ValueError, r"sample 0 has 2: for samples with several labels"),
    "NaT among durations": (fit(mm.SVMRegressor(), X, DAYS - DAYS[0]), ValueError, r"y holds NaT, for sample 1: leave out"),
    "lists of labels": (fit(mm.SVMClassifier(), X[:2], [["a", "b"], ["c"]]), ValueError, r"one class.*sample 0 has 2.*MultilabelSVMClassifier.*MultiLabelBinarizer"),
    "one-hot": (fit(mm.SVMClassifier(), X, np.eye(3)[Y3]), ValueError, r"one class.*shape is \(40, 3\).*\.argmax\(axis=1\)"),
    "one-hot list": (fit(mm.TopKSVMClassifier(), X, np.eye(3)[Y3].tolist()), ValueError, r"sample 0 has 3.*\.argmax\(axis=1\)"),
    "one-hot, sparse": (fit(mm.SVMClassifier(), X, sp.csr_array(np.eye(3)[Y3])), ValueError, r"one class.*\.argmax\(axis=1\)"),
    "indicators": (fit(mm.SVMClassifier(), X, YM), ValueError, r"one class.*shape is \(40, 2\): for samples with several labels use Multilabel"),
    "text as y": (fit(mm.SVMRegressor(), X, "abc"), ValueError, r"y is 'abc': give a list or array, one number for each sample"),
    "text as classes": (fit(mm.SVMClassifier(), X, "abc"), ValueError, r"y is 'abc': give a list or array, one class for each sample"),
    "column name as y": (fit(mm.OrdinalSVM(), TABLE, "label"), ValueError, r"y is 'label'"),
    "text as y, ranking": (fit(mm.RankingSVM(), X, "abc", groups=None), ValueError, r"y is 'abc'"),
    "NaT among targets": (fit(mm.SVMRegressor(), X, DAYS), ValueError, r"y holds NaT, for sample 1: leave out"),
    "NaT among classes": (fit(mm.SVMClassifier(), X, DAYS), ValueError, r"y holds NaT, for sample 1: leave out"),
    "NaT in a column": (fit(mm.SVMClassifier(), X, pd.Series(DAYS)), ValueError, r"y holds NaT, for sample 1"),
    "NaT among objects": (fit(mm.SVMClassifier(), X, pd.Series(DAYS).astype(object)), ValueError, r"y holds NaT, for sample 1"),
    "NA among texts": (fit(mm.SVMClassifier(), X, pd.Series(["a", pd.NA] * 20, dtype=object)), ValueError, r"y holds <NA>, for sample 1"),
    "dates as targets": (fit(mm.SVMRegressor(), X, DAYS[::2].repeat(2)), ValueError, r"y must be an array of numbers: it holds dates"),
    "complex weights": (fit(mm.SVMClassifier(), X, Y, sample_weight=ONE * (1 + 5j)), ValueError, r"sample_weight must be an array of numbers: it holds complex"),
    "complex weights of a source": (fit(mm.SVMClassifier(), mm.open_source([(X, Y, ONE * 1j)])), ValueError, r"block 0: the weights must be .*complex"),
    "text as outputs": (fit(mm.StructuredSVM(Chain()), LINES, "abc"), ValueError, r"y must be a sequence of samples; got str"),
    "complex costs": (fit(mm.SVMClassifier(cost=[[0, 1j], [1, 0]]), X, Y), ValueError, r"cost must be .*complex"),
    "huge kernel": (fit(mm.SVMClassifier(kernel="precomputed"), 1e200 * np.eye(40), Y), ValueError, r"precomputed kernel matrix is 1e\+200 in size.*divide"),
    "huge kernel beside the diagonal": (fit(mm.SVMClassifier(kernel="precomputed"), np.eye(40) - 1e200 * (1 - np.eye(40)), Y), ValueError, r"1e\+200 in size"),
    "huge kernel of labels": (fit(mm.MultilabelSVMClassifier(kernel="precomputed"), 1e300 * np.eye(40), YM), ValueError, r"1e\+300 in size"),
    "huge kernel function": (fit(mm.SVMClassifier(kernel=lambda A, B: 1e200 * A @ B.T), X, Y), ValueError, r"kernel function is \S+ in size"),
    "huge powers": (fit(mm.SVMClassifier(kernel="poly", degree=3, gamma=1.0), 1e60 * X, Y), ValueError, r"poly kernel is \S+ in size"),
    "lists of labels, bags": (fit(mm.LatentSVMClassifier(), BAGS[:2], [["a"], ["c", "b"]]), ValueError, r"sample 1 has 2.*MultiLabelBinarizer"),
    "labels, not lists": (fit(mm.MultilabelSVMClassifier(), X[:2], ["a", "b"]), ValueError, r"Lists of labels are taken"),
    "lists of targets": (fit(mm.SVMRegressor(), X[:2], [[1.0, 2.0], [1.0]]), ValueError, r"one number.*sample 0 has 2"),
    "dicts": (fit(mm.SVMClassifier(), [{"a": 1.0}, {"b": 1.0}], [0, 1]), ValueError, r"dictionaries.*DictVectorizer"),
    "dicts, multi-label": (fit(mm.MultilabelSVMClassifier(), [{"a": 1.0}, {"b": 1.0}], [[0], [1]]), ValueError, r"DictVectorizer"),
    "dicts, chain": (fit(mm.StructuredSVM(Chain()), [[{"a": 1.0}, {"b": 1.0}]], [[0, 1]]), ValueError, r"Sample 0 of X.*SequenceVectorizer"),
    "names, chain": (fit(mm.StructuredSVM(Chain()), [[["w=a"], ["w=b"]]], [[0, 1]]), ValueError, r"Sample 0 of X.*SequenceVectorizer"),
    "tokens, chain": (fit(mm.StructuredSVM(Chain()), [["the", "cat"]], [[0, 1]]), ValueError, r"holds texts, which maxmargin.SequenceV"),
    "sentences of dicts": (fit(mm.SVMClassifier(), [[{"a": 1.0}], [{"b": 1.0}]], [0, 1]), ValueError, r"SequenceVectorizer.*StructuredSVM"),
    "dicts, bags": (fit(mm.LatentSVMClassifier(), [[{"a": 1.0}]] * 2, [0, 1]), ValueError, r"Bag 0 of X.*DictVectorizer"),
    "ragged X": (fit(mm.SVMClassifier(), [[1.0, 2.0], [1.0]], [0, 1]), ValueError, r"rows must have one length, but row 0 has 2 and row 1 has 1"),
    "ragged array": (fit(mm.SVMRegressor(), np.array([[1.0, 2.0], [1.0]], object), [0, 1]), ValueError, r"row 0 has 2 and row 1 has 1"),
    "ragged bag": (fit(mm.LatentSVMClassifier(), [[[1.0, 2.0], [1.0]], [[1.0, 2.0]]], [0, 1]), ValueError, r"Bag 0.*row 1 has 1"),
    "ragged X in predict": (lambda: mm.SVMClassifier(random_state=0).fit(X, Y).predict([[1.0, 2.0, 3.0], [1.0]]), ValueError, r"row 1 has 1"),
    "ragged cost": (fit(mm.SVMClassifier(cost=[[0, 1], [1]]), X, Y), ValueError, r"cost.*row 1 has 1"),
    "ragged cost, chain": (fit(mm.StructuredSVM(Chain(cost=[[0, 1], [1]])), LINES, MARKS), ValueError, r"cost.*row 1 has 1"),
    "ragged weights": (fit(mm.SVMClassifier(), X[:2], [0, 1], sample_weight=[[1.0], [1.0, 2.0]]), ValueError, r"sample_weight.*row 1 has 2"),
    "ragged weights, chain": (fit(mm.StructuredSVM(Chain()), LINES, MARKS, sample_weight=[1, [1, 2], 1, 1]), ValueError, r"sample_weight.*row 0 is a single entry and row 1 has 2"),
    "cost of numbers": (fit(mm.SVMClassifier(cost={0: 1}), X, Y), ValueError, r"dict of dicts.*cost\[0\] is 1"),
    "cost of numbers, chain": (fit(mm.StructuredSVM(Chain(cost={0: 1})), LINES, MARKS), ValueError, r"dict of dicts.*cost\[0\] is 1"),
    "cost of a class unknown": (fit(mm.SVMClassifier(cost={"O": {1: 2.0}}), X, Y), ValueError, r"cost names 'O'.*classes 0, 1"),
    "cost of a guess unknown": (fit(mm.StructuredSVM(Chain(cost={0: {7: 2.0}})), LINES, MARKS), ValueError, r"cost names 7.*labels 0, 1"),
    "cost of a right answer": (fit(mm.SVMClassifier(cost={0: {0: 2.0}}), X, Y), ValueError, r"diagonal"),
    "cost of a label": (fit(mm.MultilabelSVMClassifier(cost={0: 1.0}), X, YM), ValueError, r"cost.*dictionary"),
    "Chain": (fit(mm.StructuredSVM(Chain), LINES, MARKS), TypeError, r"structure=Chain is a class.*Chain\(\)"),
    "Chain, latent": (fit(mm.LatentStructuredSVM(Hidden), LINES, MARKS), TypeError, r"structure=Hidden is a class.*Hidden\(\)"),
    "Chain, checked": (lambda: mm.check_structure(Chain, LINES, MARKS), TypeError, r"structure=Chain is a class"),
    "no structure, checked": (lambda: mm.check_structure("chain", LINES, MARKS), TypeError, r"must be a maxmargin.Structure"),
    "first_last_bias": (fit(mm.StructuredSVM(Chain(first_last_bias="maybe")), LINES, MARKS), ValueError, r"'first_last_bias' parameter of Chain must be an instance of 'bool'.* Got 'maybe'"),
    "normalize_loss": (fit(mm.StructuredSVM(Chain(normalize_loss="maybe")), LINES, MARKS), ValueError, r"'normalize_loss' parameter of Chain must be an instance of 'bool'"),
    "transitions": (fit(mm.StructuredSVM(Segmentation([1, 2], transitions="maybe")), LINES[:1], [[(0, 1), (1, 2)]]), ValueError, r"'transitions' parameter of Segmentation must be an instance of 'bool'"),
    "max_table": (fit(mm.StructuredSVM(Graph(edges=[(0, 1)], max_table="big")), LINES, MARKS), ValueError, r"'max_table' parameter of Graph must be an int"),
    "loss is None": (own("loss", None), ValueError, r"Own.loss must return a number.*sample 0 it returned None"),
    "loss is a string": (own("loss", "1.5"), ValueError, r"Own.loss must return a number.*sample 0 it returned '1.5'"),
    "loss of an oracle's output": (own("loss", [1.0, 2.0], 5), ValueError, r"Own.loss must return a number.*for sample \d it returned \[1.0, 2.0\]"),
    "feature is None": (own("joint_feature", None, 2), ValueError, r"Own.joint_feature must return a vector.*sample 2 it returned None"),
    "feature is a number": (own("joint_feature", 7), ValueError, r"Own.size says 6 weights, joint_feature has 1"),
    "oracle says None": (own("loss_augmented_decode", None), ValueError, r"Own.loss_augmented_decode returned None for sample \d"),
    "oracle says a string": (own("loss_augmented_decode", "b"), ValueError, r"Own.loss_augmented_decode returned 'b' for sample \d, with which joint_feature fails"),
    "oracle out of range": (own("loss_augmented_decode", 7), ValueError, r"Own.loss_augmented_decode returned 7 for sample \d.*out of bounds"),
    "decode says None": (own("decode", None, 2), ValueError, r"Own.decode returned None for sample 2"),
    "decode out of range": (own("decode", 7, 1), ValueError, r"Own.decode returned 7 for sample 1, with which joint_feature fails.*out of bounds"),
    "checked decode says None": (lambda: mm.check_structure(Own("decode", None), X[:2], Y[:2], outputs=[0, 1]), mm.StructureError, r"decode\(w, x\) of Own is wrong for sample 0: it returned None"),
    "checked loss is None": (lambda: mm.check_structure(Own("loss", None), X[:2], Y[:2]), mm.StructureError, r"loss.* is wrong for sample 0: it returned None"),
    "oracle without hidden part": (fit(mm.LatentStructuredSVM(Hidden(), init=[0, 0]), X[:2], Y[:2]), ValueError, r"pair \(y, z\); for sample \d it returned 1"),
    "risk is None": (lambda: mm.minimize(lambda w: None, 2), ValueError, r"risk must return \(value, subgradient\); at call 1 it returned NoneType"),
    "risk is a string": (lambda: mm.minimize(lambda w: "ab", 2), ValueError, r"at call 1 it returned str"),
    "solver of a risk": (lambda: mm.minimize(lambda w: (0.0, w), 2, solver="dual_coordinate"), TypeError, r"solver=Bundle\(\)"),
    "seed": (lambda: mm.solve(mm.ExplicitProblem(X, ONE), random_state="a"), ValueError, r"'random_state' parameter of solve must be an int"),
    "C is a truth": (lambda: mm.solve(mm.ExplicitProblem(X, ONE), C=True), ValueError, r"'C' parameter of solve must be a float in the range \(0.*Got True"),
    "ragged rows": (lambda: mm.ExplicitProblem([[1.0, 2.0], [1.0]], [1.0, 1.0]), ValueError, r"row 1 has 1"),
    "mask": (fit(mm.MultilabelSVMClassifier(), X, YM, mask=[[1], [0, 1]]), ValueError, r"mask.*row 1 has 2"),
    "ridge": (lambda: mm.label_correlation(YM, ridge=[1.0, 2.0]), ValueError, r"ridge must be a number"),
    "correlation of texts": (lambda: mm.label_correlation(["a", "b"]), ValueError, r"Lists of labels are taken"),
    "signatures by name": (lambda: mm.prior_from_signatures({"cat": [0, 1]}), ValueError, r"signatures.*dictionary"),
    "ragged attributes": (fit(mm.ZeroShotClassifier(mm.MultilabelSVMClassifier(), [[0, 1], [1, 0]]), X[:2], [[0, 1], [1]]), ValueError, r"attributes.*row 1 has 1"),
    "ragged vector": (lambda: mm.projections.simplex([[1.0], [1.0, 2.0]]), ValueError, r"a must be one-dimensional"),
    "ks": (lambda: mm.TopKSVMClassifier().topk_path(X, Y3, 2), ValueError, r"ks must be a list"),
    "block": (fit(mm.SVMClassifier(solver=mm.FrankWolfe(block="no")), X, Y3), ValueError, r"'block' parameter of FrankWolfe must be an instance of 'bool'"),
    "verify": (fit(mm.SVMClassifier(solver=mm.OnlineDual(verify="no")), X, Y), ValueError, r"'verify' parameter of OnlineDual must be an instance of 'bool'"),
    "ragged init": (fit(mm.LatentSVMClassifier(init=[[0], [0, 1]]), BAGS, Y), ValueError, r"init must be one of"),
    "arrays as a source": (lambda: mm.open_source((X, Y)).scan(), ValueError, r"block 0 must be \(X, y\).*\[\(X, y\)\]"),
    "None among labels of a source": (lambda: mm.open_source([(X[:2], ["a", "b"]), (X[:2], ["a", None])]).scan(), ValueError, r"block 1: the label of its row 1 is None"),
    "frames in another order": (lambda: mm.open_source([(TABLE[["a", "b"]], Y), (TABLE[["b", "a"]], Y)]).scan(), ValueError, r"Column 0 of .*block 1 is 'b'; before it was 'a'"),
    "half a block": (fit(mm.StructuredSVM(Chain()), mm.Samples([(LINES,)])), ValueError, r"got a tuple of 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_one_sentence_with_the_way_out(name):
    call, error, words = CALLS[name]
    with warnings.catch_warnings(), pytest.raises(error, match=words) as caught:
        warnings.simplefilter("ignore", ConvergenceWarning)  # of a fit before the call in question
        call()
    assert "\n" not in str(caught.value)


def test_names_in_messages_are_short_and_plain():
    """NumPy's own texts are shown as Python's; of 500 classes the first ten."""
    names = np.array([f"c{k:03}" for k in range(500)])
    model = mm.SVMClassifier(random_state=0, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one pass, and of so many classes
        model.partial_fit(X, names[:40], classes=names)
    shown = r"'c000', 'c001', .* 'c009', \.\.\. \(500 in all\)"
    with pytest.raises(ValueError, match=f"Sample 1 has the label 'd', which is not among the classes {shown}"):
        model.partial_fit(X[:2], np.array(["c000", "d"]))
    with pytest.raises(ValueError, match=f"must be those of the first call of partial_fit, or of fit, {shown}; got") as caught:
        model.partial_fit(X[:2], names[:2], classes=names[:400])
    assert len(str(caught.value)) < 500
    for kind in (mm.SVMClassifier, mm.OrdinalSVM, mm.LatentSVMClassifier):
        with pytest.raises(ValueError, match="only one class: 'a'"):
            kind().fit(BAGS if kind is mm.LatentSVMClassifier else X, np.full(40, "a"))


def test_what_messages_show_of_long_things():
    assert mistakes.shown(range(10)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"
    assert mistakes.shown(range(11)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... (11 in all)"
    assert mistakes.quoted("x" * 300) == f"'{'x' * 199}..." and mistakes.quoted(np.float64(0.5)) == "0.5"
    assert mistakes.first_line(ValueError("\nthis is wrong.\nand this")) == "this is wrong"
    assert len(mistakes.first_line(ValueError("x" * 300))) == 200 and mistakes.first_line(KeyError()) == "KeyError"
    assert mistakes.nearest("INCOME", ["age", "Income", 3]) == " (nearest: 'Income')" and mistakes.nearest("q", ["age"]) == ""


def test_dictionaries_of_scipy_are_matrices():
    """DOK matrices are dictionaries, too."""
    for kind in (sp.dok_matrix, sp.dok_array):
        mistakes.check_table(kind(X))
        mistakes.check_target(kind(Y[:, None]), True)
        assert mistakes.uneven(kind(X)) is None


def test_pairs_that_a_dict_of_costs_leaves_out_cost_one():
    names = np.array(["x", "y", "z"])
    parameters = {"C": 0.5, "tol": 1e-8, "random_state": 0}
    table = [[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    by_name, by_table = (mm.SVMClassifier(cost=cost, **parameters).fit(X, names[Y3]) for cost in ({"x": {"z": 3.0}}, table))
    assert by_name.certificate_.primal == by_table.certificate_.primal
    assert by_name.certificate_.primal != mm.SVMClassifier(**parameters).fit(X, names[Y3]).certificate_.primal
    for structure in (Chain(cost={1: {0: 3.0}}), Segmentation([1, 2], cost={1: {0: 3.0}}), Multiclass(cost={1: {0: 3.0}})):
        outputs = {Chain: MARKS, Segmentation: [[(0, 1), (1, 2)]] * 4, Multiclass: [0, 1, 0, 1]}[type(structure)]
        structure.size([line[0] for line in LINES] if isinstance(structure, Multiclass) else LINES, outputs)
        np.testing.assert_array_equal(structure.cost_, [[0.0, 1.0], [3.0, 0.0]])
    full = {a: {b: float(a != b) for b in "vxyz"} for a in "vxyz"}  # a fold may lack a class
    mm.SVMClassifier(cost=full, random_state=0).fit(X, names[Y3])


# ---- columns and rows of files -----------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path, monkeypatch):
    """X with column names, once in another order; the second column is larger than the others."""
    frame = TABLE.assign(b=5.0 * TABLE["b"], city=["x", "y"] * 20)
    frame[["a", "b", "c", "label"]].to_parquet(tmp_path / "one.parquet")
    frame[["b", "a", "c", "label"]].to_parquet(tmp_path / "other.parquet")
    frame.to_parquet(tmp_path / "words.parquet")
    monkeypatch.chdir(tmp_path)
    return frame


def test_columns_in_another_order_are_refused(files):
    one, other = (mm.open_source(f"{name}.parquet", label="label") for name in ("one", "other"))
    model = mm.SVMClassifier(random_state=0).fit(one)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    framed = mm.SVMClassifier(random_state=0).fit(files[["a", "b", "c"]], Y)
    words = r"Column 0 of other.parquet is 'b'; the model was fitted with 'a'.*features=\[\.\.\.\]"
    for fitted in (model, framed):
        with pytest.raises(ValueError, match=words):
            fitted.predict(other)
        with pytest.raises(ValueError, match=words):
            fitted.score(other)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(files[["b", "a", "c"]])
    with pytest.raises(ValueError, match=r"Column 0 of other.parquet is 'b'; in one.parquet it is 'a'"):
        mm.SVMClassifier().fit(mm.open_source(["one.parquet", "other.parquet"], label="label"))
    turned = mm.open_source("other.parquet", label="label", features=["a", "b", "c"])
    np.testing.assert_array_equal(model.predict(turned), model.predict(files[["a", "b", "c"]]))
    scores = model.decision_function(files[["a", "b", "c"]])
    np.testing.assert_allclose(model.decision_function(one), scores, rtol=1e-12, atol=1e-13)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]


def test_columns_of_lists_have_names_too(tmp_path):
    rows = pa.array(list(X[:, :2]))
    pq.write_table(pa.table({"v": rows, "c": X[:, 2], "label": Y}), tmp_path / "one.parquet")
    pq.write_table(pa.table({"c": X[:, 2], "v": rows, "label": Y}), tmp_path / "other.parquet")
    one, other = (mm.open_source(tmp_path / f"{name}.parquet", label="label") for name in ("one", "other"))
    assert one.feature_names == ["v[0]", "v[1]", "c"]
    model = mm.SVMClassifier(random_state=0).fit(one)
    with pytest.raises(ValueError, match=r"Column 0 of .* is 'c'; the model was fitted with 'v\[0\]'"):
        model.predict(other)


def test_lists_that_change_their_lengths_are_refused(tmp_path):
    v, w = [[1.0]] * 20 + [[1.0, 2.0]] * 20, [[1.0, 2.0]] * 20 + [[1.0]] * 20
    pq.write_table(pa.table({"v": v, "w": w, "label": Y}), tmp_path / "x.parquet", row_group_size=20)
    with pytest.raises(ValueError, match="lists of column 'v' must have one length; they have 1 and 2"):
        mm.open_source(tmp_path / "x.parquet", label="label", block_size=1e-4).scan()


def test_fields_of_a_structured_array_have_names(tmp_path):
    for name, fields in (("one", ["a", "b"]), ("other", ["b", "a"])):
        np.save(tmp_path / f"{name}.npy", TABLE[[*fields, "label"]].to_records(index=False))
    one, other = (mm.open_source(tmp_path / f"{name}.npy", label="label") for name in ("one", "other"))
    with pytest.raises(ValueError, match=r"Column 0 of .* is 'b'; the model was fitted with 'a'"):
        mm.SVMClassifier(random_state=0).fit(one).predict(other)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"label": "label"}, r"column 'city' .*not (large_)?string.*features=\['a', 'b', 'c'\], or label='city'"),
        ({"label": "label", "features": 3}, r"features must be a list of names"),
        ({"label": "label", "weight": [1.0]}, r"weight must be the name of a column"),
    ],
)
def test_columns_that_are_refused(files, more, words):
    with pytest.raises(ValueError, match=words):
        mm.open_source("words.parquet", **more)


def written(folder: Path, suffix: str, Z: np.ndarray) -> dict:
    """Write X and labels in this format, in several blocks; returns the arguments of `open_source`."""
    name = folder / f"x{suffix}"
    np.save(folder / "y.npy", Y)
    if suffix == ".npy":
        np.save(name, Z)
    elif suffix == ".npz":
        sp.save_npz(name, sp.csr_matrix(Z), compressed=False)
    elif suffix == ".svm":
        lines = (" ".join(f"{j + 1}:{v}" for j, v in enumerate(row)) for row in Z)
        name.write_text("".join(f"{label} {line}\n" for label, line in zip(Y, lines, strict=True)))
    else:
        pq.write_table(pa.table({"a": Z[:, 0], "b": Z[:, 1], "c": Z[:, 2], "label": Y}), name, row_group_size=7)
    more = {".npy": {"label": folder / "y.npy"}, ".npz": {"label": folder / "y.npy"}, ".parquet": {"label": "label"}}
    return {"path_or_paths": name, "block_size": 2e-4, **more.get(suffix, {})}


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".svm", ".parquet"])
def test_numbers_in_later_blocks_must_be_finite(tmp_path, suffix, value):
    spoiled = X.copy()
    spoiled[29, 1] = value
    place = "line 30, column" if suffix == ".svm" else "row 29: X must be finite"
    with pytest.raises(ValueError, match=place):
        mm.open_source(**written(tmp_path, suffix, spoiled)).scan()
    source = mm.open_source(**written(tmp_path, suffix, X))
    assert sum(block.rows.size < 29 for block in source) > 1  # there are later blocks


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_blocks_of_ones_own_source_must_be_finite(kind, value):
    spoiled = X.copy()
    spoiled[29, 1] = value

    class Plain:
        """A source that is not one of this package, which checks nothing."""

        n_rows, n_features, multilabel, dtype = 40, 3, False, np.dtype(float)

        def scan(self):
            return 40, 3, np.array([0, 1])

        def check_unchanged(self): ...

        def blocks(self, seed=None, *, shuffle_rows=True):
            for part in (slice(20, 40), slice(0, 20)):
                yield Block(np.arange(40)[part], kind(spoiled[part]), Y[part])

    with pytest.raises(ValueError, match="Row 29 of the source holds NaN or infinity"):
        mm.SVMClassifier(random_state=0).fit(Plain())


@pytest.mark.parametrize("column", ["a", "label", "v"])
def test_nulls_in_later_blocks(tmp_path, column):
    columns = {"a": X[:, 0].tolist(), "v": X[:, 1:].tolist(), "label": Y.tolist()}
    if column == "v":
        columns["v"][29][1] = None
    else:
        columns[column][29] = None
    pq.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=7)
    with pytest.raises(ValueError, match=f"row 29: .*column '{column}'.* \\(null\\)"):
        mm.open_source(tmp_path / "x.parquet", label="label", block_size=2e-4).scan()


def test_balanced_classes_of_a_source_with_weights():
    weight, y = rng.integers(1, 5, 40).astype(float), (np.arange(40) % 3 == 0).astype(int)
    parameters = {"class_weight": "balanced", "tol": 1e-6, "random_state": 0}
    source = mm.open_source([(X[:15], y[:15], weight[:15]), (X[15:], y[15:], weight[15:])])
    found = mm.SVMClassifier(**parameters).fit(source)
    expected = mm.SVMClassifier(**parameters).fit(X, y, sample_weight=weight)
    assert found.certificate_.primal == pytest.approx(expected.certificate_.primal, rel=3e-6)
    assert found.certificate_.primal != pytest.approx(mm.SVMClassifier(**parameters).fit(X, y).certificate_.primal, rel=1e-2)
