"""Numbers that were chosen by measuring: what each does, and the set and the date it was chosen on.

A group of them is a tuple, and a run is given its group with its options. To vary one, hand on another group:

    options = AscentOptions(tol, seed, dtype, tuning=ASCENT._replace(farthest=0.9))

Kernels get these numbers as arguments or within one (the order of visits, a loss), never by name: a number that is compiled in
cannot be varied. Dates are those of the log; where it names no set, "set not recorded" says so: such a number may be a guess.

Here is what all solvers share; the rooms beside (`ascent/`, `polish/`, ...) have their own `tuning.py`.

Rooms below this one cannot import it, so that these stand where they are used, with set and date beside them:

    data/rows.py                  SPARSE_BELOW, SPARE: which dense rows are read by an index of their non-zeros
    data/gram.py, kernel_rows.py  TILE, STRIP, BLOCK, LISTED_BELOW, FEW_FACTORS: how rows of a kernel matrix are made and added up
    data/table.py                 BLOCK_SIZE: rows of a block of a table
    data/row_sums.py              FEW_NUMBERS: when dense rows are so few that no kernel is compiled for their sums
    data/matrices.py              ENTRIES_LOOKED_AT: of a CSR matrix, that one thread checks
    data/gathered.py              ENTRY, WEIGHT_MOVED, TILE_SIDE: when a product is a sum over entries, and how weights are turned
    data/sources/memory.py        BLOCK_ROWS: rows of a block of arrays in memory
    data/sources/blocks.py        PIECE: bytes of a checksum that one thread computes
    projections/__init__.py       LONG, SAMPLE, PART, MANY, FEW, AT_FIRST: when and how a long vector is read once
    losses/topk_steps.py          SHORTLIST, a field of the losses: which classes a visit puts aside
    losses/multilabel_steps.py    Coupled.sweeps, a field of the loss: sweeps of a visit over coupled labels
    problems/linear.py            CHUNK, SUM_RUNS, BY_PRODUCTS: examples of a part of a sum, its runs, when it is a matrix product
    problems/products.py          TAKEN, CLASSES_OF_RUN: rows of a matrix product, and classes whose weights are added to
    problems/tensors.py           COLUMNS_A_SUM, TOGETHER_BYTES; data/streamed.py PIECE_BYTES, WHOLE_X; more in device/tuning.py
    problems/structured.py        SPANS: of a sum over samples
    problems/risk.py, ranking.py  CUT_SPANS: of a sum of subgradients; INSERTED: how runs are sorted
    problems/multilabel.py        TOGETHER, TOGETHER_DENSE, PARTS_DENSE: labels of a group
    structures/encoded/met.py     KEPT_BELOW: which joint features are kept without their zeros

and this one without a set or a date:

    structures/graph.py           FILL_UP_TO: nodes up to which a better order of elimination is looked for

What follows from the mathematics or from floating point, and limits that only keep a loop from going on for ever, are not here.
"""

from typing import NamedTuple


class LoopTuning(NamedTuple):
    """When the outer loop evaluates exactly, and how many threads matrix products have."""

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
    # Rows times weights from which on matrix products have threads: those of BLAS wait for each other at the end of each product,
    # for as long as the system gives a core to somebody else. Newton's method on made rows, 2 threads on 2 cores that five others
    # used too: 5,000 x 100 took 2.8 s with threads and 0.8 s without, 5,000 x 200 9.3 and 1.4 s, 20,000 x 100 11.8 and 2.3 s,
    # 2026-11-18. Cores of one's own were not measured: there a product on one thread costs what is then a few seconds at most.
    products: int = 1 << 22
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
    # Part of a gap above the target that may be added to it for the rounding of scores, where that is not known better: scores in
    # twice the precision take minutes where there are many. By guess, 2026-11-19.
    coarse: float = 0.01
    # Passes without progress, and half of all, after which a gap that small is what is left. Not measured, 2026-11-16.
    long: int = 200
    # Numbers of X that are too large are thought of where a relative gap this large is left after so many passes. 30 x 5 with
    # numbers of 1e20 to 1e150; half of the rows that large needed 257 passes at the most, 2026-11-17.
    lost: float = 0.5
    lost_passes: int = 400


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
    # What part of its price Newton's method takes where coordinates are likely to crawl. Digits in 14 x 14 pixels of 0..255,
    # others than those reported: 3,000 rows take passes 1 s; 7,291 take 4.2, 5.9, 12.6 s at C = 0.01, 1, 100 with these two, with
    # 0.25 for `early` 4.9, 6.9, 13.7, with 0.5 for `wide` as well 12, 9 and more, 2026-11-18.
    wide: float = 0.25
    # The same as `early` there: other digits, 7,291 rows, processor seconds at C = 0.01, 1 and 100 5.0, 5.4, 7.3 with 0.1, 3.5,
    # 4.9, 5.9 with 0.04 and 3.4, 4.6, 5.9 with 0.015; passes end 3,000 rows in 1 s with each of them. 2026-11-18.
    early_hard: float = 0.04
    # How much more is spent at the next look, and the part of it around a moment whose gaps count: single estimates are noisy.
    seldom: float = 1.2
    around: float = 0.15
    # Passes after Newton's method, which rounding has stopped, that may raise the dual value by less than this part of the target
    # before the run ends. Not measured, 2026-11-16.
    hopeless: int = 500
    little: float = 0.01
    # Multiplications of a step up to which a problem that one step solves is given to Newton's method at once.
    small: float = 1e9


class GroupTuning(NamedTuple):
    """How labels are shared out to threads."""

    # What a group costs besides its labels, in labels. 2,000 CSR rows with 1,000 labels: 4; 20,000 x 128 with 20: 6; 4,000 x 512
    # with 512: 18. 2026-11-17.
    own: float = 8.0
    # The same of a label that is a problem of its own, where rows are dense: 2.0 to 2.9 (5,000 x 64 with 16 labels, 30,000 x 32
    # with 24, 8,000 x 128 with 8), 6.9 where passes crawl (3,000 x 300 with 12). Of sparse rows it is 8 to 11. 2026-11-18.
    alone: float = 4.0
    # Numbers of X from which on labels may be problems of their own: those of small ones are done before threads are at work. By
    # guess, 2026-11-18.
    entries: int = 1 << 17


class PredictionTuning(NamedTuple):
    """Samples that are predicted at a time, which bounds the memory for their scores. Sets not recorded, 2026-11-15."""

    # Where labels are sparse.
    labels: int = 4096
    # Of kernel models: so many rows of kernel values.
    kernel: int = 1024


LOOP, PACE, VISITS = LoopTuning(), PaceTuning(), VisitTuning()
CONVEX_CONCAVE, RELAY, GROUPS = ConvexConcaveTuning(), RelayTuning(), GroupTuning()
PREDICTION = PredictionTuning()
# How many times what the rounding of duals does to weights that have to be theirs a gap is at the most that is said to be
# rounding. By guess, 2026-11-17.
SWAYS = 10.0
