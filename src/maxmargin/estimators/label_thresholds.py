"""From which score on a label is predicted: thresholds as a user gives them, or those of the best F1 on held-out scores.

The macro F1 is the mean over labels, so that each label has the best threshold of its own (Fan and Lin 2007).
"""

from typing import Any

import numpy as np

from ..data.indicators import LabelColumns, rows_listed
from ..data.matrices import numbers
from ..data.tensors import is_tensor, library

TUNED = "f1"


def is_tuned(given: Any) -> bool:
    """Whether thresholds are learned on folds."""
    return isinstance(given, str)


def check_untuned(given: Any, where: str) -> None:
    """Refuse to tune thresholds where there are no folds; `where` says so."""
    if is_tuned(given):
        raise ValueError(f"thresholds={given!r} needs all samples at once, for folds of them; {where} give numbers.")


def fixed_thresholds(given: Any, count: int) -> np.ndarray:
    """One for each label, from the parameter; zero where they are yet to be tuned."""
    if given is None or is_tuned(given):
        return np.zeros(count)
    found = numbers("thresholds", given)
    if found.shape not in ((), (count,)):
        raise ValueError(f"thresholds has shape {found.shape}; it must be one number, or one for each of the {count} labels.")
    return np.broadcast_to(found, (count,)).copy()


def above_thresholds(scores: Any, thresholds: np.ndarray) -> Any:
    """Which labels are predicted, where the scores are."""
    if is_tensor(scores):
        return scores.double() > library().as_tensor(thresholds, device=scores.device)
    return scores > thresholds


def tuned_thresholds(scores: np.ndarray, columns: LabelColumns, weight: np.ndarray) -> np.ndarray:
    """The threshold of the best F1 of each label, on these scores."""
    return np.array([best_threshold(column, *known_of(columns, label, weight)) for label, column in enumerate(scores.T)])


def known_of(columns: LabelColumns, label: int, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which samples have a label, and their weights, which are zero where that is not known."""
    present, known = np.zeros(len(weight), bool), weight.copy()
    present[rows_listed(columns.present, label)] = True
    if columns.missing is not None:
        known[rows_listed(columns.missing, label)] = 0.0
    return present, known


def best_threshold(scores: np.ndarray, present: np.ndarray, weight: np.ndarray) -> float:
    """A threshold of the largest F1: zero if that is one; else the middle of the gap between two scores, of several such gaps of
    the one next to zero. A label that no sample has keeps zero."""
    seen = weight > 0.0
    order = np.argsort(-scores[seen], kind="stable")
    scores, mass = scores[seen][order], weight[seen][order]
    hits = np.where(present[seen][order], mass, 0.0)
    if not np.any(hits > 0.0):
        return 0.0
    f1 = 2.0 * np.cumsum(hits) / (np.cumsum(mass) + hits.sum())  # of the threshold after each sample
    f1[:-1][scores[:-1] == scores[1:]] = -1.0  # no threshold lies between equal scores
    best = f1.max() * (1.0 - 1e-12)
    upper, lower = scores, np.append(scores[1:], np.minimum(np.nextafter(scores[-1], -np.inf), 0.0))
    middle = 0.5 * (upper + lower)
    middle = np.where(middle < upper, middle, lower)
    middle[-1] = lower[-1]  # below all scores
    middle[(lower <= 0.0) & (upper > 0.0)] = 0.0
    among = np.flatnonzero(f1 >= best)
    return float(middle[among[np.argmin(np.abs(middle[among]))]])
