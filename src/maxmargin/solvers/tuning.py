"""Numbers that were chosen by measuring: what each does, and the set and the date it was chosen on.

A group of them is a tuple, and a run is given its group with its options. To vary one, hand on another group:

    options = AscentOptions(tol, seed, dtype, tuning=ASCENT._replace(farthest=0.9))

Kernels get these numbers as arguments or within one (the order of visits, a loss), never by name: a number that is compiled in
cannot be varied. Dates are those of the log; where it names no set, "set not recorded" says so: such a number may be a guess.

Rooms below this one cannot import it, so that these stand where they are used, with set and date beside them:

    data/rows.py                  SPARSE_BELOW, SPARE: which dense rows are read by an index of their non-zeros
    data/gram.py                  TILE, STRIP, BLOCK, LISTED_BELOW: how rows of a kernel matrix are computed
    data/table.py                 BLOCK_SIZE: rows of a block of a table
    data/gathered.py              ENTRY, WEIGHT_MOVED, TILE_SIDE: when a product is a sum over entries, and how weights are turned
    data/sources/memory.py        BLOCK_ROWS: rows of a block of arrays in memory
    projections/__init__.py       LONG, SAMPLE, PART, MANY, FEW, AT_FIRST: when and how a long vector is read once
    losses/topk_steps.py          SHORTLIST, a field of the losses: which classes a visit puts aside
    losses/multilabel_steps.py    Coupled.sweeps, a field of the loss: sweeps of a visit over coupled labels
    problems/linear.py            CHUNK, TAKEN, BY_PRODUCTS: examples of a part of a sum, and when it is a matrix product
    problems/tensors.py           COLUMNS_A_SUM, TOGETHER_BYTES; data/streamed.py PIECE_BYTES, WHOLE_X; more in device/tuning.py
    problems/structured.py        SPANS: of a sum over samples
    problems/risk.py, ranking.py  CUT_SPANS: of a sum of subgradients; INSERTED: how runs are sorted
    problems/multilabel.py        TOGETHER, TOGETHER_DENSE, PARTS_DENSE: labels of a group
    structures/encoded/python.py  KEPT_BELOW: which joint features are kept without their zeros

and this one without a set or a date:

    structures/graph.py           FILL_UP_TO: nodes up to which a better order of elimination is looked for

What follows from the mathematics or from floating point, and limits that only keep a loop from going on for ever, are not here.
"""

from typing import NamedTuple


class LoopTuning(NamedTuple):
    """When the outer loop evaluates exactly."""

    # The exact gap is about this part of the estimate, which is taken while the weights still move. A miss costs as much as three
    # passes; 0.65 before. Set not recorded, 2026-11-15.
    promise: float = 0.7
    # Passes' worth of visits, and part of all so far, after which an evaluation is made in any case. Set not recorded,
    # 2026-11-15.
    seldom: tuple[int, float] = (20, 0.25)
    # The same where the estimate is within this factor of the target: it is often too high by as much. Chosen with coupled
    # labels, set not recorded, 2026-11-15.
    near: float = 2.0
    near_seldom: tuple[int, float] = (4, 0.1)
    # Passes' worth of visits between two evaluations at least. Set not recorded, 2026-11-15.
    apart: float = 0.5
    # Part of the last gap above which there was no progress. Set not recorded, 2026-11-15.
    stalled: float = 0.95
    # How far off an estimate may be, as a factor that an evaluation teaches. Set not recorded, 2026-11-15.
    learned: tuple[float, float] = (0.1, 10.0)
    # An exact gap so many times as large as the estimate was hidden by examples that rest: all are visited. Set not recorded,
    # 2026-11-15.
    hidden: float = 2.0
    # A candidate whose gap is this many times the target says that the others are not there yet either. Set not recorded,
    # 2026-11-15.
    far: float = 3.0
    # Rounding is thought of where a relative gap this small has been best for so many evaluations and passes, but for this part
    # of it. Not measured, 2026-11-16.
    fine: float = 1e-6
    still: int = 8
    settled: float = 0.9
    # Passes without progress, and half of all, after which a gap that small is what is left. Not measured, 2026-11-16.
    long: int = 200


class PaceTuning(NamedTuple):
    """How often a run looks at the clock."""

    # Multiplications and additions between two looks: a few hundredths of a second. By the speed of a core, 2026-11-16.
    work: int = 1 << 26
    # Seconds between two looks, where nothing is known beforehand. As asked for, ten a second and more, 2026-11-16.
    look: float = 0.05
    # Examples between two looks at the most: of one score, of a row of scores, listed constraints. Set not recorded, 2026-11-15.
    scalars: int = 1 << 16
    rows: int = 1 << 12
    constraints: int = 1 << 14


