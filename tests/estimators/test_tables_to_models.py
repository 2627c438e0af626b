"""From tables with columns of categories to models: the optimum is that of the same features in memory, and names are checked."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from helpers.refusals import refuse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder

import maxmargin as mm

N = 240
rng = np.random.default_rng(1)
FRAME = pd.DataFrame(
    {
        "city": rng.choice(["u", "v", "w x"], N),
        "kind": pd.Categorical(rng.choice(["p", "q"], N)),
        "size": rng.standard_normal(N).round(3),
    }
)
SCORE = FRAME["size"] + 1.5 * (FRAME.city == "u") - (FRAME.kind == "q") + 0.5 * rng.standard_normal(N)
DATA = FRAME.assign(y=np.where(SCORE > 0, 1, -1))
MODEL = mm.SVMClassifier(tol=1e-6, random_state=0)


def folder_of(tmp_path, data=DATA):
    (tmp_path / "d").mkdir(exist_ok=True)
    for k in range(3):
        data.iloc[k::3].to_parquet(tmp_path / "d" / f"{k}.parquet", index=False)
    return tmp_path / "d"


def csv_of(path, data=DATA):
    data.to_csv(path, index=False)
    return path


def opened(path, **options):
    return mm.open_source(path, label="y", categorical="onehot", **options)


@pytest.fixture
def fitted(tmp_path):
    source = opened(csv_of(tmp_path / "x.csv"))
    return source, clone(MODEL).fit(source)


def test_a_folder_a_csv_file_and_a_column_transformer_have_one_optimum(tmp_path):
    encoder = ColumnTransformer(
        [("c", OneHotEncoder(), ["city", "kind"])], remainder="passthrough", verbose_feature_names_out=False
    )
    X = sp.csr_matrix(encoder.fit_transform(FRAME))
    known = clone(MODEL).fit(X, DATA.y)
    for path in (folder_of(tmp_path), csv_of(tmp_path / "x.csv")):
        found = clone(MODEL).fit(opened(path))
        assert found.certificate_.converged and found.certificate_.verified
        assert found.certificate_.primal >= known.certificate_.dual and known.certificate_.primal >= found.certificate_.dual
        np.testing.assert_allclose(found.coef_, known.coef_, atol=5e-3)
        assert found.feature_names_in_.tolist() == encoder.get_feature_names_out().tolist()
        assert found.encoding_.names == ["city", "kind", "size"]
        expected = known.predict(X)
        np.testing.assert_array_equal(found.predict(FRAME), expected)  # the columns of the table, in memory
        np.testing.assert_array_equal(found.predict(pl.from_pandas(FRAME)), expected)
        np.testing.assert_array_equal(found.predict(opened(csv_of(tmp_path / "y.csv"))), expected)
        assert found.score(opened(path)) == pytest.approx(np.mean(expected == DATA.y))


def test_names_are_checked_at_predict(fitted, tmp_path):
    _, model = fitted
    swapped = csv_of(tmp_path / "s.csv", DATA[["kind", "city", "size", "y"]])
    refuse(lambda: model.predict(opened(swapped)), ValueError, "s.csv", "'kind'", "'city'", "order")
    more = csv_of(tmp_path / "m.csv", DATA.assign(z=1.0))
    refuse(lambda: model.predict(opened(more)), ValueError, "m.csv", "unexpected: 'z'", "features")
    less = csv_of(tmp_path / "l.csv", DATA.drop(columns="kind"))
    refuse(lambda: model.predict(opened(less)), ValueError, "l.csv", "missing: 'kind'")
    text = csv_of(tmp_path / "t.csv", DATA.assign(size="a"))
    refuse(lambda: model.predict(opened(text)), ValueError, "'size'", "number")
    refuse(lambda: model.predict(FRAME.drop(columns="kind")), ValueError, "X", "missing: 'kind'")
    refuse(lambda: model.predict(FRAME[["kind", "city", "size"]]), ValueError, "X", "order")
    refuse(
        lambda: model.predict(FRAME.assign(size=FRAME["size"].where(FRAME["size"] > 0))), ValueError, "X, row", "'size'", "empty"
    )
    chosen = opened(more, features=["city", "kind", "size"])
    np.testing.assert_array_equal(model.predict(chosen), model.predict(FRAME))


def test_categories_first_seen_at_predict(fitted, tmp_path):
    _, model = fitted
    late = DATA.assign(city=np.where(np.arange(N) == 7, "new", DATA.city))
    path = csv_of(tmp_path / "late.csv", late)
    refuse(lambda: model.predict(opened(path)), ValueError, "late.csv", "line 9", "'city'", "'new'", "ignore")
    refuse(lambda: model.predict(late.drop(columns="y")), ValueError, "X, row 7", "'new'")
    lenient = clone(MODEL).fit(opened(tmp_path / "x.csv", handle_unknown="ignore"))
    scores = lenient.decision_function(opened(path))
    np.testing.assert_allclose(scores, lenient.decision_function(late.drop(columns="y")))
    size, kind = FRAME["size"][7], FRAME["kind"][7]
    by_name = dict(zip(lenient.feature_names_in_, lenient.coef_[0]))
    assert scores[7] == pytest.approx(size * by_name["size"] + by_name[f"kind_{kind}"] + lenient.intercept_[0])


def test_files_scaling_maps_folds_and_a_new_fit(fitted, tmp_path):
    source, model = fitted
    mm.save(model, tmp_path / "m.safetensors")
    loaded = mm.load(tmp_path / "m.safetensors")
    assert loaded.encoding_ == model.encoding_
    np.testing.assert_array_equal(loaded.predict(FRAME), model.predict(FRAME))
    scaled = mm.SVMClassifier(standardize=True, random_state=0).fit(source)
    assert scaled.score(source) > 0.75 and scaled.encoding_ == model.encoding_
    fewer = opened(csv_of(tmp_path / "fewer.csv", DATA[DATA.city != "u"]))  # other categories of its own
    piped = make_pipeline(mm.BlockTransformer(MaxAbsScaler()), mm.SVMClassifier(random_state=0)).fit(source)
    mapped = mm.SVMClassifier(random_state=0).fit(source.map(MaxAbsScaler()))
    for found in (piped, mapped):
        answers = found.predict(fewer if found is piped else fewer.encoded(model.encoding_).map(piped[0].transformer_))
        np.testing.assert_array_equal(
            answers, found.predict(source if found is piped else source.map(piped[0].transformer_))[DATA.city != "u"]
        )
    searched = mm.SVMClassifierCV(Cs=[0.1, 1.0], cv=3, random_state=0).fit(source)
    assert searched.encoding_ == model.encoding_ and searched.predict(FRAME).shape == (N,)
    train, test = source.train_test_split(0.3, seed=1)
    assert clone(MODEL).fit(train).score(test) > 0.7
    model.fit(np.eye(2), [0, 1])
    assert not hasattr(model, "encoding_") and not hasattr(model, "feature_names_in_")


def test_regression_and_several_labels(tmp_path):
    path = csv_of(tmp_path / "x.csv", FRAME.assign(y=SCORE.round(4), a=(SCORE > 0).astype(int), b=(SCORE > 1).astype(int)))
    options = {"features": ["city", "kind", "size"], "categorical": "onehot"}
    model = mm.SVMRegressor(C=1.0, random_state=0).fit(mm.open_source(path, label="y", **options))
    assert model.score(mm.open_source(path, label="y", **options)) > 0.6
    np.testing.assert_allclose(model.predict(FRAME), model.predict(mm.open_source(path, **options)))
    labels = mm.open_source(path, label=["a", "b"], **options)
    several = mm.MultilabelSVMClassifier(random_state=0).fit(labels)
    assert several.encoding_.names == ["city", "kind", "size"]
    assert several.predict(labels).shape == (N, 2) == several.predict(FRAME).shape


# ---- ranking -------------------------------------------------------------------------------------------------


def test_groups_of_a_source_are_those_of_a_ranking(tmp_path):
    X = rng.standard_normal((60, 4)).round(4)
    y, groups, weight = rng.integers(0, 3, 60), rng.permutation(60) % 7, rng.integers(1, 3, 60)  # groups lie anywhere
    lines = [f"{y[i]} qid:{groups[i]} " + " ".join(f"{j + 1}:{float(X[i, j])!r}" for j in range(4)) for i in range(60)]
    text = tmp_path / "x.svm"
    text.write_text("\n".join(lines) + "\n")
    np.save(tmp_path / "w.npy", weight)
    table = pd.DataFrame(X, columns=list("abcd")).assign(y=y, q=[f"g{g}" for g in groups], w=weight)
    known = mm.RankingSVM(tol=1e-6).fit(X, y, weight, groups=groups)
    sources = [
        mm.open_source(text, weight=tmp_path / "w.npy", block_size=1e-3),
        mm.open_source(text, weight=tmp_path / "w.npy", block_size=1e-3, cache=True),
        mm.open_source(text, weight=tmp_path / "w.npy", block_size=1e-3, cache=True),  # read from the cache
        mm.open_source(csv_of(tmp_path / "x.csv", table), label="y", weight="w", group="q"),
    ]
    for source in sources:
        found = mm.RankingSVM(tol=1e-6).fit(source)
        np.testing.assert_allclose(found.coef_, known.coef_, atol=1e-4)
        assert found.certificate_.primal >= known.certificate_.dual and known.certificate_.primal >= found.certificate_.dual
        samples = table[list("abcd")] if hasattr(found, "feature_names_in_") else X
        np.testing.assert_allclose(found.predict(source), found.predict(samples), atol=1e-9)
        assert found.score(source) == pytest.approx(found.score(samples, y, weight, groups=groups))
    assert found.feature_names_in_.tolist() == list("abcd")
    refuse(lambda: known.fit(sources[0], groups=groups), ValueError, "groups", "source")
    refuse(lambda: known.fit(sources[0], y), ValueError, "y")
    lines[33] = lines[33].replace(f"qid:{groups[33]} ", "")
    text.write_text("\n".join(lines) + "\n")
    refuse(lambda: known.fit(mm.open_source(text, block_size=1e-3)), ValueError, "Row 33", "x.svm", "qid")
    text.write_text("1 qid:1 1:1 qid:2 2:1\n")
    refuse(mm.open_source(text).scan, ValueError, "line 1, column 13", "qid", "once")
    text.write_text(f"1 qid:{10**18} 1:1\n")
    refuse(mm.open_source(text).scan, ValueError, "line 1", "qid")
