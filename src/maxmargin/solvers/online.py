"""The online solver as users name it."""

from numbers import Real

from sklearn.base import BaseEstimator

from ..data.sources.options import truth
from ..problems.blocked import StreamProblem
from ..problems.structured import SampleStream, StructuredProblem
from ..result import History, Result
from . import loop
from .polytope.run import StructuredOptions
from .streams.cache import PRUNING
from .streams.run import StreamOptions, StreamRun
from .streams.structured import OnlineSets, SampleRun


class OnlineDual(BaseEstimator):
    """Dual ascent on streams and data on disk (Ramanan 2013, Algorithm 2): what `fit` uses where it gets a source.

    Blocks are read one after another. Examples that violate their margin are kept in a cache and visited again and again
    while others are read; whoever has to leave it leaves its dual on disk, so that nothing learned is lost and further passes
    converge to the optimum of all examples.

    Structured problems: the oracle is asked for the worst offender of fresh samples, which joins the sample's set of outputs, and
    in between masses move within the sets of samples met before. Of a source of samples the sets that matter are in memory,
    whatever `cache_size` says: a few outputs a sample.

    Parameters
    ----------
    cache_size : float, default=200
        Megabytes for cached examples and for duals. Where the duals of all examples take more than a quarter of it, they lie in
        a temporary file. Besides these the model, a few copies of it, and a few blocks of the source are in memory.
    prune : {"calm", "zero", "never"}, default="calm"
        Who leaves the cache although there is room: examples whose dual is zero and that were calm for two visits; all whose dual
        is zero; or nobody.
    effort : float, default=3
        Visits of cached examples, at the most, for each example that is read. They stop earlier when the cached problem's own
        gap is small. 0 visits every example once a pass, when it is read.
    verify : bool, default=True
        Where the passes end by `max_iter` or a callback, read the source once more for the primal value of the last weights.
        False leaves that out: `certificate_.verified` is then False, and the primal value infinite, unless an earlier pass has
        verified weights (each pass verifies those at its beginning).
    """

    def __init__(self, cache_size: float = 200.0, prune: str = "calm", effort: float = 3.0, *, verify: bool = True):
        self.cache_size = cache_size
        self.prune = prune
        self.effort = effort
        self.verify = verify

    def accepts(self, problem) -> str | None:
        """None, or the reason why this solver cannot serve the problem."""
        if not isinstance(problem, StreamProblem | SampleStream | StructuredProblem):
            return (
                f"OnlineDual has no step for a {type(problem).__name__}: it serves linear and structured models. "
                "Use solver='dual_coordinate'."
            )
        return None

    def solve(self, problem, budget: loop.Budget, history: History, *, seed=0, duals=None, weights=None, average=True) -> Result:
        """Maximise the dual of `problem` until the budget's relative gap is certified."""
        self._check()
        if (reason := self.accepts(problem)) is not None:
            raise TypeError(reason)
        if not isinstance(problem, StreamProblem):
            return loop.solve(self._structured(problem, duals, weights, budget, seed, average), budget, history)
        own = float(self.cache_size), self.prune, float(self.effort), bool(self.verify)
        options = StreamOptions(budget.tol, seed, *own, average)
        run = StreamRun(problem, options, budget.n_jobs)
        try:
            return loop.solve(run, budget, history)
        finally:
            run.close()

    def kind_of_points(self) -> str:
        """What a run on a structured problem ends with and can start from."""
        return "sets"

    def _structured(self, problem, duals, weights, budget: loop.Budget, seed: int, average: bool):
        options = StructuredOptions(budget.tol, seed, average=average, n_jobs=budget.n_jobs)
        if isinstance(problem, SampleStream):
            return SampleRun(problem, options, float(self.effort), bool(self.verify))
        run = OnlineSets(problem, duals, options, float(self.effort))
        run.hint = weights
        return run

    def _check(self) -> None:
        if not _number(self.cache_size) or self.cache_size <= 0:
            raise ValueError(f"cache_size must be a finite number of megabytes > 0; got {self.cache_size!r}.")
        if not _number(self.effort) or self.effort < 0:
            raise ValueError(f"effort must be a finite number >= 0; got {self.effort!r}.")
        truth("verify", self.verify)
        if self.prune not in PRUNING:
            raise ValueError(f"prune must be one of {', '.join(PRUNING)}; got {self.prune!r}.")


def _number(value) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and float("-inf") < float(value) < float("inf")
