"""The multiclass hinge loss with many columns, where the matrix of all weights takes longest; and an interior point for it.

    N = sum over pairs of classes k < l of  theta_k theta_l / sum theta  (e_k - e_l)(e_k - e_l)'

Near the solution an example has two or three classes that matter, most have one, and their pairs weigh next to nothing. So the
heaviest pairs of examples and classes are added up as they are, each into four blocks of the matrix. The others are many and
alike: their weights are added up for each label and pair of classes, and stand before the mean of x x' over the examples of that
label. That is what is factored; conjugate gradients with products of X itself do the rest, also what float32 takes from dense
products: half of their time for a third more gradients.

Large columns make the gradient of all duals but a few enormous, and steps from weights of zero are short for long. So the weights
at first are those that alternating directions find soon (`alternating`): some rounds with all examples, unless another run has
left something to begin with, and more with those that have a class near their highest. Their duals lie on the border, those of
the central path for these weights leave far more of the gradient: the beginning is near the border, between both.

Where C is large nothing holds these weights, and all of that again: steps are short, and what the duals leave of the gradient,
squared, is a large part of the gap for long. So the quadratic term is made larger at first, as that of a smaller C, and falls
with mu to what it is. Values and gaps are those of the problem all along.

From there on most pairs of examples and classes, and most examples, have no duals and will have none: they are left out until
their class comes near the highest. With a sixth of the pairs a step costs about half.
"""

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dpotrs

from ...data.table import RowBlock, Table
from ...problems.linear import BlockProblem
from .alternating import QuadraticTerm, SplitPoint, alternated
from .blends import BlendedInterior
from .interior_point import products
from .interior_rows import RowInterior
from .single_rows import SingleRows
from .systems import FEW_PAIRS, LEAST_THETA, MANY_CLASSES, RIDGES, Factor, RowColumns, combination, scores_of, unit_scale
from .tuning import FIRM, SPLIT, SPLIT_FIRST, WORKING, SplitTuning

# Pairs that are added up as they are, for each weight; the part of a right side that conjugate gradients may leave, and how many
# of their steps. Digits in 14 x 14 pixels of 0..255, others than those that are reported, C = 1, seconds of one core: 50 and 20
# pairs take 26 and 47, as gradients take longer; 1e-4 and 1e-7 take 33 and 35, with an earlier matrix. 2026-11-17.
KEPT, LEFT_OVER, MOST_GRADIENTS = 50, 1e-4, 40
MOST_PAIRS = 1 << 25  # of examples and classes whose weights are kept in memory
PATH_ROUNDS = 100  # of the search for the level of a row, which has few
EXACT_LEVEL = 1e-14


