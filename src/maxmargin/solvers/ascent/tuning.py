"""Numbers of coordinate ascent, as those of `solvers/tuning.py`."""

from typing import NamedTuple

from ..tuning import PACE, VISITS, PaceTuning, VisitTuning


class BlockTuning(NamedTuple):
    """When dense rows of classes are stepped in blocks, and of how many examples: what a visit costs either way, in seconds, but
    for the step itself; and how sweeps and threads go about it. In float32; in float64 what is counted by numbers costs twice as
    much. By parts of passes over made rows, 256 to 1,024 columns and 100 to 1,000 classes, Crammer and Singer's loss, one core of
    a Neoverse N1, 2026-11-16."""

    # Of a weight that goes through the processor for one example, where all weights stay in a core's own cache (so many bytes)
    # and where they do not.
    near: float = 2.2e-10
    far: float = 5.5e-10
    cached: int = 1 << 19
    # Of a multiplication and addition of matrix products with the weights; how many more examples a block would have for the
    # same time were weights not put in order for each product, where they stay in the cache and where they do not; and what the
    # update takes of such a product, as many changes are zero. Of one in products of the examples. For `packed_far` 8,000 and
    # 50,000 x 1,024 with 1,000 classes, 1 and 16 cores of x86, blocks of 64, 128 and 256, 2026-11-19.
    product: float = 5.5e-11
    packed: float = 5.0
    packed_far: float = 10.0
    update: float = 0.6
    square: float = 4e-11
    # Of a class and an example before it in the block, which the scores of an example have to follow.
    follow: float = 3.5e-11
    # Of a number that is copied from the data, of the rest of a visit, and of a block.
    copied: float = 1.1e-9
    visit: float = 5e-7
    call: float = 5e-5
    # Part of the cost row by row that blocks must be below.
    sure: float = 0.9
    # Examples of a block, and multiplications and additions of one at the most: a run stops between two.
    sizes: tuple[int, ...] = (32, 48, 64, 96, 128, 256)
    most: float = 2.0**30
    # Of a class in a step; in a sweep, of a class among which those with duals are looked for, and of one that has a dual, beside
    # products. 200 to 4,000 classes, 64 to 1,024 columns, 4 to 18 classes with duals, a Xeon core, 2026-11-19.
    step: float = 1.4e-9
    listed: float = 4e-10
    found: float = 6e-8
    # The part of a pass's visit that one of a worthwhile sweep costs. A Xeon core, 2026-11-17.
    cheaper: float = 0.4
    # Sweeps over the classes that have duals, after a pass over all of them. There is another one while the last has met more
    # than this part of the gap of the pass. `again` out of 2, 4 and 8: made rows, 3,000 x 512 with 1,000 classes, 10,000 x 256
    # with 100, 20,000 x 128 with 2,000 and 20,000 x 256 with 300; the part, 0.05, 0.1 or 0.15, does not matter, 2026-11-19.
    again: int = 4
    worth: float = 0.05
    # Sweeps in turn: what it costs one thread to order a visit, and each class that it has duals of. 50,000 x 1,024 with 1,000
    # classes and 200,000 x 768 with 100, 2 to 16 threads, 2026-11-19.
    ordered: float = 4e-7
    turn: float = 5e-8


