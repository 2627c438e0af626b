"""Fits of every family of solvers, that are killed and go on."""

from collections.abc import Callable
from typing import Any

import maxmargin as mm
from maxmargin.structures import Chain

from .models import BAGS, LABELS, REAL, THREE, TWO, Halves, X
from .structured import Brackets, bits, words

FINE = {"tol": 1e-6, "random_state": 7, "max_iter": 300}


def model_of(kind: type, samples: tuple, *given: Any, **parameters: Any) -> Callable[[], tuple[Any, tuple]]:
    return lambda: (kind(*given, **FINE | parameters), samples)


def stream() -> tuple[Any, tuple]:
    parts = [(X[k : k + 7], TWO[k : k + 7]) for k in range(0, 40, 7)]
    return mm.SVMClassifier(solver="online", **FINE), (mm.open_source([part for part in parts]),)


SVM, STRUCTURED = mm.SVMClassifier, mm.StructuredSVM
TWO_CLASSES, THREE_CLASSES, LABELLED, SIGNS = (X, TWO), (X, THREE), (X, LABELS), (BAGS, [-1, 1] * 6)
FITS: dict[str, Callable[[], tuple[Any, tuple]]] = {
    "dual coordinate": model_of(SVM, TWO_CLASSES, solver="dual_coordinate"),
    "auto": model_of(SVM, TWO_CLASSES, tol=1e-9),
    "three classes": model_of(SVM, THREE_CLASSES),
    "newton": model_of(SVM, TWO_CLASSES, solver="newton", tol=1e-9),
    "newton, three classes": model_of(SVM, THREE_CLASSES, solver="newton", tol=1e-9),
    "bundle": model_of(SVM, TWO_CLASSES, solver="bundle"),
    "bundle, three classes": model_of(SVM, THREE_CLASSES, solver="bundle", tol=1e-3),
    "online": model_of(SVM, TWO_CLASSES, solver="online"),
    "rbf": model_of(SVM, TWO_CLASSES, kernel="rbf", tol=1e-8),
    "rbf, three classes": model_of(SVM, THREE_CLASSES, kernel="rbf", tol=1e-8),
    "regression": model_of(mm.SVMRegressor, (X, REAL)),
    "top-2": model_of(mm.TopKSVMClassifier, THREE_CLASSES, k=2),
    "labels": model_of(mm.MultilabelSVMClassifier, LABELLED, keep_duals=True),
    "labels by bundle": model_of(mm.MultilabelSVMClassifier, LABELLED, solver="bundle", tol=1e-4),
    "coupled labels": model_of(mm.MultilabelSVMClassifier, LABELLED, label_prior=mm.label_correlation(LABELS, 0.1)),
    "probabilities": model_of(SVM, TWO_CLASSES, probability="sigmoid"),
    "chains": model_of(STRUCTURED, words(), Chain(n_labels=3)),
    "chains, frank_wolfe": model_of(STRUCTURED, words(), Chain(n_labels=3), solver="frank_wolfe", tol=1e-4),
    "chains, partial_linearization": model_of(
        STRUCTURED, words(), Chain(n_labels=3), solver="partial_linearization", tol=1e-3
    ),
    "chains, exponentiated_gradient": model_of(
        STRUCTURED, words(), Chain(n_labels=3), solver="exponentiated_gradient", tol=3e-2
    ),
    "chains, bundle": model_of(STRUCTURED, words(), Chain(n_labels=3), solver="bundle", tol=1e-3),
    "chains, online": model_of(STRUCTURED, words(), Chain(n_labels=3), solver="online", tol=1e-4),
    "a structure in Python": model_of(STRUCTURED, bits(), Brackets()),
    "bags": model_of(mm.LatentSVMClassifier, SIGNS, n_restarts=1),
    "hidden parts": model_of(mm.LatentStructuredSVM, SIGNS, Halves(), n_restarts=1),
}
