"""The cache of `OnlineDual`: hard examples in memory, so that they are visited while others are read.

An example is in the cache or its duals are in the store, never both; whoever leaves the cache leaves its duals there.
"""

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import numpy as np

from ...problems.blocked import StreamProblem, joined
from ...utils.state import RunState, put_together, taken_apart
from .active import ActiveExamples, active, merged
from .dual_store import DualStore
from .tuning import STREAM, StreamTuning

PRUNING: dict[str, Callable[[ActiveExamples, StreamTuning], np.ndarray]] = {
    "zero": lambda part, tuning: part.zero(),
    "calm": lambda part, tuning: part.zero() & (part.plan.wait >= tuning.patient),
    "never": lambda part, tuning: np.zeros(part.rows.size, bool),
}


class Cache:
    """Examples of at most `limit` bytes together; `prune` names who leaves although there is room."""

    def __init__(self, limit: float, prune: str, store: DualStore, tuning: StreamTuning = STREAM):
        self.limit, self.store, self.tuning = limit, store, tuning
        self.prunable = PRUNING[prune]
        self.parts: list[ActiveExamples] = []
        self.rows = np.zeros(0, np.int64)  # of all parts, sorted
        self.evicted = 0  # examples with duals other than zero that had to leave
        self.largest = 0.0

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    def holds(self, rows: np.ndarray) -> np.ndarray:
        """Which of these rows are here."""
        if not self.rows.size:
            return np.zeros(rows.size, bool)
        place = np.minimum(np.searchsorted(self.rows, rows), self.rows.size - 1)
        return self.rows[place] == rows

    def add(self, part: ActiveExamples) -> None:
        while self.parts and self.parts[-1].rows.size <= 2 * part.rows.size <= self.tuning.large:
            part = merged([self.parts.pop(), part], int(part.plan.random[0] >> np.uint64(1)))
        self.parts.append(part)
        self._list()

    def snapshot(self) -> RunState:
        """Who is here, with duals and the order of visits. Not the rows themselves: the source has them."""
        found: RunState = {"cache.evicted": self.evicted, "cache.largest": self.largest, "cache.count": len(self.parts)}
        for k, part in enumerate(self.parts):
            found |= taken_apart(part.plan, f"cache.{k}.plan")
            found |= {f"cache.{k}.rows": part.rows.copy(), f"cache.{k}.duals": part.duals().copy(), f"cache.{k}.gap": part.gap}
        return found

    def resume(self, state: Mapping[str, Any], problem: StreamProblem) -> None:
        """Take up who was here; the source is read once for their rows."""
        self.evicted, self.largest = state["cache.evicted"], state["cache.largest"]
        members = [state[f"cache.{k}.rows"] for k in range(state["cache.count"])]
        self.parts, self.rows = [], np.zeros(0, np.int64)
        if not members:
            return
        wanted = np.concatenate(members)
        with closing(problem.examples(None)) as blocks:
            found = joined([part.chosen(np.isin(part.rows, wanted, assume_unique=True)) for part in blocks])
        order = np.argsort(found.rows)
        for k, rows in enumerate(members):
            examples = found.chosen(order[np.searchsorted(found.rows, rows, sorter=order)])
            part = active(problem, examples, state[f"cache.{k}.duals"].copy(), 0, self.tuning)
            part.plan, part.gap = put_together(part.plan, f"cache.{k}.plan", state), state[f"cache.{k}.gap"]
            self.parts.append(part)
        self._list()

    def trim(self) -> None:
        """Prune, and make room where the limit is passed: those leave first that were calm the longest, then the oldest."""
        for part in list(self.parts):
            out = self.prunable(part, self.tuning)
            if np.count_nonzero(out) > self.tuning.stale * out.size:
                self._remove(part, out)
        self.largest = max(self.largest, self.nbytes)
        if self.nbytes > self.limit:
            self._make_room()
        self._list()

    def _make_room(self) -> None:
        most = self.tuning.filled * self.limit
        for wait in (31, 15, 7, 3, 1):
            for part in list(self.parts):
                self._remove(part, part.plan.wait >= wait)
                if self.nbytes <= most:
                    return
        while self.parts and (excess := self.nbytes - most) > 0:
            oldest = self.parts[0]  # examples of a part stand in the order in which they came
            count = min(oldest.rows.size, int(oldest.rows.size * excess / oldest.nbytes) + 1)
            self._remove(oldest, np.arange(oldest.rows.size) < count)

    def _remove(self, part: ActiveExamples, out: np.ndarray) -> None:
        """Let some examples of a part go; their duals go to the store."""
        if not out.any():
            return
        duals = part.feasible_duals()[out]
        self.store.write(part.rows[out], duals)
        self.evicted += int(np.count_nonzero(duals.any(axis=1)))
        place = self.parts.index(part)
        self.parts[place : place + 1] = [] if out.all() else [part.chosen(~out)]

    def _list(self) -> None:
        self.rows = np.sort(np.concatenate([part.rows for part in self.parts])) if self.parts else np.zeros(0, np.int64)
