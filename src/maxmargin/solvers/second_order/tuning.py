"""Numbers of second-order methods, as those of `solvers/tuning.py`."""

from typing import NamedTuple


class RankingTuning(NamedTuple):
    """Rankings by softened hinges. Evaluations of the softened loss until gaps of 1e-2 and 1e-4, C from 1e-3 to 1, on four made
    sets of normal columns: 50,000 x 50 in 500 groups with five targets, 3,000 x 20, 2,000 x 30 and 300 x 10 in groups of ten to
    twenty with rounded ones; 566 with the first guess, 345 with these, 2026-11-17. That was before steps were told how columns
    spread within groups, and was not counted again."""

    widest: float = 0.3  # the width at first
    share: float = 0.5  # part of the target that the width may take up
    even: float = (
        10.0  # the width shrinks when the slope's part of the gap is no more than this many times its own, or the target
    )
    shrink: float = 0.1  # by this at the most. By guess, 2026-11-17.
    flat: float = 0.8  # part of the first slope that the end of a line may have
    sampled: int = 50_000  # samples that tell how far columns spread within groups. By guess, 2026-11-17.
    factored: int = 500  # columns up to which it is told how they go together. By guess, 2026-11-17.
    remembered: int = 10  # steps that tell of the second derivatives. By habit, 2026-11-17.


class PairsTuning(NamedTuple):
    """Rankings whose pairs are written out. By guess, on 40 x 200 at C = 1e8, one group and groups of four, 2026-11-18."""

    first: int = 60  # steps after which it is asked whether they crawl, and again after twice as many
    numbers: float = 2e7  # of the differences of all pairs, at the most
    work: float = 2e9  # products of a step of the interior point, at the most


class BeginningTuning(NamedTuple):
    """Where Newton's method begins instead of coordinate passes: differentiable losses of one score. Passes to a gap of 1e-3 are
    about `least` + `slope` sqrt(r), r the mean of C s_i ||x_i||^2, with `slope_searched` where a dual step has no closed form
    (the log loss bends less); Newton's method takes as long as `passes` of them, with the matrices of `steps` steps besides.
    Processor seconds of both on made sets, 3,000 x 5 to 50,000 x 100 and 100,000 x 4, columns normal, Student t (2.5 degrees of
    freedom, mixed) and log-normal, C n = 100 and 1,000, targets 1e-3 and 1e-6: 12.2 in all with `passes` = 8 and one slope, 11.2
    with `passes` = 2, 10.0 by the better of both; the second slope came after that, by the passes counted there. 2026-11-17."""

    least: float = 3.0
    slope: float = 12.0
    slope_searched: float = 4.0
    passes: float = 2.0
    steps: float = 4.0


class WholeTuning(NamedTuple):
    """An interior point in one call, where searches begin. Steps to a gap of 1e-4 at nine C from 1e-4 to 1e4, each begun at the
    weights of the one before, on breast_cancer, diabetes, 2,000 rows of cadata and of made regression: 8 to 10 with `times` 10,
    more with 0.01, 0.1 and 1; from w = 0 up to 17. 2026-11-17. `border`, `floor`, `most`, `part` and `work` are guesses."""

    work: float = 2e6  # examples times squared weights up to which it is used
    border: float = 0.99  # part of the way to the border that steps go
    floor: float = 0.1  # part of the target that the products of pairs may stand for
    times: float = 10.0  # the products at first, as many times the primal value
    most: int = 40  # steps
    part: float = 0.9  # of the gap asked for, so that the certificate has room for rounding


