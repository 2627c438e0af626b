"""Folds of a source: rows are dealt by a hash of their number, models are fitted to the source without a fold, and judged by a
pass over the rows of that fold. Labels, weights and predictions are in memory, samples are not."""

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score

from ..data.mistakes import quoted
from ..data.sources.base import Dealt, Source
from ..data.sources.dealt import DealtSamples, folds_of_rows
from ..data.sources.memory import Samples
from .base import Step
from .bounds import NO_BOUNDS
from .by_block import labels_of
from .contest import Fold, Gaps

FOLDS_OF_ROWS = 5
Scorer = Callable[..., float]


def count_of_folds(cv: Any) -> int:
    """How many folds of a source there are to be."""
    if cv is not None and not isinstance(cv, Integral):
        raise ValueError(f"A source is dealt to folds by a hash of its row numbers: cv must be a number of them, got {cv!r}.")
    return FOLDS_OF_ROWS if cv is None else int(cv)


def folds_of_source(
    model: Any, source: Source, values: np.ndarray, gaps: Gaps, dealing: tuple[int, int], scorer: Any
) -> list[Fold]:
    """`dealing`: the number of folds and a seed; `scorer`: of scikit-learn's kind and whether it takes weights, or None."""
    y, weight = labels_of(source)
    assert weight is not None
    if y.shape[0] < dealing[0]:
        raise ValueError(f"{source} has {y.shape[0]} rows, too few for {dealing[0]} folds.")
    part = folds_of_rows(y.shape[0], *dealing)
    single = is_classifier(model) and not source.multilabel
    classes = np.unique(y) if single else None

    def fold(k: int) -> Fold:
        train, test = np.flatnonzero(part != k), np.flatnonzero(part == k)
        if not train.size or not test.size:
            raise ValueError(f"Fold {k} of {dealing[0]} got {test.size} of the {y.shape[0]} rows of {source}; take fewer folds.")
        labels = None if classes is None else np.unique(y[train])
        if classes is not None and labels is not None and labels.size < classes.size:
            lost = np.setdiff1d(classes, labels)[0]
            raise ValueError(
                f"All rows of class {quoted(lost)} are in fold {k} of {dealing[0]}: take fewer folds, or another random_state."
            )
        held = Dealt(source, test, None if classes is None else np.unique(y[test]))
        fitter = model._fitter((Dealt(source, train, labels), None, None))
        return Fold(values, gaps, fitter, judge(scorer, held, y[test], weight[test]), unproved)

    return [fold(k) for k in range(dealing[0])]


def folds_of_samples(
    model: Any, source: Samples, values: np.ndarray, gaps: Gaps, dealing: tuple[int, int], scorer: Scorer | None
) -> list[Fold]:
    """As `folds_of_source`, of structured samples. Outputs are in memory only where a scorer of the user's own asks for them."""
    count = source.scan()[0]
    if count < dealing[0]:
        raise ValueError(f"The source has {count} samples, too few for {dealing[0]} folds.")
    part = folds_of_rows(count, *dealing)

    def fold(k: int) -> Fold:
        held = Samples(DealtSamples(source, part == k))
        if np.all(part == k) or not np.any(part == k):
            raise ValueError(f"Fold {k} of {dealing[0]} got {np.sum(part == k)} of the {count} samples; take fewer folds.")

        def score(step: Step) -> float:
            if scorer is None:
                return float(step.model.score(held))
            return float(scorer(step.model, held, [output for block in held.blocks() for output in block.y]))

        fitter = model._fitter_of_source(Samples(DealtSamples(source, part != k)), source)
        return Fold(values, gaps, fitter, score, unproved)

    return [fold(k) for k in range(dealing[0])]


def judge(scorer: Any, held: Dealt, y: Any, weight: Any) -> Callable[[Step], float]:
    """What scores a model on rows that were held out."""

    def score(step: Step) -> float:
        if scorer is None:
            measure = accuracy_score if is_classifier(step.model) else r2_score
            return float(measure(y, step.model.predict(held), sample_weight=weight))
        found, weighted = scorer
        return float(found(step.model, held, y, **({"sample_weight": weight} if weighted else {})))

    return score


def unproved(step: Step) -> tuple[float, float]:
    """Bounds of scores are for samples in memory."""
    return NO_BOUNDS