class PairColumns(RowColumns):
    """The matrix of the pairs that count; `label` is that of each row of the table. `single`: dense rows as float32, where
    products of these will do; `doubled`: they will not. `mean`: what `of_labels` finds, or the same of other rows of these
    labels, which does as well: gradients do the rest."""

    def __init__(self, table: Table, label: np.ndarray, classes: int, doubled: bool = False, mean: np.ndarray | None = None):
        super().__init__(table)
        self.bias = next(table.blocks(1)).bias
        self.single = None if sp.issparse(table.matrix) or doubled else SingleRows(table.matrix, self.bias)
        self.of_label = np.eye(classes)[label]
        self.mean = self.of_labels() if mean is None else mean

    def of_labels(self) -> np.ndarray:
        """(classes, features + 1, features + 1): the mean of x x' over the rows of each label."""
        count = np.maximum(self.of_label.sum(axis=0), 1.0)
        found = [self.products(np.flatnonzero(of), of[of > 0.0]) for of in self.of_label.T]
        return np.stack(found) / count[:, None, None]

    def products(self, rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """sum of weight x x' over these rows."""
        if self.single is not None:
            return self.single.weighted_products(rows, weight)
        return RowBlock(self.table.matrix[rows], self.bias, 0, rows.size).weighted_products(weight)

    def prepare(self, theta, B, walls=None):
        found = super().prepare(theta, B, walls)
        self.factor.sound = False  # it is that of another matrix
        return found

    def factored(self):
        if self.walls is not None:
            return super().factored()
        found = PairFactor(self.sums(), self.B)
        if self.single is not None and (found.factor is None or found.ridge > 0.0):  # float32 has made it indefinite
            self.single = None
            return PairFactor(self.sums(), self.B)
        return found

    def limits(self):
        return max(self.rest, LEFT_OVER), MOST_GRADIENTS

    def matrix(self):
        """Its blocks on and above the diagonal, which is all that is factored."""
        classes, d = self.theta.shape[1], self.table.shape[1] + 1
        H = np.zeros((classes, d, classes, d))
        for found, k, other in zip(self.sums(), *np.triu_indices(classes, 1), strict=True):
            H[k, :, k] += found
            H[other, :, other] += found
            H[k, :, other] = -found
        return H.reshape(classes * d, classes * d)

    def sums(self) -> np.ndarray:
        """(pairs of classes, features + 1, features + 1): the products of rows, weighted as the pair."""
        classes, d = self.theta.shape[1], self.table.shape[1] + 1
        first, second = np.triu_indices(classes, 1)
        theta = np.ascontiguousarray(self.theta.T)
        weight = theta[first] * theta[second]
        weight /= self.total[:, 0]
        kept = weight > heaviest(weight, KEPT * classes * d)
        found: np.ndarray = np.tensordot(np.where(kept, 0.0, weight) @ self.of_label, self.mean, 1)
        for pair in range(len(first)):
            rows = np.flatnonzero(kept[pair])
            if rows.size:
                found[pair] += self.products(rows, weight[pair, rows])
        return found


class PairFactor(Factor):
    """Of these sums and B. Columns that no row has are left out: their weights are g / B. Where B is that of all K classes, a
    sum of pairs says nothing of what they have in common: that is g / B too, and what is left are the differences to the last

        V_k = W_k - W_K,     B |W|^2 = B (sum V_k^2 - (sum V_k)^2 / K)  where the W sum to zero,      (K - 1) x (features + 1)."""

    def __init__(self, sums: np.ndarray, B: np.ndarray, ridges: tuple[float, ...] = RIDGES):
        classes, d = B.shape
        first, second = np.triu_indices(classes, 1)
        self.B, diagonal = B, np.zeros_like(B)
        for pair, found in enumerate(sums):
            diagonal[[first[pair], second[pair]]] += found.diagonal()
        if not np.all(np.isfinite(diagonal)):
            return
        self.scale = unit_scale((diagonal + B).ravel())
        used = diagonal.any(axis=0)
        self.used = np.flatnonzero(used) if used.any() else np.arange(d)  # LAPACK takes no empty matrix
        self.shared = bool(np.all(B[0] == B))
        kept = classes - self.shared
        B = B[:kept, self.used]
        less = B[0] / classes if self.shared else np.zeros(self.used.size)
        self.inner = unit_scale(diagonal[:kept, self.used] + B - less)
        H = np.empty((kept, self.used.size, kept, self.used.size))
        own = np.zeros((classes, self.used.size, self.used.size))
        for found, k, other in zip(sums, first, second, strict=True):
            some = found if self.used.size == d else found[np.ix_(self.used, self.used)]
            own[k] += some
            own[other] += some
            if other < kept:
                some = -some
                some.flat[:: len(some) + 1] -= less
                H[k, :, other] = self.inner[k][:, None] * some * self.inner[other]
        for of_class, whole in enumerate(own[:kept]):
            whole.flat[:: self.used.size + 1] += B[of_class] - less
            H[of_class, :, of_class] = self.inner[of_class][:, None] * whole * self.inner[of_class]
        self.take(H.reshape(kept * self.used.size, -1), ridges)

    def solve(self, g):
        G = g.reshape(self.B.shape)
        common = G.mean(axis=0) if self.shared else np.zeros(G.shape[1])
        wanted = self.inner * (G - common)[: len(self.inner), self.used]
        V = self.inner * dpotrs(self.factor, wanted.ravel(), lower=1)[0].reshape(wanted.shape)
        found = G / self.B
        if self.shared:
            found[:, self.used] = common[self.used] / self.B[0, self.used] - V.sum(axis=0) / len(G)
            found[:-1, self.used] += V
        else:
            found[:, self.used] = V
        return found.ravel()


def heaviest(weight: np.ndarray, count: int) -> float:
    """What no more than so many weights are above; none of zero is."""
    if count >= weight.size:
        return 0.0
    return float(np.partition(weight, weight.size - count - 1, axis=None)[weight.size - count - 1])


def on_path(worth: np.ndarray, cap: np.ndarray, mu: float) -> np.ndarray:
    """(examples, classes): multipliers s = level - worth with sum mu / s = cap. The inverse of that sum is concave in the level,
    so that Newton's method from below rises to the root."""
    below = worth.max(axis=1, keepdims=True) - worth
    least = mu / cap
    for _ in range(PATH_ROUNDS):
        p = mu / (least + below)
        total = p.sum(axis=1, keepdims=True)
        step = (total / cap - 1.0) * total * mu / np.sum(p * p, axis=1, keepdims=True)
        least = least + np.maximum(step, 0.0)
        if np.all(step <= EXACT_LEVEL * least):
            break
    found: np.ndarray = least + below
    return found


OF_WIDE = "chosen", "coming", "doubled", "firm", "firm_first", "mu_first"  # what the state of a run holds besides


def mean_size(problem: BlockProblem) -> float:
    """The mean of cap ||x||^2."""
    return float(np.mean(problem.cap * problem.curvature)) if problem.n_examples else 0.0


class WideInterior(BlendedInterior, RowInterior):
    """Begins near the solution, and works on the pairs of examples and classes that may have duals there: within some costs of
    the highest, and with what has come near since. The others have none, which is feasible, and count in all values. What another
    run has left is where alternating directions begin, and is kept as long as it is better. Many steps are short here, and to
    mend after each would form the matrix once more."""

    held = (*BlendedInterior.held, *OF_WIDE)
    # Matrices for 64 steps with 1 and 0: 64 and 74, to the same gap, from weights of zero. Digits of 0..255, those reported,
    # C = 1, 2026-11-17.
    may_idle = 1
    firm = firm_first = mu_first = 1.0  # how many times the quadratic term counts now and did at first, and mu then
    doubled = False  # whether float32 has failed: it will again
    of_labels: np.ndarray | None = None  # means of x x' over all examples of each label
    chosen = coming = np.zeros((0, 0), bool)  # (examples that count, classes): pairs that may have duals, and those that are next

    def settle(self):
        self.firm_first = max(1.0, mean_size(self.problem) / FIRM.size)
        self.make_firm(self.firm_first)
        self.reach = float(np.mean(self.cost.max(axis=1))) if self.cost.size else 1.0
        if self.takes_up():
            q = self.duals[self.counted] / -self.cap
            q[self.own] += 1.0
        else:
            self.W, q = self.alternated(np.arange(len(self.label)), SPLIT_FIRST, None)
        some = np.flatnonzero(self.near_or(q > 0.0).any(axis=1))
        self.W, q[some] = self.alternated(some, SPLIT, SplitPoint(self.W, q[some]))
        self.choose(self.near_or(q > 0.0))
        worth, pairs = self.worth(), self.pairs
        mu = max(SPLIT.times * self.risk(worth) / max(pairs[0].size, 1), LEAST_THETA)
        at_work = self.chosen.any(axis=1)
        s = on_path(np.where(self.chosen, worth, -np.inf)[at_work], self.cap[at_work], mu)[self.in_table]
        p = (1.0 - SPLIT.pulled) * (self.cap * q)[pairs] + SPLIT.pulled * mu / s
        self.begin_at((p,), mu, self.reach)
        self.against, self.mu_first = (s,), self.mu()

    def alternated(self, some: np.ndarray, tuning: SplitTuning, start: SplitPoint | None) -> SplitPoint:
        """Rounds of alternating directions on some of the examples that count."""
        term, given = QuadraticTerm(self.mean, self.B), (self.cost[some], self.label[some], self.cap[some, 0])
        return alternated(self.table_of(some), *given, term, tuning, self.to_end, start)

    def table_of(self, some: np.ndarray) -> Table:
        rows = self.counted[some]
        return self.table if rows.size == self.table.shape[0] else self.table.like(self.table.matrix[rows])

    def near_or(self, others: np.ndarray) -> np.ndarray:
        """The pairs near the highest, and others."""
        return self.with_labels(self.below(self.worth()) < WORKING.near * self.reach) | self.with_labels(others)

    def below(self, worth: np.ndarray) -> np.ndarray:
        found: np.ndarray = worth.max(axis=1, keepdims=True) - worth
        return found

    def with_labels(self, pairs: np.ndarray) -> np.ndarray:
        """The labels themselves besides, of examples that have others than that."""
        pairs[self.own] = True
        pairs[np.count_nonzero(pairs, axis=1) < 2] = False
        return pairs

    def choose(self, pairs: np.ndarray) -> None:
        self.chosen, self.coming = pairs, np.zeros_like(pairs)
        self.lay_out()

    def lay_out(self) -> None:
        """What follows from the pairs chosen."""
        at_work = self.chosen.any(axis=1)
        self.pairs, self.resting, working = np.nonzero(self.chosen), np.flatnonzero(~at_work), np.flatnonzero(at_work)
        self.working = self.counted[working]
        self.in_table = (np.cumsum(at_work) - 1)[self.pairs[0]], self.pairs[1]
        classes = self.shape.classes
        if self.of_labels is None:
            self.of_labels = PairColumns(self.table_of(np.arange(len(self.label))), self.label, classes).mean
        self.system = PairColumns(self.table_of(working), self.label[working], classes, self.doubled, self.of_labels)

    def grow(self) -> None:
        """Take up the pairs that have come near, or would have: on the path, as far as the others of their example leave them
        room. What they take is taken from the largest."""
        below = self.below(self.worths)
        more = self.with_labels((below < WORKING.grown * self.reach) | self.coming) & ~self.chosen
        rows = np.flatnonzero(more.any(axis=1))
        if not rows.size:
            return
        mu = self.mu()
        p, s = np.zeros(more.shape), np.zeros(more.shape)
        p[self.pairs], s[self.pairs] = self.inside[0], self.against[0]
        new = on_path(np.where(more[rows], self.worths[rows], -np.inf), self.cap[rows], mu)
        known = self.chosen[rows].any(axis=1)
        old = rows[known]
        levels = np.sum(p[old] * (self.worths[old] + s[old]), axis=1) / self.cap[old, 0]
        new[known] = np.maximum(levels[:, None] - self.worths[old], mu / (WORKING.taken * self.cap[old]))
        given = np.where(more[rows], mu / new, 0.0)
        largest = old, p[old].argmax(axis=1)
        given[known] *= np.minimum(1.0, 0.5 * p[largest] / given[known].sum(axis=1))[:, None]
        p[largest] -= given[known].sum(axis=1)
        p[rows] += given
        s[rows] += np.where(more[rows], new, 0.0)
        self.choose(self.chosen | more)
        self.inside, self.against, self.looked = (p[self.pairs],), (s[self.pairs],), False

    def mu(self) -> float:
        return max(products(self.inside, self.against) / max(self.inside[0].size, 1), LEAST_THETA)

    def make_firm(self, times: float) -> None:
        """The quadratic term as many times as large, in the system that steps solve."""
        self.firm, self.B, self.looked = times, self.shape.B * times, False

    def step(self):
        self.see()
        if self.firm > 1.0:
            self.make_firm(float(np.clip(self.firm_first * (self.mu() / self.mu_first) ** FIRM.power, 1.0, self.firm)))
            self.see()
        self.grow()
        found = super().step()
        if isinstance(self.system, PairColumns):
            self.doubled = self.system.single is None
        return found

    def arrive(self):
        self.see()
        slack = self.slack + (self.firm - 1.0) * self.shape.pulled(self.W - self.mean)
        unmet = 0.5 * self.shape.square(self.slack) / self.firm
        self.note(self.here, slack, self.left_by_losses(), products(self.inside, self.against), unmet)

    def falling(self, found, goal):
        """Weights not so far that other pairs would be the highest; those that would come near are taken up before the next step.
        Duals go all of their way even so, where they leave less of the gradient by it."""
        dW, ahead, back, far = super().falling(found, goal)
        worth, along = self.worths, scores_of(self.table, dW)[self.counted]
        top = np.arange(len(worth)), worth.argmax(axis=1)
        below, rise = worth[top][:, None] - worth, along - along[top][:, None]
        self.coming = (far * rise > np.maximum(below - WORKING.grown * self.reach, 0.0)) & ~self.chosen
        most = float(np.max(rise / below, where=self.coming, initial=0.0))
        near = min(far, WORKING.part / max(most, LEAST_THETA))
        apart = (1.0 - far) * self.slack + (far - near) * self.firm * self.shape.pulled(dW)
        if not self.shape.square(apart) < (1.0 - near) ** 2 * self.shape.square(self.slack):
            return dW, ahead, back, near
        return near / far * dW, ahead, [near / far * change for change in back], far

    def look(self):
        self.worths = worth = self.worth()
        self.height, self.short = worth[self.pairs], self.below(worth)[self.pairs]
        rest = self.resting
        self.lost_at_rest = float(self.cap[rest, 0] @ (worth[rest].max(axis=1, initial=-np.inf) - worth[rest, self.label[rest]]))
        duals = self.stored()[self.working]
        self.slack = combination(self.system.table, duals) - self.firm * self.shape.pulled(self.W - self.mean)
        return self.problem.regularizer.penalty(self.shape.packed(self.W)) + self.risk(worth)

    def left_by_losses(self):
        return float(np.vdot(self.inside[0], self.short)) + self.lost_at_rest

    def spread(self, values):
        """Of the examples at work only."""
        result = np.zeros((self.working.size, self.shape.classes))
        result[self.in_table] = values
        return result

    def moves(self, wanted, change):
        return (-change[self.in_table],)

    def stored(self):
        duals, own = np.zeros((self.problem.n_examples, self.shape.classes)), (self.counted, self.label)
        duals[self.counted[self.pairs[0]], self.pairs[1]] = -self.inside[0]
        duals[own] = 0.0
        duals[own] = -duals[self.counted].sum(axis=1)  # the difference cap - p_y would cancel
        return duals

    def resume(self, state):
        super().resume(state)
        self.make_firm(self.firm)
        if self.chosen.size:
            self.lay_out()

    def most_corrections(self, tuning):
        few, many = tuning.corrections
        return int(np.clip(tuning.share * work_of_matrix(self.problem) / work_of_solution(self.problem), few, many))


def has_many_columns(problem: BlockProblem) -> bool:
    """Whether products of all pairs of columns are too many to be formed for each row; and those of classes are not."""
    classes, d = problem.n_classes, problem.table.shape[1] + 1
    pairs = problem.n_examples * classes * (classes - 1) // 2
    return classes >= MANY_CLASSES and d * (d + 1) // 2 > FEW_PAIRS and pairs <= MOST_PAIRS


def work_of_matrix(problem: BlockProblem) -> float:
    """Floating point operations of one matrix, about: the pairs that are kept, and the factor."""
    size = problem.n_classes * problem.table.shape[1]
    return KEPT * size * problem.table.shape[1] ** 2 / 2.0 + size**3 / 3.0


def work_of_solution(problem: BlockProblem) -> float:
    """Those of a solution with it: three passes over X, and the factor twice."""
    size = problem.n_classes * problem.table.shape[1]
    return size * (6.0 * problem.n_examples + 4.0 * size)


def work_of_pairs(problem: BlockProblem) -> float:
    """Those of one step, with passes over X."""
    classes, size = problem.n_classes, problem.n_classes * problem.table.shape[1]
    return work_of_matrix(problem) + problem.n_examples * (100.0 * size + 10.0 * classes**2)
