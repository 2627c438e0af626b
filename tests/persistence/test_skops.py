"""skops keeps our estimators too, alone and in pipelines, once it is told of their types."""

import pytest
import skops.io
from helpers.models import CASES, TWO, X, fitted, identical
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin as mm

KEPT = [
    "objects",
    "isotonic",
    "sigmoid",
    "temperature",
    "signs",
    "rbf",
    "regression",
    "labels",
    "named labels",
    "pieces",
    "chains in pieces",
    "search",
    "trees",
]


@pytest.mark.parametrize("name", [*KEPT, "classes never seen", "top-2", "bags"])
def test_models(name):
    model, case = fitted(name), CASES[name]
    found = skops.io.loads(skops.io.dumps(model), trusted=mm.skops_types())
    identical(found, model)
    identical(found.predict(case.samples), model.predict(case.samples))


def test_a_pipeline():
    both = make_pipeline(StandardScaler(), mm.SVMClassifier(random_state=0)).fit(X, TWO)
    found = skops.io.loads(skops.io.dumps(both), trusted=mm.skops_types())
    identical(found.decision_function(X), both.decision_function(X))


def test_sentences():
    given = [[{"word": "the"}, {"word": "cat"}], [{"word": "cat"}]]
    both = make_pipeline(mm.SequenceVectorizer(unknown="error", min_count=2), mm.StructuredSVM("chain", tol=0.1, random_state=0))
    both.fit(given, [["D", "N"], ["N"]])
    found = skops.io.loads(skops.io.dumps(both), trusted=mm.skops_types())
    assert found.predict(given) == both.predict(given)


def test_labels_that_are_tuples():
    x, y = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0]]], [[("N", 1), ("V", 0)], [("V", 0)]]
    model = mm.StructuredSVM("chain", tol=0.1, random_state=0).fit(x, y)
    found = skops.io.loads(skops.io.dumps(model), trusted=mm.skops_types())
    assert found.predict(x) == model.predict(x)
    assert found.score(x, y) == model.score(x, y)


def test_without_the_list_nothing_is_read():
    with pytest.raises(skops.io.exceptions.UntrustedTypesFoundException):
        skops.io.loads(skops.io.dumps(fitted("objects")))
