"""The online solver as users name it."""

from functools import singledispatch

from sklearn.utils._param_validation import StrOptions

from ..problems.blocked import StreamProblem, streamed
from ..problems.linear import LinearProblem
from ..problems.multilabel import MultilabelProblem
from ..problems.structured import SampleStream, StructuredProblem
from ..utils.parameters import NOT_NEGATIVE, POSITIVE
from .base import Run, Setting, Solver, Start
from .polytope.run import StructuredOptions
from .streams.cache import PRUNING
from .streams.run import StreamOptions, StreamRun
from .streams.structured import OnlineSets, SampleRun


class OnlineDual(Solver):
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

    _parameter_constraints = {
        "cache_size": [POSITIVE],
        "prune": [StrOptions(set(PRUNING))],
        "effort": [NOT_NEGATIVE],
        "verify": ["boolean"],
    }

    by_groups = False
    reads = True

    def __init__(self, cache_size: float = 200.0, prune: str = "calm", effort: float = 3.0, *, verify: bool = True):
        self.cache_size = cache_size
        self.prune = prune
        self.effort = effort
        self.verify = verify

    def serves(self, problem):
        if run_of.dispatch(type(problem)) is run_of.dispatch(object):
            return (
                f"OnlineDual has no step for a {type(problem).__name__}: it serves linear and structured models. "
                "Use solver='dual_coordinate'."
            )
        return None

    def begin(self, problem, start, setting):
        return run_of(problem, self, start, setting)


@singledispatch
def run_of(problem, solver: OnlineDual, start: Start, setting: Setting) -> Run:
    """A run on this kind of problem."""
    raise TypeError(f"OnlineDual has no run on a {type(problem).__name__}.")


@run_of.register
def _(problem: StreamProblem, solver, start, setting):
    own = float(solver.cache_size), solver.prune, float(solver.effort), bool(solver.verify)
    return StreamRun(problem, StreamOptions(setting.tol, setting.seed, *own, setting.average), setting.n_jobs)


@run_of.register
def _(problem: LinearProblem, solver, start, setting):
    """Data in memory are read in blocks like a source."""
    return run_of(streamed(problem), solver, start, setting)


@run_of.register
def _(problem: MultilabelProblem, solver, start, setting):
    """All labels at once: a source is read once for all of them, too."""
    return run_of(problem.whole(), solver, start, setting)


@run_of.register
def _(problem: StructuredProblem, solver, start, setting):
    run = OnlineSets(problem, start.duals, structured_options(setting), float(solver.effort))
    run.hint = problem.fitting(start.weights)
    return run


@run_of.register
def _(problem: SampleStream, solver, start, setting):
    return SampleRun(problem, structured_options(setting), float(solver.effort), bool(solver.verify))


def structured_options(setting: Setting) -> StructuredOptions:
    return StructuredOptions(setting.tol, setting.seed, average=setting.average, n_jobs=setting.n_jobs)
