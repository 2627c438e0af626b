"""What a pass over chains cannot do without, compiled and bare, and what the solvers' passes cost beside it.

The floor of Frank-Wolfe is unary scores and a loss-augmented Viterbi pass; that of partial linearization unary scores and
sum-product: messages to the end of the chain and back, with node and pair marginals as the outcome. Both are written with the
vector rows that the library itself uses, so that they are no slower than need be.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import maxmargin as mm
from maxmargin.data import rows
from maxmargin.jit import kernel, vectors
from maxmargin.problems.structured import StructuredProblem
from maxmargin.solvers.polytope.rounds import Seat
from maxmargin.solvers.polytope.run import Aim
from maxmargin.structures.encoded.contract import new_scratch, prepare, worst
from maxmargin.structures.encoded.graphs import PLACE

from .report import figure, table
from .traces import EACH, begin

MOST = 2.0  # a pass over its floor, at the most
TURNS = 15  # rounds in which all are timed, one after another
BEGUN = 10  # passes before the first timed one: by then the weights are those of a problem half solved
TEMPERATURE = 0.01


@kernel
def viterbi_pass(data, W, scratch, n):
    """The worst offender of each sample"""
    total = 0.0
    for i in range(n):
        prepare(data, i, W, scratch)
        total += worst(data, i, scratch, scratch.code)
    return total


@kernel
def sum_product_pass(samples, W, weights, belief, joint, inverse):
    """Node marginals (into `belief`) and pair marginals (into `joint`) of each chain at this inverse temperature.

    A chain's nodes are stored from its end: node p - 1 follows node p in the sequence. `weights` are the number of labels and
    the first row of pair weights.
    """
    X, starts, label, place, cost = samples
    K, pairs = weights
    blocks, zero = W.shape[1], vectors.zeros_like(W)
    one, total = vectors.shift(zero, 1.0), 0.0
    for i in range(starts.size - 1):
        start, size = starts[i], starts[i + 1] - starts[i]
        for p in range(size):
            rows.scores(X, start + p, W, belief.vectors[p : p + 1])
            ends = place[start + p]
            for b in range(blocks):
                score = vectors.add(vectors.load(belief.vectors, p, b), vectors.load(cost.vectors, label[start + p], b))
                for bit in range(2):
                    if ends >> bit & 1:
                        score = vectors.add(score, vectors.load(W, rows.last_column(X) + 1 + bit, b))
                vectors.store(belief.vectors, p, b, vectors.fma(zero, inverse, score))
        for p in range(size - 1, 0, -1):  # joint = p(node | the one that follows it)
            for b in range(blocks):
                highest = vectors.shift(zero, -np.inf)
                for k in range(K):
                    mark = vectors.shift(vectors.fma(zero, inverse, vectors.load(W, pairs + k, b)), belief.flat[p, k])
                    vectors.store(joint.vectors, p * K + k, b, mark)
                    highest = vectors.maximum(highest, mark)
                mass = zero
                for k in range(K):
                    mark = vectors.exp(vectors.subtract(vectors.load(joint.vectors, p * K + k, b), highest))
                    vectors.store(joint.vectors, p * K + k, b, mark)
                    mass = vectors.add(mass, mark)
                share = vectors.divide(one, mass)
                for k in range(K):
                    mark = vectors.multiply(vectors.load(joint.vectors, p * K + k, b), share)
                    vectors.store(joint.vectors, p * K + k, b, mark)
                message = vectors.add(highest, vectors.log(mass))
                vectors.store(belief.vectors, p - 1, b, vectors.add(vectors.load(belief.vectors, p - 1, b), message))
        highest_last, mass_last = belief.flat[0, 0], 0.0
        for k in range(1, K):
            highest_last = max(highest_last, belief.flat[0, k])
        for k in range(K):
            belief.flat[0, k] = np.exp(belief.flat[0, k] - highest_last)
            mass_last += belief.flat[0, k]
        for k in range(belief.flat.shape[1]):
            belief.flat[0, k] = belief.flat[0, k] / mass_last if k < K else 0.0
        for p in range(1, size):
            for k in range(K):
                mass = zero
                for b in range(blocks):
                    mark = vectors.multiply(vectors.load(joint.vectors, p * K + k, b), vectors.load(belief.vectors, p - 1, b))
                    vectors.store(joint.vectors, p * K + k, b, mark)
                    mass = vectors.add(mass, mark)
                belief.flat[p, k] = vectors.total(mass)
            for k in range(K, belief.flat.shape[1]):
                belief.flat[p, k] = 0.0
        total += belief.flat[0, 0] + belief.flat[size - 1, 0]
    return total


class SumProduct:
    """The bare pass on these samples, with memory of its own; what it reads of them lies in plain arrays."""

    def __init__(self, data: Any) -> None:
        g = data.graphs
        longest = int(np.max(np.diff(g.start)))
        self.samples = g.X, *(np.ascontiguousarray(array) for array in (g.start, g.label, g.node[:, PLACE])), g.cost
        self.weights = g.labels, g.pairs
        self.belief, self.joint = (vectors.zeros_table(count, g.labels, np.float64) for count in (longest, longest * g.labels))

    def run(self, W: np.ndarray) -> float:
        return sum_product_pass(self.samples, W, self.weights, self.belief, self.joint, 1.0 / TEMPERATURE)


def seconds_of(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def described(problem: StructuredProblem) -> tuple[str, list[str]]:
    """A table of passes over their floors, and the verdicts."""
    data, n = problem.data, problem.n_examples
    bare, scratch = SumProduct(data), new_scratch(data)
    runs = {
        "FrankWolfe, plain": begin(mm.FrankWolfe(steps="plain", **EACH), problem, 1e-3),
        "PartialLinearization": begin(mm.PartialLinearization(TEMPERATURE, **EACH), problem, 1e-3),
    }
    for run in runs.values():
        for _ in range(BEGUN):
            run.advance(lambda: False)
    W = runs["FrankWolfe, plain"].W
    work: dict[str, Callable[[], Any]] = {
        "bare Viterbi": lambda: viterbi_pass(data, W, scratch, n),
        "bare sum-product": lambda: bare.run(W),
    }
    work |= {name: (lambda run=run: run.advance(lambda: False)) for name, run in runs.items()}  # type: ignore[misc]  # a bound default
    for one in work.values():
        one()
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(TURNS):
        for name, one in work.items():
            times[name].append(seconds_of(one))
    floors = {"FrankWolfe, plain": "bare Viterbi", "PartialLinearization": "bare sum-product"}
    lines, verdicts = [], []
    for name, found in times.items():
        floor = floors.get(name)
        ratio = median(a / b for a, b in zip(found, times[floor], strict=True)) if floor else None
        shown = [floor, figure(ratio, 2)] if floor else ["", ""]
        lines.append([name, figure(1e3 * median(found)), figure(1e3 * min(found)), *shown])
        if ratio is not None:
            state = "holds" if ratio <= MOST else "FAILS"
            verdicts.append(f"One {name} pass at most {MOST:g} times its floor: {state} ({ratio:.2f}).")
    text = f"Passes over {n} words in turns, median and least of {TURNS} in ms of processor time; a ratio is the median of the "
    text += (
        f"{TURNS} ratios. Partial linearization at temperature {TEMPERATURE:g}. The marginals of the bare sum-product are within "
    )
    text += f"{same_sums(problem):.0e} of the library's."
    head = ["pass", "median ms", "least ms", "floor", "ratio"]
    return "\n\n".join([text, table(head, lines)]), verdicts


def same_sums(problem: StructuredProblem) -> float:
    """How far the bare sum-product's node marginals of the last sample are from the library's: the floor does the same work."""
    data, i = problem.data, problem.n_examples - 1
    size, K = int(data.graphs.start[i + 1] - data.graphs.start[i]), data.graphs.labels
    uniform = mm.PartialLinearization(TEMPERATURE, step=1.0, **EACH)
    run = begin(uniform, StructuredProblem(data, problem.weight, problem.C), 1e-3)
    nodes = run.points.node.flat
    nodes[:, :K] = 1.0 / K
    run.points.edge.flat[:, :K] = 1.0 / K**2
    other = begin(mm.FrankWolfe(steps="plain", **EACH), problem, 1e-3)  # for weights that are not zero
    other.advance(lambda: False)
    run.W[...] = other.W
    W = run.W.copy()
    run.plan.order[:1] = i
    run.visit(Seat(run.space, run.workspace(), problem.cap), Aim(run.plan, run.shares, -np.inf), (0, 1), 0.0)
    bare = SumProduct(data)
    bare.run(W)
    mine = nodes[data.graphs.start[i] : data.graphs.start[i] + size, :K]
    return float(np.max(np.abs(mine - bare.belief.flat[:size, :K])))
