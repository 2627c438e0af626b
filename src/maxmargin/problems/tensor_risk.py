"""The losses of a problem on a device as a convex function: what bundle methods and `risk` ask for, by blocks of rows.

At weights W each example has duals b_i at which its loss is attained, and by Fenchel and Young

    loss_i(z') >= reward_i(b_i) - <b_i, z'>     for all scores z', with equality at those of W.

Any feasible b_i give a plane below the loss: where rounding keeps them from being the best, it is a little lower, not wrong.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..data.tensors import library
from ..regularizers.coupled import Coupling
from .risk import Cut, Layout, Risk, layout_of, plain, risk_of
from .tensors import TensorProblem


class TensorRisk(Risk):
    """The losses of a problem on a device; group p has the examples p, p + P, p + 2 P, ..."""

    nonnegative = ours = True

    def __init__(self, problem: TensorProblem, n_groups: int, layout: Layout):
        self.problem, self.n_groups, self.layout = problem, n_groups, layout
        self.dim = layout.flat(np.zeros(problem.weight_shape)).size

    def cut(self, w):
        problem = self.problem
        W = problem.coefficients(self.layout.shaped(w)).reshape(problem.scores, -1)
        sums = problem.put(np.zeros((2, self.n_groups)))  # values and offsets
        r = problem.put(np.zeros((self.n_groups, *W.shape)))
        for rows, X, S, error in problem.scored(W):
            A = problem.loss.attained(rows, S)
            for p, part in self.parts(rows):
                own = rows[part].contiguous()  # kernels read rows that lie one after another
                b, reward, _ = problem.loss.repaired(own, A[part].contiguous())
                value = problem.loss.value(own, S[part].contiguous(), None if error is None else error[part])
                sums[:, p] += library().stack([value, reward])
                r[p, :, :-1].addmm_(b.T, X[part].double())
                r[p, :, -1] += problem.table.bias * b.sum(0)
        values, offsets = sums.cpu().numpy()
        slopes = np.stack([self.flat(each) for each in r.cpu().numpy()])
        return Cut(values, -slopes, offsets)

    def parts(self, rows: Any) -> Iterator[tuple[int, slice]]:
        """The examples of each group among rows that follow each other."""
        first, many = int(rows[0]), rows.numel()
        for p in range(self.n_groups):
            start = (p - first) % self.n_groups
            if start < many:
                yield p, slice(start, None, self.n_groups)

    def flat(self, r: np.ndarray) -> np.ndarray:
        """sum_i b_i x_i, (scores, features + 1), as the weights are laid out."""
        whole = np.stack([r, np.zeros_like(r)]) if self.problem.R is not None else r.reshape(self.problem.weight_shape)
        return self.layout.flat(whole)


@layout_of.register
def _(problem: TensorProblem) -> Layout:
    """As they are; of coupled labels U, as for those in host memory."""
    if problem.R is None:
        return plain(problem)
    F, inverse = Coupling(problem.R).factor

    def shaped(u: np.ndarray) -> np.ndarray:
        U = u.reshape(F.shape[1], -1)
        return np.stack([inverse.T @ U, F @ U])

    return Layout(lambda both: (F.T @ both[0]).ravel(), shaped)


@risk_of.register
def _(problem: TensorProblem, n_groups=1, n_jobs=1, layout=None):
    return TensorRisk(problem, n_groups, layout or layout_of(problem))
