"""Which labels may follow each other: rules by the names of tagging schemes, by pairs, or by what must follow a label.

Rules are an array (K + 2, K), zero or FORBIDDEN: labels at the first node, labels at the last, then pairs [label, next label].
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data.mistakes import quoted, shown
from .encoded.graphs import FORBIDDEN

FIRST_LABEL, LAST_LABEL, PAIRS = range(3)  # the first row of each part of the rules
# The largest feature with which rules are taken: weights are then at most 2 C sum_i s_i times as large as the features of a
# sample, and scores stay far below -FORBIDDEN while nodes x features x C sum_i s_i is below 1e45.
LARGEST_FEATURE = 1e25


def rules_of(forbidden: Any, required: Any, labels: list) -> np.ndarray | None:
    """The rules that a user gives, for these labels; None where there are none."""
    if forbidden is None and required is None:
        return None
    banned = np.zeros((len(labels) + PAIRS, len(labels)), bool)
    if isinstance(forbidden, str):
        banned |= scheme_rules(forbidden, labels)
    elif forbidden is not None:
        for a, b in _listed_pairs("forbidden", forbidden):
            ban(banned, labels, a, b)
    if required is not None:
        require(banned, labels, required)
    return np.where(banned, FORBIDDEN, 0.0) if banned.any() else None


def ban(banned: np.ndarray, labels: list, a: Any, b: Any, name: str = "forbidden") -> None:
    """b may not follow a; None stands for the beginning as a, for the end as b."""
    if a is None and b is None:
        raise ValueError(f"{name} has the pair (None, None): from the beginning to the end there is no label.")
    for label in (a, b):
        if label is not None and label not in labels:
            raise ValueError(f"{name} names {quoted(label)}, which is not among the labels {shown(labels)}.")
    if a is None:
        banned[FIRST_LABEL, labels.index(b)] = True
    elif b is None:
        banned[LAST_LABEL, labels.index(a)] = True
    else:
        banned[PAIRS + labels.index(a), labels.index(b)] = True


def require(banned: np.ndarray, labels: list, required: Any) -> None:
    """After each label that `required` names only those that it gives may come."""
    if not isinstance(required, Mapping):
        raise ValueError(f"required must be a dict of labels and those that may follow them; got {required!r}.")
    for a, following in required.items():
        if isinstance(following, str) or not isinstance(following, Iterable):
            raise ValueError(f"required[{a!r}] must be a list of the labels that may follow; got {following!r}.")
        given = list(following)
        for b in given:
            ban(np.zeros_like(banned), labels, a, b, "required")  # for its complaints
        for b in [*labels, None]:
            if b not in given and not (a is None and b is None):
                ban(banned, labels, a, b, "required")


def _listed_pairs(name: str, given: Any) -> list[tuple[Any, Any]]:
    fine = isinstance(given, Iterable) and not isinstance(given, Mapping)
    pairs = list(given) if fine else []
    if not fine or any(isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2 for pair in pairs):
        raise ValueError(
            f"{name} must be {', '.join(map(repr, SCHEMES))} or a list of pairs (label, next label); got {given!r}."
        )
    return [(a, b) for a, b in pairs]


# ---- schemes -------------------------------------------------------------------------------------------------

Tag = tuple[str, str]  # what a label says of its place in a chunk, and the kind of the chunk
EDGE: Tag = ("O", "")  # beyond the ends there is no chunk


def follows_iob(a: Tag, b: Tag) -> bool:
    """I-X only after B-X or I-X."""
    return b[0] != "I" or (a[0] in "BI" and a[1] == b[1])


def follows_bioes(a: Tag, b: Tag) -> bool:
    """B-X opens a chunk, I-X goes on, E-X closes it, S-X is one of its own."""
    if a[0] in "BI":
        return b[0] in "IE" and a[1] == b[1]
    return b[0] in "OBS"


SCHEMES: dict[str, tuple[Callable[[Tag, Tag], bool], str]] = {
    "iob": (follows_iob, "BIO"),
    "io": (lambda a, b: True, "BIO"),  # I-X may begin a chunk too
    "bioes": (follows_bioes, "BIOES"),
}


def scheme_rules(name: str, labels: list) -> np.ndarray:
    """Which pairs a scheme does not know."""
    if name.lower() not in SCHEMES:
        raise ValueError(
            f"forbidden must be {', '.join(map(repr, SCHEMES))} or a list of pairs (label, next label); got {name!r}."
        )
    follows, letters = SCHEMES[name.lower()]
    tags = [_tag(label, letters, name) for label in labels]
    ends = [[not follows(EDGE, tag) for tag in tags], [not follows(tag, EDGE) for tag in tags]]
    return np.array([*ends, *([not follows(a, b) for b in tags] for a in tags)])


def _tag(label: Any, letters: str, scheme: str) -> Tag:
    letter, _, kind = label.partition("-") if isinstance(label, str) else ("", "", "")
    if len(letter) != 1 or letter not in letters or (letter == "O") != (kind == "" and label == "O"):
        known = ", ".join(repr(known if known == "O" else f"{known}-...") for known in letters)
        raise ValueError(f"forbidden={scheme!r} reads labels {known}; {label!r} is none of them.")
    return letter, kind


def repaired_iob(labels: list) -> list:
    """The labels with B-X for each I-X that follows neither B-X nor I-X: the chunks are those that conlleval reads."""
    found, before = [], "O"
    for label in labels:
        if isinstance(label, str) and label.startswith("I-") and before not in (label, f"B-{label[2:]}"):
            label = f"B-{label[2:]}"
        found.append(label)
        before = label
    return found


# ---- samples under rules -------------------------------------------------------------------------------------


def breach(rules: np.ndarray, codes: np.ndarray) -> tuple[int, int, int] | None:
    """The first place where the labels of a sample break the rules: the position, and the rows of the two labels that meet there,
    -1 beyond an end."""
    if codes.size == 0:
        return None
    if rules[FIRST_LABEL, codes[0]]:
        return 0, -1, int(codes[0])
    bad = np.flatnonzero(rules[PAIRS + codes[:-1], codes[1:]])
    if bad.size:
        return int(bad[0]) + 1, int(codes[bad[0]]), int(codes[bad[0] + 1])
    return (codes.size - 1, int(codes[-1]), -1) if rules[LAST_LABEL, codes[-1]] else None


def check_rules(rules: np.ndarray, codes: np.ndarray, start: np.ndarray, labels: list, way: str) -> None:
    """Refuse true labels that the rules do not allow; sample i has those from start[i] to start[i + 1] - 1. `way`: what to do."""
    first, last = start[:-1][np.diff(start) > 0], start[1:][np.diff(start) > 0] - 1
    joined = np.ones(max(codes.size - 1, 0), bool)
    joined[last[:-1]] = False
    if not (
        rules[FIRST_LABEL, codes[first]].any()
        or rules[LAST_LABEL, codes[last]].any()
        or rules[PAIRS + codes[:-1], codes[1:]][joined].any()
    ):
        return
    for i, (begin, end) in enumerate(zip(start[:-1].tolist(), start[1:].tolist(), strict=True)):
        found = breach(rules, codes[begin:end])
        if found is not None:
            position, a, b = found
            breaks = f"begins with {quoted(labels[b])}" if a < 0 else f"ends with {quoted(labels[a])}"
            if a >= 0 and b >= 0:
                breaks = f"has {quoted(labels[b])} after {quoted(labels[a])}"
            raise ValueError(f"Sample {i} of y {breaks}, at position {position}, which is forbidden: {way}.")


def check_ruled_features(matrix) -> None:
    """Refuse features so large that scores could come near FORBIDDEN."""
    values = matrix.data if sp.issparse(matrix) else matrix
    if max(values.max(initial=0.0), -values.min(initial=0.0)) > LARGEST_FEATURE:
        raise ValueError(f"With forbidden or required transitions features may be at most {LARGEST_FEATURE:g}; scale X down.")


def any_length(rules: np.ndarray) -> bool:
    """Whether there is a label that alone makes an allowed sequence of every length."""
    return bool(((rules[FIRST_LABEL] == 0) & (rules[LAST_LABEL] == 0) & (np.diag(rules[PAIRS:]) == 0)).any())


def has_output(rules: np.ndarray, size: int) -> bool:
    """Whether there is an allowed sequence of this length."""
    if size == 0:
        return True
    reached = rules[FIRST_LABEL] == 0
    for _ in range(size - 1):
        reached = (rules[PAIRS:][reached] == 0).any(axis=0)
    return bool((reached & (rules[LAST_LABEL] == 0)).any())