class VisitTuning(NamedTuple):
    """Which examples a pass visits, and what is asked for ahead of a visit: what all runs over examples share."""

    # An example rests when its share of the gap is below this part of the average share that the target allows. Set not recorded,
    # 2026-11-15.
    calm: float = 0.1
    # Passes that an example rests at the most; it fits into eight bits. Set not recorded, 2026-11-15.
    longest: int = 64
    # Examples side by side that are visited one after the other, in sets of more than `many` rows of at most `short` bytes: half
    # of a visit to a short row is waiting for memory. With 1 << 14 in place of `many` smaller sets lost passes. Sets not
    # recorded, 2026-11-15.
    run: int = 8
    many: int = 1 << 17
    short: int = 1 << 10
    # Visits, one at least, by which an example is asked for before its turn: random order defeats the processor's own guess.
    # `python -m benchmarks fit`, workload not recorded, 2026-11-15.
    ahead: int = 2
    # Weights up to this many stay in a core's own cache, and are not asked for. As `ahead`.
    cached: int = 1 << 17
    # Passes before the first extrapolation: an easy problem is solved by then. Set not recorded, 2026-11-15.
    start: int = 5


LOOP, PACE, VISITS = LoopTuning(), PaceTuning(), VisitTuning()


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
    # same time were weights not put in order for each product; and what the update takes of such a product, as many changes are
    # zero. Of one in products of the examples.
    product: float = 5.5e-11
    packed: float = 5.0
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
    sizes: tuple[int, ...] = (32, 64, 128, 256)
    most: float = 2.0**30
    # Of a class in a step; the part of a pass's visit that one of a worthwhile sweep costs. A Xeon core, 2026-11-17.
    step: float = 2e-9
    cheaper: float = 0.4
    # Sweeps over the classes that have duals, after a pass over all of them. There is another one while the last has met more
    # than this part of the gap of the pass. `again` out of 0, 2, 4 and 8: made rows, 3,000 x 512 with 1,000 classes and 10,000 x
    # 256 with 100; the part by guess, 2026-11-16.
    again: int = 4
    worth: float = 0.05
    # Threads: of a meeting, and of each that comes; of getting all to work, and each; how many times as long products with few
    # classes take; the part that more threads must save. By guess, 2026-11-17.
    meeting: tuple[float, float] = (1e-6, 1e-7)
    muster: tuple[float, float] = (1e-4, 1e-5)
    narrow: float = 1.2
    spare: float = 0.03


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
    # Of an order to threads; a meeting, and each thread in it; a weight that each thread compares, and with that of another.
    # Barriers, and 400,000 CSR rows of 20,000 columns, 2 to 16 threads on 16 cores of x86, 2026-11-17.
    order: float = 1e-4
    meeting: float = 1e-6
    thread: float = 1.6e-6
    weight: float = 5e-9
    pair: float = 6e-10
    # Part of the visits' time that meetings may take; how many in a pass at the most, and at least.
    part: float = 0.1
    most: int = 128
    fewest: int = 3
    # Of a visit, what an extrapolation costs; an example that may be listed, one that is; times an order that threads must bring.
    reach: float = 0.1
    scan: float = 1e-9
    drawn: float = 5e-9
    gain: float = 2.0
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
    # Steps a sample of a copy at the most, and steps between two looks at the gap of a copy.
    patience: int = 30
    look: int = 64


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
    twice as much of most changed times by less than a tenth."""

    # Part of the memory that copies may take.
    copy: float = 0.25
    # Part of the samples in the first round, and how many times more of them each time.
    first: float = 0.25
    growth: int = 4
    # The least that a round should leave of the gap of its copy; `later` from the third round on; and the most.
    rest: float = 0.05
    later: float = 0.01
    most: float = 0.5
    # A round is done when the gap of its copy is below this part of the target.
    goal: float = 0.6
    # Samples whose share of the gap is below this part of what the target leaves for each take part only if their mass is spread.
    calm: float = 0.1
    # Samples whose mass may come to lie in another class within a round, as that lacks so little.
    slack: float = 0.05
    # Sweeps over the pairs of classes in a round at the most.
    sweeps: int = 100
    # Pairs whose part of the gap is below this part of the average are left out.
    least: float = 0.3
    # What steps should leave of the gap of a pair, steps a sample of it at the most, and steps between two looks at its gap.
    pair_rest: float = 0.3
    patience: int = 30
    look: int = 16
    # Sweeps after which the masses go on in the direction in which they have come.
    every: int = 2
    # Pairs of classes between two looks at the clock.
    together: int = 64


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


class RoundTuning(NamedTuple):
    """Rounds of visits to structured samples, side by side."""

    # Multiplications that a part of a round must have to do to be worth it, for each part there is, and how many each weight adds
    # to that: what is not compiled takes about a millisecond a round. 6,877 handwritten words (`python -m benchmarks structured`,
    # ocr_all), by processor time, 2026-11-16: too little for threads.
    part: float = 1.2e6
    weight: float = 20.0
    # Rounds that a pass has at least, and how many times as long as worth it the longest is. On the same words, 2026-11-16: four
    # parts took 1.7 times the passes of one with 8 rounds, 1.4 times with 16.
    rounds: int = 16
    longest: float = 4.0


SIDE_BY_SIDE = RoundTuning()


class PolytopeTuning(NamedTuple):
    """Structured problems: working sets and linearization."""

    visits: VisitTuning = VISITS
    pace: PaceTuning = PACE
    rounds: RoundTuning = SIDE_BY_SIDE
    # Outputs a sample has room for at first. Set not recorded, 2026-11-15.
    outputs: int = 4
    # Samples whose rises are added up before they are added to the dual value. Set not recorded, 2026-11-15.
    stretch: int = 256
    # Part of the visits of a gap-driven pass that go to samples regardless of their gap. Set not recorded, 2026-11-15.
    anyway: float = 0.05
    # The marginal of a wrong label at the start. Set not recorded, 2026-11-15.
    spread: float = 0.01
    # Part of the last oracle's promise that an output met before must hold to be used instead, and for how many passes it may be.
    # 626 handwritten words (`python -m benchmarks structured`, ocr), 2026-11-15.
    trust: float = 0.5
    patience: int = 10
    # A corrective visit moves pairs until the gap over the set is `part` of the gap before, or `steps` for each output. Set not
    # recorded, 2026-11-15.
    part: float = 0.1
    steps: int = 10
    # The longest extrapolation, in units of the last change: see `AscentTuning`. Set not recorded, 2026-11-15. Nine problems of
    # made chains (80 chains of 3 to 8 nodes, 4 labels, three seeds, C from 0.1 to 10, to a gap of 1e-4) took between 10 % less
    # and 12 % more passes with 0.95, 1 % more in the mean, so that both values stay, 2026-11-16.
    farthest: float = 0.9


class StreamTuning(NamedTuple):
    """Online runs. Sets not recorded, all 2026-11-15; `python -m benchmarks online` came with `fresh` and `rise`."""

    visits: VisitTuning = VISITS
    pace: PaceTuning = PACE
    # Examples: parts of the cache below are merged with their like, so that there are few.
    large: int = 1 << 15
    # Part of the limit that is left used where something had to leave.
    filled: float = 0.8
    # Share of a part that must be prunable before it is copied without.
    stale: float = 0.2
    # Passes an example rests after it was calm twice in a row: then it may be pruned.
    patient: int = 3
    # The cached problem is solved to this part of the target.
    fine: float = 0.3
    # Structured: samples between two rounds of optimisation, which goes on while it raises the dual value by this part of what
    # the target allows the samples visited.
    fresh: int = 64
    rise: float = 0.3
    # Such a round visits one in so many of the samples met before, and as many as are fresh at least.
    again: int = 4


class SimplexTuning(NamedTuple):
    """The quadratic program of bundle methods."""

    # Pair steps in one visit of a block. Set not recorded, 2026-11-15.
    pairs: int = 64
    # Sweeps over all blocks before the first Newton step, at least. Set not recorded, 2026-11-15.
    sweeps: int = 5
    # A Newton step over s entries takes about as long as s^2 / 5,000 sweeps: 200 ms and 0.8 ms where s = 1,100. Set not recorded,
    # 2026-11-15.
    as_long: int = 5_000


class BundleTuning(NamedTuple):
    """Bundle methods."""

    simplex: SimplexTuning = SimplexTuning()
    # The smallest alpha but zero; the quadratic term itself has 1/2. Set not recorded, 2026-11-15.
    first: float = 2.0**-6
    # Part of what the model promised from which on it may be trusted farther, as serious steps are told from null steps; 0.8
    # before. Starts of paths, set not recorded, 2026-11-15.
    trust: float = 0.1
    # Part of the gap that the quadratic program may leave undone: less costs more time than it saves steps. With 0.05 it took
    # four times as long for 75 steps; set not recorded, 2026-11-15.
    share: float = 0.2
    # Iterations between two lower bounds without the prox-term: their quadratic program is the larger one. `python -m benchmarks
    # bundle`, workload not recorded, 2026-11-15.
    seldom: int = 3
    # Models by default: what Uřičář and Franc (2012) found best, on their sets.
    models: int = 16
    # Planes, whatever the memory: the quadratic program would take too long. Set not recorded, 2026-11-15.
    planes: int = 16_384


class ConvexConcaveTuning(NamedTuple):
    """The convex-concave procedure. Sets not recorded, 2026-11-15."""

    # The relative gap of the first step.
    loose: float = 0.1
    # Of what a step gained: the gap of the next.
    part: float = 0.1


class RelayTuning(NamedTuple):
    """When Newton's method takes over from coordinate passes: what both cost, in seconds of processor time. Passes of iris, wine,
    digits, breast cancer and letter, raw, and of 100,000 x 50, 20 and 600 of them, 2026-11-16."""

    # Of a multiplication and addition of matrix products, and of the rest of a step; and steps to the target.
    product: float = 2e-10
    step: float = 5e-4
    steps: int = 20
    # Of an entry of a row that is visited, for each of its scores, of the rest of a visit, and of the rest of a pass.
    entry: float = 1.5e-9
    visit: float = 7e-8
    sweep: float = 7e-5
    # Of an example in a pass, visited or not; of fetching a row, where all are more bytes than caches hold; and of a dual step
    # without a closed form, of each score (digits, each class against the rest, log loss).
    glance: float = 4e-9
    fetch: float = 1.5e-7
    cached: int = 1 << 24
    search: float = 2e-7
    # Part of Newton's cost that passes take before anything is decided; and that from which on it is enough that those to come
    # would cost more: after half of it they must cost twice as much. 100,000 x 50 at C n = 1e6, letter, 2026-11-16.
    early: float = 0.1
    patience: float = 0.5
    # How much more is spent at the next look, and the part of it around a moment whose gaps count: single estimates are noisy.
    seldom: float = 1.2
    around: float = 0.15
    # Passes after Newton's method, which rounding has stopped, that may raise the dual value by less than this part of the target
    # before the run ends. Not measured, 2026-11-16.
    hopeless: int = 500
    little: float = 0.01
    # Multiplications of a step up to which a problem that one step solves is given to Newton's method at once.
    small: float = 1e9


class PolishTuning(NamedTuple):
    """When coordinate ascent is finished by Newton steps on its free duals, and how far these go; costs in seconds of one core.
    Made problems of each family, 60 to 2,000 rows, 2026-11-16."""

    # Gaps below this are tight: steps are thought of after so many passes, and after more of them where the target is larger.
    tight: float = 1e-4
    first: int = 8
    later: int = 100
    # How much more is spent from one mark of the gap to the next, and how many marks make a rate.
    mark: float = 1.05
    marks: int = 4
    # Of a look at the free duals, with a dual value from scratch, and how much more is spent at the next look.
    look: float = 1e-3
    seldom: float = 1.5
    # How many times as much as was spent the passes to come may cost at the most.
    horizon: float = 10.0
    # Duals of a table that is looked at, free ones of a face, and numbers of their vectors where a matrix of features x features
    # does; at the most.
    table: int = 1 << 25
    most: int = 3000
    entries: int = 1 << 24
    # Bounds that one factor serves, and factors at the most, if duals are few.
    walls: int = 64
    factors: int = 8
    # Bounds that are met: so many in any case, and so many for each dual that the last pass freed or brought to a bound.
    few_hits: int = 4
    again: float = 10.0
    # Prices after which there is another look where the dual value did not rise.
    patience: float = 4.0
    # Of a multiplication and addition of matrix products; of an entry of a row that is visited, for each of its scores; of the
    # rest of a visit, and of that of a pass; of the rest of a visit to a structured sample.
    product: float = 2e-10
    entry: float = 1e-9
    visit: float = 5e-8
    sweep: float = 1e-4
    sample: float = 2e-6
    # Of an entry of the matrix that a bound is met with, and of the rest of it; of the rest of a round on a kernel problem.
    held: float = 3e-9
    hit: float = 2e-4
    round: float = 1e-3


class PredictionTuning(NamedTuple):
    """Samples that are predicted at a time, which bounds the memory for their scores. Sets not recorded, 2026-11-15."""

    # Where labels are sparse.
    labels: int = 4096
    # Of kernel models: so many rows of kernel values.
    kernel: int = 1024


ASCENT, KERNEL, POLYTOPE, STREAM = AscentTuning(), KernelTuning(), PolytopeTuning(), StreamTuning()
KERNEL_BLOCKS = KernelBlockTuning()
KERNEL_PAIRS = KernelPairTuning()
KERNEL_NEWTON = KernelNewtonTuning()
BUNDLE, CONVEX_CONCAVE, PREDICTION, RELAY = BundleTuning(), ConvexConcaveTuning(), PredictionTuning(), RelayTuning()
POLISH = PolishTuning()
