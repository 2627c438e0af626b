"""The best labellings of a graph beside the first: max-product with several entries in the place of each maximum.

Nodes are numbered so that the separator of a node, those it depends on once the nodes after it are gone, holds smaller numbers
only (`encoded/junction.py`); in a forest it is the parent. From the last node to the first, a node tells the largest of its
separator, for each labelling of it, the best scores of itself and all that hangs on it, at most as many as are wanted, in order.
Of two such lists only pairs of ranks r, s with (r + 1) (s + 1) <= wanted can be among the best sums: all pairs of smaller ranks
are as good.

Sorts are stable, labels and ranks ascending. The order of equal scores is therefore fixed, the first of them is the one that
decoding finds, and a shorter list is the beginning of a longer one.
"""

from typing import NamedTuple

import numpy as np


class Merged(NamedTuple):
    """Lists of scores that were added to those of a child: which rank of either an entry of the sum was made of."""

    child: int
    own: np.ndarray  # ranks, by candidate
    other: np.ndarray
    chosen: np.ndarray  # (labels of the node's clique or 1, rank) the candidate


class Told(NamedTuple):
    """What a node has told: for each labelling of its separator and each rank, its label and the rank in the list of that."""

    chosen: np.ndarray  # (labels of the separator, rank) label * ranks + rank
    ranks: int
    merged: list[Merged]


def best_labellings(
    unary: np.ndarray,
    joint: np.ndarray,
    source: np.ndarray,
    target: np.ndarray,
    separators: list[list[int]],
    count: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The `count` best labellings, or as many as there are, and their scores, the best first. unary is (nodes, K), joint
    (edges, K, K) by [label of source, label of target]."""
    size = len(separators)
    homes, below = edges_of(source, target, size), children_of(separators)
    steps: list[Told] = []
    told: dict[int, np.ndarray] = {}  # by nodes that have told it: (labels of the separator, rank)
    for p in range(size - 1, -1, -1):
        scores, merged = gathered(unary[p], p, separators, {child: told.pop(child) for child in below[p]}, count)
        scores = scores + pair_scores(joint, source, target, homes[p], [*separators[p], p])[..., None]
        listed = scores.reshape(*scores.shape[:-2], -1)
        chosen = first_ranks(listed, count)
        told[p] = np.take_along_axis(listed, chosen, axis=-1)
        steps.append(Told(chosen, scores.shape[-1], merged))
    scores, merged = np.zeros(1), []
    for root in sorted(told):
        scores, found = best_sums(scores, told[root], root, count)
        merged.append(found)
    return traced(steps[::-1], separators, merged, scores.size), scores


def edges_of(source: np.ndarray, target: np.ndarray, size: int) -> list[list[int]]:
    """The edges of each node to smaller ones."""
    found: list[list[int]] = [[] for _ in range(size)]
    for e, home in enumerate(np.maximum(source, target).tolist()):
        found[home].append(e)
    return found


def children_of(separators: list[list[int]]) -> list[list[int]]:
    """The nodes that each node is told of: it is the largest of their separators."""
    found: list[list[int]] = [[] for _ in separators]
    for p, own in enumerate(separators):
        if own:
            found[own[-1]].append(p)
    return found


def gathered(
    unary: np.ndarray, p: int, separators: list[list[int]], told: dict[int, np.ndarray], count: int
) -> tuple[np.ndarray, list[Merged]]:
    """The scores of node p with all that hangs on it, (labels of the separator or 1, label, rank)."""
    axes, K = [*separators[p], p], unary.size
    scores, merged = unary.reshape(*(1 for _ in separators[p]), K, 1), []
    for child, lists in told.items():
        shape = [K if node in separators[child] else 1 for node in axes]
        scores, found = best_sums(scores, lists.reshape(*shape, lists.shape[-1]), child, count)
        merged.append(found)
    return scores, merged


def best_sums(own: np.ndarray, other: np.ndarray, child: int, count: int) -> tuple[np.ndarray, Merged]:
    """The best sums of an entry of each of two lists, along the last axis."""
    ranks = np.arange(own.shape[-1])
    many = np.minimum(count // (ranks + 1), other.shape[-1])  # entries of the other list that each may come with
    first = np.repeat(ranks, many)
    second = np.arange(first.size) - np.repeat(np.cumsum(many) - many, many)
    sums = own[..., first] + other[..., second]
    chosen = first_ranks(sums, count)
    return np.take_along_axis(sums, chosen, axis=-1), Merged(child, first, second, chosen)


def first_ranks(scores: np.ndarray, count: int) -> np.ndarray:
    """Where the largest are along the last axis, in order; of equal ones the first."""
    return np.argsort(-scores, axis=-1, kind="stable")[..., :count]


def pair_scores(joint: np.ndarray, source: np.ndarray, target: np.ndarray, edges: list[int], axes: list[int]) -> np.ndarray:
    """The scores of the edges of the last of these nodes to the others, by the labels of all of them."""
    K = joint.shape[-1]
    total = np.zeros((K,) * len(axes))
    for e in edges:
        other = min(source[e], target[e])
        table = joint[e] if source[e] == other else joint[e].T
        total = total + table.reshape([K if node in (other, axes[-1]) else 1 for node in axes])
    return total


def traced(steps: list[Told], separators: list[list[int]], roots: list[Merged], count: int) -> np.ndarray:
    """The labels (labelling, node) behind the entries of the last list."""
    codes = np.zeros((count, len(steps)), np.int64)
    ranks: dict[int, np.ndarray] = {}
    undo(roots, (), np.arange(count), ranks)
    for p, step in enumerate(steps):
        labels = tuple(codes[:, node] for node in separators[p])
        codes[:, p], rank = np.divmod(step.chosen[(*labels, ranks.pop(p))], step.ranks)
        undo(step.merged, (*labels, codes[:, p]), rank, ranks)
    return codes


def undo(merged: list[Merged], labels: tuple[np.ndarray, ...], rank: np.ndarray, ranks: dict[int, np.ndarray]) -> None:
    """Which rank in the list of each child an entry was made of."""
    for each in reversed(merged):
        at = tuple(labels[k] if length > 1 else 0 for k, length in enumerate(each.chosen.shape[:-1]))
        candidate = each.chosen[(*at, rank)]
        ranks[each.child], rank = each.other[candidate], each.own[candidate]