class PartTuning(NamedTuple):
    """When threads walk through parts of the examples side by side, and how often they meet: what that costs, in seconds. Made
    rows, 8 to 200 columns and 1 to 100 classes, dense and CSR, one core of a Neoverse N1 with other work beside, 2026-11-16."""

    # Of an entry of a row that is visited, of one score; of many in float32, for each of these, where all weights stay in the
    # own cache of a core (so many bytes) and where they do not; of the rest of a visit.
    entry: float = 1.5e-9
    near: float = 3e-10
    far: float = 9e-10
    cached: int = 1 << 19
    visit: float = 5e-8
    # Of an order to threads; of each thread in a meeting; of a weight that each thread compares, and with that of another.
    # 51 to 982,464 weights, 2 to 16 threads on 16 cores of x86, 2026-11-18.
    order: float = 1e-4
    thread: float = 7e-7
    weight: float = 2.4e-9
    pair: float = 1.4e-10
    # Of a weight that is squared, where threads share one set of them. Alone two thirds of it, 76,896 and 1,032,192 weights, a
    # Xeon core, 2026-11-19.
    squared: float = 4e-10
    # Part of its visits that a pass of T threads which meet R times loses, in times of T / R; how many meetings a pass has at the
    # most, and at least. Losses of 0.04 to 1 times T / R, the more the fewer rows a class has: seven made sets, dense and
    # CSR, 2 to 1,000 classes and regression, 4 to 128 meetings of 16 threads, 2026-11-18 and 2026-11-19.
    lost: float = 0.5
    most: int = 256
    fewest: int = 3
    # The longest round, in times of what a thread visits between two looks at the clock. By guess, 2026-11-19.
    longest: float = 8.0
    # Threads that sweep over the classes which have duals, at the most, and how often they meet in a sweep. The two sets of
    # `BlockTuning.ordered`, 16 threads: with 4 and 8 meetings it takes more passes, up to twice as many, 2026-11-19.
    sweepers: int = 8
    sweeps: int = 16
    # Weights that all copies may have together.
    copies: int = 1 << 28
    # Of a visit, what an extrapolation costs; an example that may be listed, one that is; times an order that threads must bring.
    reach: float = 0.1
    scan: float = 1e-9
    drawn: float = 5e-9
    gain: float = 2.0
    # Vectors of features of a thread at least, for it to add to these, not to the weights of some classes. By guess, 2026-11-19.
    features: int = 16
    # Vectors of classes of a thread at least, where what an extrapolation lacks is taken back by runs of classes. By guess: a row
    # is read once for a few of them, 2026-11-18.
    vectors: int = 3
    # Duals that a thread copies at least. By guess: a tenth of a millisecond, 2026-11-18.
    copied: int = 1 << 16
    # Relative gap from which on one thread goes on alone: dual values that differ by less than rounding do not say how far to go.
    # Four made classes, 40 rows, on which two threads stay at 1e-8 without it, 2026-11-16.
    fine: float = 1e-6


class AscentTuning(NamedTuple):
    """Dual coordinate ascent with closed-form steps."""

    visits: VisitTuning = VISITS
    pace: PaceTuning = PACE
    # The longest extrapolation, in units of the last change. 0.9 until an extrapolation could no longer cost more than its pass
    # had gained; ill-conditioned problems, set not recorded, 2026-11-15. Sets of outputs kept 0.9 (`PolytopeTuning`).
    farthest: float = 0.95
    # Walks along the half-spaces during a pass. Set not recorded, 2026-11-15.
    walks: int = 16
    # Rows that are extrapolated before the weights take back what these lack. By what a call costs, 2026-11-16.
    lacking: int = 512
    # Passes in a row at the most, of which the loop does not hear where it has nothing to do. By guess, 2026-11-18.
    in_a_row: int = 64
    blocks: BlockTuning = BlockTuning()
    parts: PartTuning = PartTuning()


class KernelTuning(NamedTuple):
    """Ascent on kernel problems, label by label. Sets not recorded, all 2026-11-15; `slack` came with `python -m benchmarks
    multilabel_kernel`."""

    # Part of the memory that copies may take.
    copy: float = 0.125
    # Part of the samples in the first round, and how many times more of them each time.
    first: float = 0.25
    growth: int = 4
    # The least that a round should leave of the gap of a copy; `later` from the third round on. (The first lacks samples, the
    # second starts from scores that are far off: exactness would be wasted on them.) And the most.
    rest: float = 0.05
    later: float = 0.001
    most: float = 0.5
    # Slopes so small may change their sign within a round: these samples take part, if their rows are here.
    slack: float = 0.08
    # A label is done when its gap is below this part of its share of the target.
    goal: float = 0.6
    # Steps a sample of a copy at the most, and steps between two looks at the gap of a copy, at which duals turn to other pieces.
    patience: int = 30
    look: int = 128
    # Steps, in times of the samples of a copy, after which all duals go on in the direction in which they have come. Without it
    # fits took 1.14 times as long, with 0.5 and 0.125 (and 64 steps between looks) 1.07 and 1.03 times. Handwritten letters (16
    # principal components) with 26 classes and as two, digits, ten made classes, and two made sets for regression, 1,797 to 4,000
    # rows, hinge and epsilon-insensitive losses and their squares, C = 1 and 10, Neoverse N1, 2026-11-18.
    along: float = 0.06


