"""Dual ascent on a stream: Ramanan (2013), Algorithm 2, for blocks of examples with closed-form steps.

    for each block of the source
        explore     visit its examples once; those with duals other than zero, or restless, go into the cache
        optimise    while the cached problem's own gap exceeds the target, visit the cache (at most `effort` visits for each
                    example that was read)
        prune       let go who is calm at zero; beyond the memory limit also others, whose duals then lie in the store

The duals of all examples, cached or stored, are feasible for the full problem, so their dual value is a lower bound on its
optimum. An upper bound takes a full pass at fixed weights. Each pass after the first takes one along: weights are frozen when
it begins, their primal value is summed block by block, and so is the dual value of the duals as they were then, each example
before it is visited. The exact values of a state are thus known one pass later, at no reading of their own.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from ...data.sources.options import MEGABYTE
from ...jit import vectors
from ...problems.base import Evaluated
from ...problems.blocked import Examples, StreamProblem
from ...regularizers.spaces import Free, averaged, quadratic, unclipped
from .active import ActiveExamples, active
from .cache import Cache
from .dual_store import DualStore
from .half_spaces import SideDuals
from .late import LateRun
from .tuning import STREAM, StreamTuning


@dataclass(frozen=True)
class StreamOptions:
    """How a run goes about it; see `OnlineDual`."""

    tol: float
    seed: int
    cache_size: float
    prune: str
    effort: float
    verify: bool = True
    average: bool = True
    tuning: StreamTuning = STREAM


class Verification:
    """The exact values of a state, summed along a pass: the primal values of fixed weights and the dual value of its duals."""

    def __init__(self, problem: StreamProblem, weights: list[np.ndarray], cached: np.ndarray, n_jobs: int):
        self.problem, self.weights, self.n_jobs = problem, weights, n_jobs
        self.risks = np.zeros(len(weights))
        self.counted = cached  # rows whose duals were taken account of at the beginning
        self.combined = Free(vectors.aligned(problem.table_shape, np.float64))
        self.sides: Free | None = None  # what duals of half-spaces have in it
        self.reward = 0.0

    def add_duals(self, block: ActiveExamples, which: np.ndarray | None = None) -> None:
        self.reward += block.combine(self.combined, which)

    def add_block(self, block: ActiveExamples) -> None:
        """A block with the duals of those of its rows that were not cached at the beginning."""
        self.risks += [block.problem.risk(w, self.n_jobs) for w in self.weights]
        self.add_duals(block, ~np.isin(block.rows, self.counted, assume_unique=True))

    @property
    def dual(self) -> float:
        regularizer = self.problem.regularizer
        return self.reward + regularizer.dual(self.combined.w, regularizer.unclipped(self.combined.w))

    @property
    def primals(self) -> list[float]:
        penalty = self.problem.regularizer.penalty
        return [float(risk) + penalty(w) for risk, w in zip(self.risks, self.weights, strict=True)]


class StreamRun(LateRun):
    """A run on a stream: weights in memory, duals in the cache and in the store."""

    held = (*LateRun.held, "random", "space", "mean", "mean_count", "reward", "now", "side")
    problem: StreamProblem

    def __init__(self, problem: StreamProblem, options: StreamOptions, n_jobs: int = 1):
        super().__init__(problem, options, options.verify)
        self.n_jobs = n_jobs
        memory = options.cache_size * MEGABYTE
        self.store = DualStore(problem.n_examples, problem.n_classes or 1, memory / 4)
        self.cache = Cache(memory if self.store.on_disk else 0.75 * memory, options.prune, self.store, options.tuning)
        self.random = np.random.default_rng(options.seed)
        self.space = problem.regularizer.space(problem.regularizer.start(problem.weight_shape), np.dtype(np.float64))
        self.mean, self.mean_count = np.zeros_like(averaged(self.space)), 0
        self.side_duals: SideDuals | None = None
        if problem.half_spaces is not None:
            self.side_duals = SideDuals(problem.half_spaces, problem.n_classes, options.tuning.visits)
        self.reward = 0.0
        self.now = 0  # rounds of visits
        self.dual = quadratic(self.space)
        self.proved: np.ndarray | None = None  # the duals that were proved last, where they are to be kept

    # ---- what the loop asks -------------------------------------------------------------------------------

    def statistics(self) -> dict[str, float]:
        return super().statistics() | {
            "cached": float(self.cache.rows.size),
            "evicted": float(self.cache.evicted),
            "cache_megabytes": self.cache.largest / MEGABYTE,
        }

    def left(self) -> np.ndarray | None:
        """All duals, where the model returned is exactly theirs; a run may end in the pass after the one that was proved."""
        if self.options.average:
            return None
        return self.all_duals() if self.proved is None else self.proved

    def at_duals(self) -> Evaluated:
        term = self.problem.regularizer
        if self.proof is None:  # as they stand
            r, reward, sides = term.summed(term.mended(unclipped(self.space).copy())), self.reward, self.combined_sides()
        else:
            r, reward, sides = self.proof.combined.w, self.proof.reward, self.proof.sides
        r = r if sides is None else r - sides.w
        v = term.unclipped(r)
        return Evaluated(reward + term.dual(r, v), v)

    def combined_sides(self) -> Free | None:
        """What the duals of half-spaces sum up to, where there are any."""
        if self.side_duals is None:
            return None
        found = Free(vectors.aligned(self.problem.table_shape, np.float64))
        self.side_duals.combine(found)
        return found

    def all_duals(self) -> np.ndarray:
        """A copy; those of cached rows are in the cache, whatever the store has of them."""
        duals = self.store.read(np.arange(self.problem.n_examples))
        for part in self.cache.parts:
            duals[part.rows] = part.feasible_duals()
        return duals.reshape(self.problem.dual_shape)

    def snapshot(self):
        rows, duals = self.store.nonzero()
        return super().snapshot() | {"stored.rows": rows, "stored.duals": duals} | self.cache.snapshot()

    def resume(self, state):
        """On a run that has just begun: duals of its own it would keep. Reads the source once."""
        super().resume(state)
        self.store.write(state["stored.rows"], state["stored.duals"])
        self.cache.resume(state, self.problem)

    @property
    def side(self) -> np.ndarray | None:
        """The duals of half-spaces, where there are any."""
        return None if self.side_duals is None else self.side_duals.numbers

    @side.setter
    def side(self, duals: np.ndarray | None) -> None:
        if self.side_duals is not None and duals is not None:
            self.side_duals.numbers[...] = duals

    def close(self) -> None:
        self.store.close()

    # ---- a pass -------------------------------------------------------------------------------------------

    def offers(self) -> list[np.ndarray]:
        found = [self.problem.feasible(self.problem.regularizer.mended(averaged(self.space).copy()))]
        if self.options.average and self.mean_count > 1:
            found.append(self.problem.feasible(self.problem.regularizer.mended(self.mean / self.mean_count)))
        return found

    def read(self, stop: Callable[[], bool], *, train: bool, verify: bool) -> None:
        self.proof, begun = None, self.begin_proof() if verify else None
        v, reward = unclipped(self.space).copy(), self.reward
        self.mean[...], self.mean_count, fresh = 0.0, 0, 0
        self.reads += 1
        if train:
            self.rouse(stop)
        with closing(self.problem.examples(self.draw() if train else None)) as blocks:  # a source may read ahead in a thread
            for examples in blocks:
                if stop():
                    return
                block = self.loaded(examples)
                if begun is not None:
                    begun.add_block(block)
                if train:
                    fresh += examples.rows.size
                    self.learn(block, stop)
        self.problem.source.check_unchanged()
        if begun is not None:
            self.without_rounding(begun, v, reward)
            self.proof = begun
            if not self.options.average:
                self.proved = self.all_duals()
        if train:
            self.optimise(fresh, stop)

    def rouse(self, stop: Callable[[], bool]) -> None:
        """Visit the whole cache: who rests may hide a part of the gap."""
        for part in self.cache.parts:
            part.plan.due[:] = self.now
        self.work(self.cache.parts, stop)

    def begin_proof(self) -> Verification:
        proof = Verification(self.problem, self.offers(), self.cache.rows.copy(), self.n_jobs)
        for part in self.cache.parts:
            proof.add_duals(part)
        if (sides := self.combined_sides()) is not None:
            proof.sides = sides
            proof.combined.w[...] += sides.w
        return proof

    def without_rounding(self, proof: Verification, v: np.ndarray, reward: float) -> None:
        """Take out of the weights what rounding had added until the state that was proved, where they were v."""
        regularizer, double = self.problem.regularizer, np.dtype(np.float64)
        proved = unclipped(regularizer.space(regularizer.unclipped(proof.combined.w), double))
        exact = regularizer.mended(unclipped(self.space) + (proved - v))
        regularizer.put(exact, self.space)
        self.reward += proof.reward - reward
        self.dual = self.reward + quadratic(self.space)

    def loaded(self, examples: Examples) -> ActiveExamples:
        """A block with its duals; those of cached rows are not in the store and are left at zero here."""
        duals = self.store.read(examples.rows)
        duals[self.cache.holds(examples.rows)] = 0.0
        return active(self.problem, examples, duals, self.draw(), self.options.tuning)

    # ---- explore and optimise -----------------------------------------------------------------------------

    @property
    def level(self) -> float:
        """An example is calm when its share of the gap is below this."""
        return self.options.tuning.visits.calm * self.options.tol * abs(self.dual) / max(self.problem.n_examples, 1)

    def learn(self, block: ActiveExamples, stop: Callable[[], bool]) -> None:
        """Explore a block, optimise, prune."""
        fresh = ~self.cache.holds(block.rows)
        if fresh.any():
            self.explore(block if fresh.all() else block.chosen(fresh), stop)
        self.optimise(block.rows.size, stop)
        self.cache.trim()
        self.mean += averaged(self.space)
        self.mean_count += 1

    def explore(self, block: ActiveExamples, stop: Callable[[], bool]) -> None:
        """Visit fresh examples once; who has a dual now, or is restless, goes into the cache."""
        before = block.duals().any(axis=1)
        self.work([block], stop)
        kept = ~block.zero() | (block.plan.wait == 0)
        changed = ~kept & before
        self.store.write(block.rows[changed], block.feasible_duals()[changed])
        if kept.any():
            self.cache.add(block.chosen(kept))

    def optimise(self, fresh: int, stop: Callable[[], bool]) -> None:
        """Visit the cache until its own gap is small, or for `effort` visits for each fresh example."""
        left = self.options.effort * fresh
        while left > 0 and self.cache.parts and not stop():
            if sum(part.gap for part in self.cache.parts) <= self.options.tuning.fine * self.options.tol * abs(self.dual):
                return
            order = self.random.permutation(len(self.cache.parts))
            count = self.work([self.cache.parts[k] for k in order], stop)
            left -= max(count, 1)

    def work(self, parts: list[ActiveExamples], stop: Callable[[], bool]) -> int:
        """A round of visits to these parts; returns how many."""
        level, total = self.level, 0
        for part in parts:
            gain, count = part.visit(self.space, self.now, level, stop)
            self.reward += gain
            total += count
            if self.side_duals is not None:  # they answer to examples at once, or the two sides zigzag
                self.side_duals.climb(self.space, self.draw())
        self.now += 1
        self.visits += total
        self.dual = self.reward + quadratic(self.space)
        return total

    def draw(self) -> int:
        return int(self.random.integers(2**31))
