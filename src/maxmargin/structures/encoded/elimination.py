"""Graphs with cycles made ready for inference: orders of elimination, their cliques, and the plan of a junction tree.

`junction.py` says what separators, tables and messages are.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...jit import vectors
from .graphs import Graphs
from .junction import Junction
from .statistics import starts


class Plan(NamedTuple):
    """The cliques of one shape of graph. Counts say how many of the following arrays' entries belong to each node."""

    parent: np.ndarray  # (nodes,) -1 where the separator is empty
    height: np.ndarray  # (nodes,) rows of the table: labellings of the separator
    at: np.ndarray  # (nodes,) the first row of the table
    member_count: np.ndarray  # (nodes,) the separator:
    member: np.ndarray  # its nodes, ascending
    stride: np.ndarray  # row = sum of stride * label over them
    link_count: np.ndarray  # (nodes,) the edges into the separator:
    link: np.ndarray  # their numbers
    link_stride: np.ndarray  # the stride of the other end
    turned: np.ndarray  # 1 where it runs from this node to the separator
    map_count: np.ndarray  # (nodes,)
    maps: np.ndarray  # the row of the message for each row of the parent's table


def eliminated(size: int, edges: np.ndarray, elimination: list[int]) -> Iterator[tuple[int, set[int]]]:
    """Each node with the neighbours, by edges or fill, that are left when it is eliminated."""
    near: list[set[int]] = [set() for _ in range(size)]
    for u, v in edges.tolist():
        near[u].add(v)
        near[v].add(u)
    for node in elimination:
        left = near[node]
        yield node, left
        for other in left:
            near[other] |= left
            near[other] -= {node, other}


def separators(size: int, edges: np.ndarray, elimination: list[int]) -> tuple[np.ndarray, list[list[int]]]:
    """The order of nodes, and the separator of each by its place in that order, ascending."""
    number = np.empty(size, np.int64)
    number[elimination] = np.arange(size - 1, -1, -1)
    found: list[list[int]] = [[] for _ in range(size)]
    for node, left in eliminated(size, edges, elimination):
        found[number[node]] = sorted(int(number[other]) for other in left)
    return np.array(elimination[::-1]), found


def plan_of(members: list[list[int]], source: np.ndarray, target: np.ndarray, K: int) -> Plan:
    """Tables, messages and the home of each edge; `source` and `target` by place in the order."""
    links: list[list[int]] = [[] for _ in members]
    for e, child in enumerate(np.maximum(source, target).tolist()):
        links[child].append(e)
    strides = [[K ** (len(own) - 1 - k) for k in range(len(own))] for own in members]
    maps = [_message_rows(own, members[own[-1]], K) if own else np.zeros(0, np.int64) for own in members]
    link = _flat(links)
    child, other = np.maximum(source, target)[link], np.minimum(source, target)[link]
    link_stride = [strides[c][members[c].index(o)] for c, o in zip(child.tolist(), other.tolist())]
    height = np.array([K ** len(own) for own in members])
    return Plan(
        parent=np.array([own[-1] if own else -1 for own in members]),
        height=height,
        at=np.cumsum(height) - height,
        member_count=np.array([len(own) for own in members]),
        member=_flat(members),
        stride=_flat(strides),
        link_count=np.array([len(own) for own in links]),
        link=link,
        link_stride=np.array(link_stride, np.int64),
        turned=(source[link] == child).astype(np.int64),
        map_count=np.array([own.size for own in maps]),
        maps=np.concatenate(maps),
    )


def _flat(lists: list[list[int]]) -> np.ndarray:
    return np.array([number for numbers in lists for number in numbers], np.int64)


def _message_rows(own: list[int], above: list[int], K: int) -> np.ndarray:
    """For each labelling of the parent's separator, the row of the message: `above` holds all of `own` but the parent."""
    row = np.zeros((K,) * len(above), np.int64)
    for k, node in enumerate(own[:-1]):
        shape = [1] * len(above)
        shape[above.index(node)] = K
        row = row + (np.arange(K) * K ** (len(own) - 2 - k)).reshape(shape)
    return row.ravel()


def junction(graphs: Graphs, plans: list[Plan]) -> Junction:
    """`plans` has an entry for each sample, the same object for samples of one shape."""
    distinct = list({id(plan): plan for plan in plans}.values())
    nodes = starts([plan.parent.size for plan in distinct])
    first = {id(plan): at for plan, at in zip(distinct, nodes.tolist())}
    joined = {name: np.concatenate([getattr(plan, name) for plan in distinct]) for name in Plan._fields}
    for name in ("member", "link", "map"):
        joined[name + "_at"] = starts(joined.pop(name + "_count"))
    return Junction(
        graphs,
        shape=np.array([first[id(plan)] for plan in plans], np.int64),
        tables=starts([int(plan.height.sum()) for plan in plans]),
        used=vectors.table(vectors.pack(np.ones((1, graphs.labels)), np.float64)),
        **joined,
    )
