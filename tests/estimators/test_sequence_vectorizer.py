"""Sentences of dicts or tokens as lists of CSR matrices."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

import maxmargin as mm

SENTENCES = [
    [{"word": "the", "length": 3}, {"word": "cat", "capital": True, "ends": ["t", "at"]}],
    [],
    [{"word": "sat", "capital": False, "inner": {"a": 2.5, "b": "c"}}],
]
TOKENS = [[("the", "D"), ("cat", "N"), ("sat", "V")], [("a", "D"), ("dog", "N")], [], [("sat", "V")]] * 3
TAGS = [["B", "I", "O"], ["B", "I"], [], ["O"]] * 3


def same(X, Y):
    return len(X) == len(Y) and all(np.array_equal(a.toarray(), b.toarray()) for a, b in zip(X, Y, strict=True))


def test_dicts_are_read_as_scikit_learn_reads_them():
    flat = [position for sentence in SENTENCES for position in sentence]
    plain = [{name: value for name, value in position.items() if name != "inner"} for position in flat]
    reference = DictVectorizer().fit(plain)
    vectorizer = mm.SequenceVectorizer()
    X = vectorizer.fit_transform([plain[:2], [], plain[2:]])
    assert [x.shape for x in X] == [(2, 7), (0, 7), (1, 7)]
    assert vectorizer.get_feature_names_out().tolist() == reference.get_feature_names_out().tolist()
    assert np.array_equal(np.vstack([x.toarray() for x in X]), reference.transform(plain).toarray())
    whole = mm.SequenceVectorizer().fit(SENTENCES)
    assert {"inner:a", "inner:b=c"} <= set(whole.vocabulary_)
    assert whole.transform(SENTENCES)[2].toarray()[0, whole.vocabulary_["inner:a"]] == 2.5


def drawn(seed, n=30):
    """Sentences of dicts with values of every kind; names are shared by kinds, and some are met once only."""
    rng, sentences = np.random.default_rng(seed), []
    values = [lambda: f"v{rng.geometric(0.1)}", lambda: bool(rng.integers(2)), lambda: int(rng.integers(-1, 3)), rng.normal]
    values += [lambda: ["a", f"b{rng.integers(3)}"], lambda: np.float32(rng.integers(3)), lambda: np.str_("s"), lambda: "1"]
    for size in rng.integers(0, 5, n):
        names = [rng.permutation(6)[: rng.integers(1, 6)] for _ in range(size)]
        sentences.append([{f"n{k}": values[rng.integers(len(values))]() for k in position} for position in names])
    return sentences


def test_values_of_every_kind_are_those_of_scikit_learn():
    sentences, new = drawn(0), drawn(1)
    flat, after = ([position for sentence in part for position in sentence] for part in (sentences, new))
    reference, vectorizer = DictVectorizer(), mm.SequenceVectorizer()
    expected, X = reference.fit_transform(flat).toarray(), vectorizer.fit_transform(sentences)
    assert list(vectorizer.vocabulary_) == reference.get_feature_names_out().tolist()
    assert np.allclose(np.vstack([x.toarray() for x in X]), expected)
    for _ in range(2):  # the second time from codes that are kept
        found = vectorizer.transform(new)
        assert np.allclose(np.vstack([x.toarray() for x in found]), reference.transform(after).toarray())
        assert same(found, [vectorizer.transform([sentence])[0] for sentence in new])
    assert same(found, pickle.loads(pickle.dumps(vectorizer)).transform(new)) and "_codes" not in vectorizer.__getstate__()
    assert all(x.has_canonical_format and not (x.data == 0).any() for x in X + found)


def test_booleans_leave_all_values_one():
    vectorizer = mm.SequenceVectorizer()
    X = vectorizer.fit_transform([[{"a": True, "b": False}, {"a": "x"}], [{"b": True}], [{"b": False}]])
    assert all((x.data == 1).all() and not x.data.flags.writeable for x in X) and [x.nnz for x in X] == [2, 1, 0]
    assert list(vectorizer.vocabulary_) == ["a", "a=x", "b"]
    assert mm.SequenceVectorizer(min_count=2).fit([[{"a": False, "b": 0.5}], [{"a": False}]]).vocabulary_ == {"a": 0}


def test_names_that_come_twice_are_added_up():
    x, y = mm.SequenceVectorizer().fit_transform([[["a", "b", "a"], {"a": 2.0, "c": ["d", "d"]}], [["b"]]])
    assert x.toarray().tolist() == [[2, 1, 0], [2, 0, 2]] and y.toarray().tolist() == [[0, 1, 0]]
    assert x.indices.tolist() == [0, 1, 0, 2] and x.data.tolist() == [2, 1, 2, 2]


def test_another_fit_learns_another_vocabulary():
    vectorizer = mm.SequenceVectorizer().fit([[{"a": "x", "b": 2.0}]])
    vectorizer.transform([[{"a": "x", "b": 2.0}]])
    vectorizer.fit([[{"b": 1.0, "c": 1.0}], [{"a": "x"}, {"a": "y"}]])
    assert list(vectorizer.vocabulary_) == ["a=x", "a=y", "b", "c"]
    assert vectorizer.transform([[{"a": "x", "b": 2.0}, {"a": "y"}]])[0].toarray().tolist() == [[1, 0, 2, 0], [0, 1, 0, 0]]


@pytest.mark.parametrize("params", [{}, {"n_features": 32}, {"dtype": np.float32}, {"min_count": 2}])
def test_fit_transform_is_fit_and_transform(params):
    vectorizer = mm.SequenceVectorizer(["%x[0,0]", "p=%x[0,1]", "%x[-1,1]/%x[0,1]", "%x[1,0]"], **params)
    X = vectorizer.fit_transform(TOKENS)
    assert same(X, clone(vectorizer).fit(TOKENS).transform(TOKENS))
    assert same(X, pickle.loads(pickle.dumps(vectorizer)).transform(TOKENS))
    assert all(x.dtype == params.get("dtype", np.float64) and x.has_sorted_indices for x in X)
    assert vectorizer.transform([]) == []


def test_templates():
    vectorizer = mm.SequenceVectorizer(["w=%x[0,0]", "%x[-2,1]", lambda sentence, t: {"last": t == len(sentence) - 1}])
    vectorizer.fit(TOKENS[:2])
    assert vectorizer.get_feature_names_out().tolist() == [
        "%x[-2,1]=D", "%x[-2,1]=_B-1", "%x[-2,1]=_B-2", "last", "w=a", "w=cat", "w=dog", "w=sat", "w=the"
    ]  # fmt: skip
    assert mm.SequenceVectorizer(["n=%x[1,0]"]).fit([["x", "y"]]).get_feature_names_out().tolist() == ["n=_B+1", "n=y"]
    assert mm.SequenceVectorizer().fit([[["bias", "word=a"], {"bias"}]]).vocabulary_ == {"bias": 0, "word=a": 1}
    braces = mm.SequenceVectorizer(["{%x[-3,0]}|%x[2,0]"]).fit([["a", "b"], ["c"]])
    assert [name.split("=")[1] for name in braces.vocabulary_] == ["{_B-2}|_B+2", "{_B-3}|_B+1", "{_B-3}|_B+2"]
    both = mm.SequenceVectorizer(["w=%x[0,0]", lambda s, t: {"size": [s[t]]}, lambda s, t: ["last"] * (t == len(s) - 1)])
    assert both.fit_transform([["a", "b"]])[0].toarray().tolist() == [[0, 1, 0, 1, 0], [1, 0, 1, 0, 1]]


def test_unknown_features():
    known = mm.SequenceVectorizer().fit(SENTENCES)
    assert known.transform([[{"word": "dog"}]])[0].nnz == 0
    strict = mm.SequenceVectorizer(unknown="error", min_count=2).fit(SENTENCES + SENTENCES[:1])
    strict.transform(SENTENCES)  # what is rare has been met
    with pytest.raises(ValueError, match="Sentence 1 has at position 0 the feature 'word=dog', which fit has not met"):
        strict.transform([[], [{"word": "dog"}]])
    with pytest.raises(ValueError, match="Sentence 2 has at position 3 the feature 'word=dog'"):
        strict.transform([[], SENTENCES[0], [{"word": "the"}, {"word": "sat", "length": 3}, {}, {"length": 1, "word": "dog"}]])
    names = mm.SequenceVectorizer(unknown="error").fit([[["a", "b"]]])
    with pytest.raises(ValueError, match="Sentence 0 has at position 1 the feature 'c'"):
        names.transform([[["a", "b"], ["c"], ["a"]]])


def test_rows_beyond_both_ends_of_a_short_sentence():
    """As CRF++ numbers them: _B-1 is the first row before the sentence, _B+1 the first one behind it."""
    for template, expected in (
        ("x=%x[-3,0]", [["_B-3"], ["_B-3", "_B-2"], ["_B-3", "_B-2", "_B-1", "a"]]),
        ("x=%x[3,0]", [["_B+3"], ["_B+2", "_B+3"], ["d", "_B+1", "_B+2", "_B+3"]]),
    ):
        vectorizer, sentences = mm.SequenceVectorizer([template]), [["a"], ["a", "b"], ["a", "b", "c", "d"]]
        found, names = vectorizer.fit_transform(sentences), vectorizer.get_feature_names_out()
        assert [[names[row].item()[2:] for row in x.toarray().astype(bool)] for x in found] == expected


@pytest.mark.parametrize(
    ("params", "X", "message"),
    [
        ({}, "the cat", "X must be a list of sentences"),
        ({}, ["the cat"], "Sentence 0 must be a list of positions"),
        ({}, [[{"a": None}]], "Sentence 0, position 0, has 'a': None; a feature is"),
        ({}, [[{"a": np.nan}]], "must be finite"),
        ({}, [[("the", 3)]], "tokens with columns need templates"),
        ({}, [[], []], "There are no features"),
        ({"min_count": 3}, SENTENCES[:1], "none is at 3 positions"),
        ({"templates": ["word"]}, [["a"]], "has no %x"),
        ({"templates": [3]}, [["a"]], "A template is a text"),
        ({"templates": [["%x[0,0]"]]}, [["a"]], "A template is a text"),
        ({}, [[{"a": 1.0}], [{"a": 1.0}, {"b": ["c"], "d": np.inf}]], "Sentence 1, position 1, has 'd': inf"),
        ({"templates": ["%x[0,1]"]}, [["a"]], "needs column 1 of position 0, which has 1"),
        ({"templates": ["%x[0,0]"]}, [[{"a": 1}]], "needs tokens"),
        ({"dtype": int}, SENTENCES, "dtype must be float32 or float64"),
        ({"n_features": 8}, [[{"a": None}]], "a feature is a text"),
    ],
)
def test_bad_input(params, X, message):
    with pytest.raises(ValueError, match=message):
        mm.SequenceVectorizer(**params).fit(X)


def test_hashed_features_are_those_of_scikit_learn():
    positions = [{"word": f"w{k}", "size": k - 2.0, "upper": k % 2 == 0} for k in range(6)]
    for dtype in (np.float32, np.float64):
        expected = FeatureHasher(64, dtype=dtype).transform([{**each, "upper": float(each["upper"])} for each in positions])
        vectorizer = mm.SequenceVectorizer(n_features=64, dtype=dtype)
        for own in (vectorizer, clone(vectorizer).fit([])):
            one, none, rest = own.transform([positions[:4], [], positions[4:]])
            assert one.dtype == none.dtype == rest.dtype == dtype and none.shape == (0, 64)
            assert np.array_equal(np.vstack([one.toarray(), rest.toarray()]), expected.toarray())


def test_hashed_features_have_no_names_and_need_no_fit():
    with pytest.raises(ValueError, match="Hashed features have no names"):
        mm.SequenceVectorizer(n_features=8).get_feature_names_out()
    with pytest.raises(ValueError, match="dtype must be float32 or float64"):
        mm.SequenceVectorizer(n_features=8, dtype=int).transform(SENTENCES)
    check_is_fitted(mm.SequenceVectorizer(n_features=8))
    assert [get_tags(mm.SequenceVectorizer(n_features=n)).requires_fit for n in (None, 8)] == [True, False]


def test_a_vocabulary_needs_a_fit():
    for method in (lambda own: own.transform(SENTENCES), lambda own: own.get_feature_names_out(), check_is_fitted):
        with pytest.raises(NotFittedError):
            method(mm.SequenceVectorizer())


def test_pipeline_and_grid_search():
    model = make_pipeline(mm.SequenceVectorizer(["%x[0,0]", "%x[0,1]"]), mm.StructuredSVM("chain", tol=1e-2, random_state=0))
    grid = {"sequencevectorizer__n_features": [None, 64], "structuredsvm__C": [0.1, 1.0]}
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(TOKENS, TAGS)
    assert search.predict(TOKENS) == TAGS
    assert search.best_score_ == 1.0
