"""The cache of `OnlineDual`: hard examples in memory, so that they are visited while others are read.

An example is in the cache or its duals are in the store, never both; whoever leaves the cache leaves its duals there.
"""

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import numpy as np

from ...problems.blocked import StreamProblem, joined
from ...utils.state import RunState, put_together, taken_apart
from ..tuning import STREAM, StreamTuning
from .dual_store import DualStore
from .pieces import Piece, merged, piece

PRUNING: dict[str, Callable[[Piece, StreamTuning], np.ndarray]] = {
    "zero": lambda piece, tuning: piece.zero(),
    "calm": lambda piece, tuning: piece.zero() & (piece.plan.wait >= tuning.patient),
    "never": lambda piece, tuning: np.zeros(piece.rows.size, bool),
}


class Cache:
    """Pieces of at most `limit` bytes together; `prune` names who leaves although there is room."""

    def __init__(self, limit: float, prune: str, store: DualStore, tuning: StreamTuning = STREAM):
        self.limit, self.store, self.tuning = limit, store, tuning
        self.prunable = PRUNING[prune]
        self.pieces: list[Piece] = []
        self.rows = np.zeros(0, np.int64)  # of all pieces, sorted
        self.evicted = 0  # examples with duals other than zero that had to leave
        self.largest = 0.0

    @property
    def nbytes(self) -> int:
        return sum(piece.nbytes for piece in self.pieces)

    def holds(self, rows: np.ndarray) -> np.ndarray:
        """Which of these rows are here."""
        if not self.rows.size:
            return np.zeros(rows.size, bool)
        place = np.minimum(np.searchsorted(self.rows, rows), self.rows.size - 1)
        return self.rows[place] == rows

    def add(self, piece: Piece) -> None:
        while self.pieces and self.pieces[-1].rows.size <= 2 * piece.rows.size <= self.tuning.large:
            piece = merged([self.pieces.pop(), piece], int(piece.plan.random[0] >> np.uint64(1)))
        self.pieces.append(piece)
        self._list()

    def snapshot(self) -> RunState:
        """Who is here, with duals and the order of visits. Not the rows themselves: the source has them."""
        found: RunState = {"cache.evicted": self.evicted, "cache.largest": self.largest, "cache.count": len(self.pieces)}
        for k, part in enumerate(self.pieces):
            found |= taken_apart(part.plan, f"cache.{k}.plan")
            found |= {f"cache.{k}.rows": part.rows.copy(), f"cache.{k}.duals": part.duals().copy(), f"cache.{k}.gap": part.gap}
        return found

    def resume(self, state: Mapping[str, Any], problem: StreamProblem) -> None:
        """Take up who was here; the source is read once for their rows."""
        self.evicted, self.largest = state["cache.evicted"], state["cache.largest"]
        members = [state[f"cache.{k}.rows"] for k in range(state["cache.count"])]
        self.pieces, self.rows = [], np.zeros(0, np.int64)
        if not members:
            return
        wanted = np.concatenate(members)
        with closing(problem.examples(None)) as blocks:
            found = joined([part.chosen(np.isin(part.rows, wanted, assume_unique=True)) for part in blocks])
        order = np.argsort(found.rows)
        for k, rows in enumerate(members):
            examples = found.chosen(order[np.searchsorted(found.rows, rows, sorter=order)])
            part = piece(problem, examples, state[f"cache.{k}.duals"].copy(), 0, self.tuning)
            part.plan, part.gap = put_together(part.plan, f"cache.{k}.plan", state), state[f"cache.{k}.gap"]
            self.pieces.append(part)
        self._list()

    def trim(self) -> None:
        """Prune, and make room where the limit is passed: those leave first that were calm the longest, then the oldest."""
        for part in list(self.pieces):
            out = self.prunable(part, self.tuning)
            if np.count_nonzero(out) > self.tuning.stale * out.size:
                self._remove(part, out)
        self.largest = max(self.largest, self.nbytes)
        if self.nbytes > self.limit:
            self._make_room()
        self._list()

    def _make_room(self) -> None:
        most = self.tuning.room * self.limit
        for wait in (31, 15, 7, 3, 1):
            for part in list(self.pieces):
                self._remove(part, part.plan.wait >= wait)
                if self.nbytes <= most:
                    return
        while self.pieces and (excess := self.nbytes - most) > 0:
            oldest = self.pieces[0]  # examples of a piece stand in the order in which they came
            count = min(oldest.rows.size, int(oldest.rows.size * excess / oldest.nbytes) + 1)
            self._remove(oldest, np.arange(oldest.rows.size) < count)

    def _remove(self, piece: Piece, out: np.ndarray) -> None:
        """Let some examples of a piece go; their duals go to the store."""
        if not out.any():
            return
        duals = piece.feasible_duals()[out]
        self.store.write(piece.rows[out], duals)
        self.evicted += int(np.count_nonzero(duals.any(axis=1)))
        place = self.pieces.index(piece)
        self.pieces[place : place + 1] = [] if out.all() else [piece.chosen(~out)]

    def _list(self) -> None:
        self.rows = np.sort(np.concatenate([piece.rows for piece in self.pieces])) if self.pieces else np.zeros(0, np.int64)