class KernelBlockTuning(NamedTuple):
    """Ascent on kernel problems with a loss of one's own, a block of samples at a time. Parts of letter, 2,000 and 3,000 rows,
    2026-11-16, with losses that have other ways now."""

    # Part of the memory that the rows of a block may take, which are copied. Not measured.
    copy: float = 0.25
    # Samples of a block: steps within it are exact, scores of all others follow at its end.
    block: int = 256
    # What steps should leave of the gap of a block, and how many times they go over it at the most.
    rest: float = 0.1
    sweeps: int = 20
    # Samples whose share of the gap is below this part of what the target leaves for each are not visited.
    calm: float = 0.3
    # How far duals go on between passes, in units of the last change: at first, how much more after a success and less after
    # a failure, and the bounds of it.
    reach: float = 1.0
    longer: float = 1.5
    shorter: float = 0.5
    nearest: float = 0.5
    farthest: float = 64.0


class KernelPairTuning(NamedTuple):
    """Ascent on kernel problems by pairs of classes. Handwritten letters (16 principal components), 2,000 and 5,000 rows, seven
    made classes and scikit-learn's digits, C = 1 and 10, 2026-11-16; `copy`, `sweeps` and `together` were not measured. Half or
    twice as much of most changed times by less than a tenth. `rest`, `later`, `most`, `goal`, `wide`, `nearest`, `least` and
    `along` again for rounds of few classes: handwritten letters, digits and 40 made classes, Neoverse N1, 2026-11-18."""

    # Part of the memory that copies may take.
    copy: float = 0.25
    # Part of the samples in the first round, and how many times more of them each time.
    first: float = 0.25
    growth: int = 4
    # The least that a round should leave of the gap of its copy; `later` from the third round on; and the most.
    rest: float = 0.1
    later: float = 0.03
    most: float = 0.7
    # A round is done when the gap of its copy is below this part of the target.
    goal: float = 0.8
    # Samples whose share of the gap is below this part of what the target leaves for each take part only if their mass is spread.
    calm: float = 0.1
    # Samples whose mass may come to lie in another class within a round, as that lacks so little.
    slack: float = 0.05
    # Rounds in which a sample may have mass in any class; from then on in those that have some of it, and so many that are worth
    # most. C = 10: 3 took 1.2 times as long on letters, 5 as long; one round of all classes, then 6, up to 1.1 times as long.
    wide: int = 2
    nearest: int = 4
    # Sweeps over the pairs of classes in a round at the most.
    sweeps: int = 100
    # Pairs whose part of the gap is below this part of the average are left out.
    least: float = 0.15
    # What steps should leave of the gap of a pair, steps a sample of it at the most, and steps between two looks at its gap.
    pair_rest: float = 0.3
    patience: int = 30
    look: int = 16
    # As `KernelTuning.along`, of the samples of a pair: 0.25 took as long, 2 a tenth longer on made classes.
    along: float = 0.5
    # Sweeps after which the masses go on in the direction in which they have come; not in the rounds of all classes, which end
    # before that helps.
    every: int = 2
    # Pairs of classes between two looks at the clock.
    together: int = 512
    # Part of all samples that a round must have room for, or rounds undo each other: with 0.35 of them it took 0.2 to 3.1 s to a
    # gap of 1e-3, blocks of samples 2.6 s at least, if they came there; with 0.22 blocks were nearer it on two sets. Three made
    # sets, 5 to 20 columns and 5 to 10 classes that overlap little and much, 3,000 and 4,000 rows, C = 1 and 10, 2026-11-17.
    enough: float = 1.0 / 3.0


class KernelNewtonTuning(NamedTuple):
    """Newton's method on kernel problems. Handwritten letters (16 principal components) with 26 classes and as two, 2,000 and
    5,000 rows, and seven made classes, 2,000 rows, C = 1 and 10, 2026-11-16; `steps`, `whole` and `fewest` were not measured."""

    # What conjugate gradients should leave of the residual, and their steps at the most.
    rest: float = 0.3
    steps: int = 100
    # The samples that the kernel matrix is approximated by: this part of all, and no less and no more than these; the part of all
    # from which on it is not approximated; and, where memory allows for less only, the fewest that will do.
    part: float = 0.1
    least: int = 100
    most: int = 400
    whole: float = 0.5
    fewest: int = 32

    def few(self, n: int) -> int:
        return min(n, max(self.least, min(self.most, int(self.part * n))))


ASCENT, KERNEL = AscentTuning(), KernelTuning()
KERNEL_BLOCKS, KERNEL_PAIRS, KERNEL_NEWTON = KernelBlockTuning(), KernelPairTuning(), KernelNewtonTuning()