class SplitTuning(NamedTuple):
    """Alternating directions, and how the interior point takes up what they have found. Digits in 14 x 14 pixels of 0..255,
    others than those that are reported, C = 1, 2026-11-18: after 800 rounds on all examples with `weight` 0.003, 0.01 and 0.03
    the primal value is 731, 718 and 718 (689 at the solution), and half the square of what the duals leave of the gradient 5.6,
    36 and 240 times that. Interior steps then, with 0.003: 14, 11, 12, 9 and 11 with `pulled` 0.3, 0.1, 0.03, 0.01 and 0.003. Few
    rounds on all examples and the others on those that are near, pairs taken up ahead: 8 steps, and 8 with `weight` 0.001. Rounds
    of both kinds and processor seconds at C = 0.01, 0.1 and 1: 150 and 650 5.0, 5.7 and 6.1; 100 and 400 4.2, 4.3 and 6.0; 100
    and 200 3.7, 4.1 and 6.0; 40 and 100 7.0, 5.6 and 7.7. One set: steps vary by two or three with little cause. `times` and
    `pulled` again with `FirmTuning`, two sets of other digits at C = 100: 1 and 0.01 take 14 and 18 steps, 5 and 0.1 12 and 17.
    """

    rounds: int = 300
    weight: float = 0.003  # of the squares that tie scores to weights, times the caps, for costs of one
    relax: float = 1.7  # by habit
    pulled: float = 0.1  # part of the way to the central path at which their duals are taken up
    times: float = 5.0  # mu there, times the mean over the pairs at work of what the losses are


class FirmTuning(NamedTuple):
    """How much larger the quadratic term is at first, for the interior point for many columns. Digits in 14 x 14 pixels of
    0..255, two sets of others than those that are reported, steps at C = 100 (mean of cap ||x||^2: 1.2e8): 20 and 26 without it;
    with `power` 2 and `size` 1e7, 1e6 and 3e5 19 and 21, 14 and 18, 17 and 18 (the last with 5 and 0.1 for `times` and `pulled`,
    1e6 then 12 and 17); with 1 for `power` and 1e6 18 and 15; with 1e4 for `size` they do not end. 2026-11-18."""

    size: float = 1e6  # mean of cap ||x||^2 that the problem has at first
    power: float = 2.0  # of the part that is left of mu: how fast that falls


class WorkingTuning(NamedTuple):
    """Pairs of examples and classes that the interior point for many columns works on: of the size of costs below the highest of
    the example. The same digits: 9 and 10 steps with 2 and 3 for `near` (8,500 and 13,000 pairs of 72,910). `part` and
    `taken` by guess. 2026-11-18."""

    near: float = 3.0  # at first
    grown: float = 1.0  # those that come as near are taken up
    part: float = 0.9  # of the way at which another pair would be the highest that a step goes
    taken: float = 0.1  # part of the cap that a pair is given at the most when it is taken up


class BlendTuning(NamedTuple):
    """How directions of the interior point for many columns are corrected. Digits in 14 x 14 pixels of 0..255, others than those
    that are reported, C = 1, 2026-11-17: 33 steps with whole corrections, three of them; 30 with parts of three, 19 with parts of
    six (`beyond` 0.3, `longer` 1.02), 14 with parts of ten and a second try (16 with a third try, 15 with parts down to 0.03).
    `share` by what a matrix and a solution take there. `short`: at C = 100 the digits reported take 43 steps without it and 31
    with it (50 with whole corrections), the others at C = 1 then 18."""

    parts: tuple[float, ...] = (1.0, 0.75, 0.5, 0.25, 0.1)  # of a correction that are tried
    corrections: tuple[int, int] = (3, 10)  # in a step at the most, where the matrix costs little and much
    share: float = 0.25  # part of the work of a matrix that all corrections of a step may take, about
    short: float = 0.3  # part of a step below which the next begins with the whole way to the centre
    beyond: float = 0.3  # how much further than it leads a step is corrected for
    nearer: float = 0.5  # of that, at the second try, after which no correction follows that makes no step longer
    longer: float = 1.01  # factor by which a correction must make a step longer


RANKING = RankingTuning()
WRITTEN_OUT = PairsTuning()
BEGINNING = BeginningTuning()
WHOLE_PATH = WholeTuning()
SPLIT = SplitTuning()
SPLIT_FIRST = SPLIT._replace(rounds=100)  # with all examples
FIRM = FirmTuning()
WORKING = WorkingTuning()
BLENDS = BlendTuning()
