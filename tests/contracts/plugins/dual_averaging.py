"""A solver: the subgradient method of dual averaging, for every problem with a risk and a plain quadratic term.

Every plane met lies below the risk, and so does their mean, offset + <slope, w>: 1/2 ||w||^2 plus that is least at w = -slope,
and its value there is a lower bound. The next plane touches the risk at this point.
"""

import numpy as np

from maxmargin.extend import Run, Solver, layout_of, risk_of


class AveragingRun(Run):
    exact, warm, average = True, False, True

    def __init__(self, problem, setting):
        self.problem, self.layout = problem, layout_of(problem)
        self.risk = risk_of(problem, n_jobs=setting.n_jobs)
        self.slope, self.offset = np.zeros(self.risk.dim), 0.0
        self.value, self.best, self.w, self.dual = np.inf, np.inf, np.zeros(self.risk.dim), 0.0

    def advance(self, stop):
        w = -self.slope
        values, slopes, offsets = self.risk.cut(w)
        self.value = 0.5 * w @ w + values.sum()
        if self.value < self.best:
            self.best, self.w = self.value, w
        self.passes, self.visits = self.passes + 1, self.visits + self.problem.n_examples
        part = 2.0 / (self.passes + 1.0)
        self.slope = (1.0 - part) * self.slope + part * slopes.sum(axis=0)
        self.offset = (1.0 - part) * self.offset + part * offsets.sum()
        self.dual = max(self.dual, self.offset - 0.5 * self.slope @ self.slope)
        return self.best - self.dual

    def synchronise(self):
        return self.dual

    def candidates(self):
        return [self.layout.shaped(self.w)]

    def left(self):
        return None


class DualAveraging(Solver):
    keeps_duals = False

    def serves(self, problem):
        if not problem.in_memory or not problem.regularizer.plain or problem.half_spaces is not None:
            return "DualAveraging needs data in memory, and neither priors nor signs."
        return None if risk_of(problem) is not None else f"DualAveraging knows no subgradient of a {type(problem).__name__}."

    def begin(self, problem, start, setting):
        return AveragingRun(problem, setting)
