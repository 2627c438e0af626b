"""`standardize=True`, transformers on sources, and the warning that names columns."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, Normalizer, StandardScaler

import maxmargin as mm
from maxmargin.estimators.scaling import scaling_of, scaling_of_source
from maxmargin.problems import blocked

rng = np.random.default_rng(3)
N = 60
X = rng.normal(size=(N, 4)) * [1.0, 1e3, 1e-2, 5.0] + [0.0, 1e3, 0.01, -3.0]
SCORES = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.normal(size=(4, 3)) + 0.3 * rng.normal(size=(N, 3))
LABEL, MANY, WEIGHT = SCORES.argmax(axis=1), (SCORES > 0.5).astype(int), rng.integers(0, 3, N).astype(float)
MODELS = {
    "two classes": (mm.SVMClassifier(C=0.3), LABEL == 0),
    "three classes": (mm.SVMClassifier(C=0.3, class_weight="balanced"), LABEL),
    "against the rest": (mm.SVMClassifier(C=0.3, multi_class="ovr", loss="squared_hinge"), LABEL),
    "regression": (mm.SVMRegressor(C=0.3), SCORES[:, 0]),
    "top-2": (mm.TopKSVMClassifier(C=0.3, k=2), LABEL),
    "labels": (mm.MultilabelSVMClassifier(C=0.3, loss="hinge"), MANY),
}


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
@pytest.mark.parametrize("intercept", [2.0, None], ids=["intercept", "no intercept"])
@pytest.mark.parametrize("name", MODELS)
def test_it_is_a_scaler_before_the_model(name, intercept, weight):
    """The same numbers as StandardScaler and the model, and predictions of X as it is."""
    model, y = MODELS[name]
    setting = {"fit_intercept": intercept is not None, "intercept_scaling": intercept or 1.0, "random_state": 0, "tol": 1e-3}
    model = clone(model).set_params(**setting)
    scaler = StandardScaler(with_mean=intercept is not None).fit(X, sample_weight=weight)
    plain = clone(model).fit(scaler.transform(X), y, sample_weight=weight)
    found = clone(model).set_params(standardize=True).fit(X, y, sample_weight=weight)
    assert found.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-9)
    np.testing.assert_allclose(found.coef_ * scaler.scale_, plain.coef_, rtol=1e-9, atol=1e-12)
    wanted = (
        plain.decision_function(scaler.transform(X))
        if hasattr(plain, "decision_function")
        else plain.predict(scaler.transform(X))
    )
    scores = found.decision_function(X) if hasattr(found, "decision_function") else found.predict(X)
    np.testing.assert_allclose(scores, wanted, rtol=1e-7, atol=1e-7)
    if intercept is None:
        assert not np.any(found.intercept_)


def test_integer_weights_are_repetitions():
    count = WEIGHT.astype(int)
    model = mm.SVMRegressor(C=0.3, standardize=True, tol=1e-9, random_state=0)
    weighted = clone(model).fit(X, SCORES[:, 0], sample_weight=WEIGHT)
    repeated = clone(model).fit(np.repeat(X, count, axis=0), np.repeat(SCORES[:, 0], count))
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-8)


def test_sparse_columns_are_not_centred():
    sparse = sp.csr_array(np.where(rng.random(X.shape) < 0.4, X, 0.0))
    scaler = StandardScaler(with_mean=False).fit(sparse)
    plain = mm.SVMClassifier(random_state=0).fit(scaler.transform(sparse), LABEL)
    found = mm.SVMClassifier(random_state=0, standardize=True).fit(sparse, LABEL)
    assert found.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-9)
    np.testing.assert_allclose(found.coef_ * scaler.scale_, plain.coef_, rtol=1e-12)
    np.testing.assert_array_equal(found.intercept_, plain.intercept_)


def test_what_is_constant_stays_and_float32_is_kept():
    constant = np.column_stack([X, np.full(N, 7.0)]).astype(np.float32)
    model = mm.SVMClassifier(random_state=0, standardize=True).fit(constant, LABEL)
    assert np.all(model.coef_[:, -1] == 0.0) and model.decision_function(constant).dtype == np.float32


def test_paths_and_signs():
    path = mm.SVMRegressor(standardize=True, positive=True, random_state=0).regularization_path(X, SCORES[:, 0], [0.1, 1.0])
    assert all(np.all(model.coef_ >= 0.0) and model.certificate_.converged for model in path)


def blocks_of(X, y, size=13, weight=None):
    parts = [slice(k, k + size) for k in range(0, X.shape[0], size)]
    return mm.open_source([(X[part], y[part], *([] if weight is None else [weight[part]])) for part in parts])


@pytest.mark.parametrize("name", ["two classes", "regression", "labels"])
def test_sources_are_scaled_by_a_pass(name):
    model, y = MODELS[name]
    y = y.astype(int) if y.dtype == bool else y
    setting = {"standardize": True, "random_state": 0, "tol": 1e-4}
    inside = clone(model).set_params(**setting).fit(X, y)
    source = mm.open_source(
        [(X[k : k + 13], y[k : k + 13]) for k in range(0, N, 13)], **({"multilabel": True} if y.ndim == 2 else {})
    )
    outside = clone(model).set_params(**setting).fit(source)
    assert outside.certificate_.primal == pytest.approx(inside.certificate_.primal, rel=3e-4)
    np.testing.assert_allclose(outside.coef_, inside.coef_, rtol=0.05, atol=0.05 * np.abs(inside.coef_).max())


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_sources_are_scaled_as_rows_in_memory(form, intercept):
    """Weights count; sparse columns are not centred, nor any without an intercept."""
    table = form(np.where(np.abs(SCORES[:, [0]]) < 1.0, X, 0.0))
    inside = scaling_of(table, WEIGHT, float(intercept))
    outside, mapped = scaling_of_source(blocks_of(table, LABEL, weight=WEIGHT), float(intercept))
    np.testing.assert_allclose(outside.scaler.scale_, inside.scaler.scale_)
    first = next(iter(mapped.blocks())).X
    expected = inside.applied(table)[: first.shape[0]]
    assert sp.issparse(first) == sp.issparse(table)
    np.testing.assert_allclose(*(X.toarray() if sp.issparse(X) else X for X in (first, expected)), atol=1e-12)
    np.testing.assert_allclose(outside.back(np.arange(5.0)), inside.back(np.arange(5.0)))


def test_sources_through_transformers():
    source = blocks_of(X, LABEL)
    given = StandardScaler()
    mapped = source.map(given)
    np.testing.assert_allclose(mapped.transformer.mean_, X.mean(axis=0))
    assert not hasattr(given, "mean_") and blocks_of(X.astype(np.float32), LABEL).map(StandardScaler()).dtype == np.float32
    assert mapped.n_rows == N and mapped.n_features == 4 and mapped.dtype == np.float64
    whole = np.vstack([block.X for block in mapped.blocks()])
    np.testing.assert_allclose(whole, StandardScaler().fit_transform(X))
    shuffled = sorted(block.rows[0] for block in mapped.blocks(seed=1, shuffle_rows=False))
    assert shuffled == [0, 13, 26, 39, 52]
    twice = mapped.map(Normalizer())  # without state, on top of another
    np.testing.assert_allclose(np.linalg.norm(np.vstack([block.X for block in twice]), axis=1), 1.0)
    fitted = PCA(2).fit(X)  # has learned already
    assert source.map(fitted).transformer is fitted and source.map(fitted).n_features == 2
    with pytest.raises(TypeError, match=r"A source needs a transformer, .* a FunctionTransformer\.$"):
        source.map(np.log1p)
    with pytest.raises(TypeError, match="PCA has no partial_fit, so that it cannot learn from a source"):
        source.map(PCA(2))
    with pytest.raises(ValueError, match=r"FunctionTransformer made \(1, 4\) of \d+ rows"):
        list(source.map(FunctionTransformer(lambda block: block[:1])).blocks())
    with pytest.raises(TypeError, match=r"is no array.*BlockTransformer"):
        StandardScaler().fit(source)


def test_sources_through_pipelines_of_transformers():
    source = blocks_of(X, LABEL)
    given = make_pipeline(StandardScaler(), "passthrough", IncrementalPCA(3), Normalizer())
    mapped = source.map(given)
    expected = make_pipeline(StandardScaler(), IncrementalPCA(3, batch_size=13), Normalizer()).fit_transform(X)
    np.testing.assert_allclose(np.vstack([block.X for block in mapped.blocks()]), expected, atol=1e-9)
    np.testing.assert_allclose(mapped.transformer.transform(X), expected, atol=1e-9)
    assert not hasattr(given[0], "mean_")  # a copy has learned
    fitted = clone(given).fit(X)
    assert source.map(fitted).transformer is fitted
    half = make_pipeline(PCA(2).fit(X), StandardScaler())
    assert source.map(half).transformer[0] is half[0] and source.map(half).n_features == 2


def test_pipelines_that_cannot_learn_from_a_source_are_refused_before_it_is_read():
    read = []

    class Counted:
        def __iter__(self):
            read.append(True)
            yield X, LABEL

    source = mm.open_source(Counted())
    for steps in ([PCA(2)], [PCA(2), Normalizer()], [StandardScaler(), make_pipeline(PCA(2))]):
        with pytest.raises(TypeError, match=r"The step 'pca' of the pipeline, PCA, has no partial_fit.*Fit it to rows in memory"):
            source.map(make_pipeline(*steps))
    with pytest.raises(TypeError, match="The step 'svmclassifier' of the pipeline, SVMClassifier, is no transformer: map"):
        source.map(make_pipeline(StandardScaler(), mm.SVMClassifier()))
    assert not read


def test_pipelines_over_sources():
    source = blocks_of(X, LABEL)
    pipeline = make_pipeline(mm.BlockTransformer(StandardScaler()), mm.SVMClassifier(C=0.3, tol=1e-5, random_state=0))
    outside, inside = clone(pipeline).fit(source), clone(pipeline).fit(X, LABEL)
    assert outside[-1].certificate_.primal == pytest.approx(inside[-1].certificate_.primal, rel=2e-5)
    assert outside.score(source) == outside.score(X, LABEL) > 0.8
    np.testing.assert_array_equal(outside.predict(source), outside.predict(X))
    scaled = make_pipeline(mm.BlockTransformer(MaxAbsScaler().fit(X)), mm.SVMClassifier(random_state=0)).fit(source)
    assert scaled.score(source) == scaled.score(X, LABEL)


def test_what_does_not_go_together():
    with pytest.raises(ValueError, match="standardize=True needs all data at once"):
        mm.SVMClassifier(standardize=True).partial_fit(X, LABEL, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="standardize=True needs all data at once"):
        mm.MultilabelSVMClassifier(standardize=True).partial_fit(X, MANY)
    with pytest.raises(ValueError, match="standardize=True is for linear models"):
        mm.MultilabelSVMClassifier(standardize=True, kernel="rbf").fit(X, MANY)
    with pytest.raises(ValueError, match="the variance of column 1 of X overflows"):
        mm.SVMRegressor(standardize=True).fit(X * [1.0, 1e200, 1.0, 1.0], SCORES[:, 0])


def test_the_warning_names_columns():
    frame = pd.DataFrame(X * [1.0, 1e6, 1.0, 1.0], columns=["age", "income", "rate", "size"])
    with pytest.warns(
        ConvergenceWarning, match=r"'income' is the largest, 'rate' the smallest\): scale them \(standardize=True\)"
    ):
        mm.SVMRegressor(C=1e3, max_iter=2, random_state=0).fit(frame, SCORES[:, 0])
    with pytest.warns(ConvergenceWarning, match="column 1 is the largest, column 2 the smallest"):
        mm.SVMRegressor(C=1e3, max_iter=2, random_state=0).fit(frame.to_numpy(), SCORES[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mm.SVMRegressor(standardize=True, random_state=0).fit(frame, SCORES[:, 0])


def test_the_warning_names_columns_of_sources(tmp_path, monkeypatch):
    large, y = X * [1.0, 1e6, 1.0, 1.0], SCORES[:, 0]
    pd.DataFrame(large, columns=["age", "income", "rate", "size"]).assign(y=y).to_csv(tmp_path / "people.csv", index=False)
    model = mm.SVMRegressor(C=1e3, max_iter=2, random_state=0)
    factor = np.abs(large).max(axis=0)
    sizes = f"by a factor of {factor[1] / factor[2]:.0e} "
    with pytest.warns(ConvergenceWarning) as told:
        model.fit(mm.open_source(tmp_path / "people.csv", label="y"))
    assert f"{sizes}('income' is the largest, 'rate' the smallest): scale them (standardize=True)" in str(told[0].message)
    for table in (large, sp.csr_array(large)):
        with pytest.warns(ConvergenceWarning) as told:
            model.fit(blocks_of(table, y))
        assert f"{sizes}(column 1 is the largest, column 2 the smallest)" in str(told[0].message)
    monkeypatch.setattr(blocked, "LOOKED_AT", 20)
    with pytest.warns(ConvergenceWarning, match=r"in the first 26 rows \(column 1 is the largest, column 2 the smallest\)"):
        model.fit(blocks_of(large, y))
