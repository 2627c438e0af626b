"""Structured samples visited by several threads: certificates, ascent, the same model for a seed, and who is visited by whom."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import maxmargin as mm
from maxmargin.problems.structured import SPAN_SAMPLES, SampleStream, StructuredProblem
from maxmargin.result import History
from maxmargin.solvers import resolve
from maxmargin.solvers.base import NOWHERE, Setting
from maxmargin.solvers.loop import Budget, carry_out, drive
from maxmargin.solvers.polytope import rounds, set_visits
from maxmargin.solvers.polytope.set_rounds import crew_of_sets, samples_of_part
from maxmargin.solvers.polytope.sets import BEFORE, CAPACITY, CODES, CROWDED, PRODUCTS, SIZE, SLOT, empty, grown, move_sets
from maxmargin.solvers.polytope.signed import weights_of
from maxmargin.solvers.polytope.tuning import SIDE_BY_SIDE, RoundTuning
from maxmargin.solvers.tuning import LOOP
from maxmargin.structures import Chain, Parts
from maxmargin.structures.encoded import contract
from maxmargin.utils.blas import BLAS_USERS

# Threads at work however little there is to do.
EAGER = RoundTuning(part=0.0, weight=0.0, rounds=1, longest=4.0, multiplication=1.0, fewest=1)


def chains(n=40, seed=0):
    rng = np.random.default_rng(seed)
    y = [rng.integers(0, 3, rng.integers(1, 6)) for _ in range(n)]
    return [np.eye(3)[labels] + rng.normal(scale=0.8, size=(len(labels), 3)) for labels in y], y


def pictures(n=12, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(3, 4, 2)) for _ in range(n)], [rng.integers(0, 3, (2, 2)) for _ in range(n)]


def posed(structure, samples) -> StructuredProblem:
    structure.size(*samples)
    n = len(samples[1])
    return StructuredProblem(structure.encode(*samples), np.linspace(0.0, 2.0, n)).at(0.7)


PROBLEMS = {"chains": posed(Chain(), chains()), "weights with signs": posed(Parts([(0, 1)], 3), pictures())}
SOLVERS = {
    "auto": resolve("auto"),
    "pairwise by gap": mm.FrankWolfe(),
    "plain": mm.FrankWolfe(steps="plain", sampling="uniform"),
    "linearization": mm.PartialLinearization(),
    "exponentiated gradient": mm.ExponentiatedGradient(),
    "online": mm.OnlineDual(),
}


CASES = [("chains", name) for name in SOLVERS] + [("weights with signs", name) for name in ("auto", "plain")]


def begun(case, n_jobs, tol=1e-3, tuning=EAGER):
    run = SOLVERS[case[1]].begin(PROBLEMS[case[0]], NOWHERE, Setting(tol=tol, n_jobs=n_jobs))
    run.options = replace(run.options, tuning=run.options.tuning._replace(rounds=tuning))
    return run


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case))
def test_the_dual_value_never_falls_and_is_that_of_the_points(case):
    for n_jobs in (2, 3, 100):
        run = begun(case, n_jobs)
        assert run.rounds(run.problem.n_examples)[0] == min(n_jobs, run.problem.n_examples)
        for _ in range(6):
            before = run.dual
            run.advance(lambda: False)
            noted, exact = run.dual, run.synchronise()
            assert exact >= before - 1e-9 * abs(before)
            assert noted <= exact + 1e-9 * abs(exact)  # at least so much, exactly so much without signs
            assert run.problem.bound.size or noted == pytest.approx(exact, rel=1e-9)
            assert run.problem.primal(run.W) >= exact


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case))
def test_certificates_on_several_threads(case):
    problem, tol = PROBLEMS[case[0]], 0.02 if case[1] in ("plain", "exponentiated gradient") else 1e-3
    one, several, again = (drive(begun(case, n_jobs, tol), Budget(tol, 3000, None, n_jobs), History()) for n_jobs in (1, 3, 3))
    assert several.certificate.converged and problem.primal(several.w) == several.certificate.primal
    assert problem.evaluate(several.duals).dual == pytest.approx(several.certificate.dual, rel=1e-12)
    assert max(one.certificate.dual, several.certificate.dual) <= min(one.certificate.primal, several.certificate.primal)
    assert np.array_equal(several.w, again.w) and several.n_iter == again.n_iter  # nothing depends on who was first


def test_weights_of_a_stream_are_those_of_all_its_blocks():
    """What threads have moved in a block is there in the next one."""
    X, y = chains()
    structure = Chain()
    structure.size(X, y)
    blocks = [(X[:20], y[:20]), (X[20:], y[20:])]
    whole = StructuredProblem(structure.encode(X, y), np.ones(len(y)))
    stream = SampleStream(mm.Samples(blocks), structure, len(y), whole.weight_shape, whole.bound, 0.7)
    run = SOLVERS["online"].begin(stream, NOWHERE, Setting(tol=1e-3, n_jobs=2))
    run.options = replace(run.options, tuning=run.options.tuning._replace(rounds=EAGER))
    run.read(lambda: False, train=True, verify=False)
    found = sum(part.evaluate(run.sets[first][0]).v for first, part in stream.parts())
    np.testing.assert_allclose(weights_of(run.space), found, rtol=1e-9, atol=1e-12)


def test_two_fits_at_the_same_time_are_those_of_one_after_the_other():
    def fit(seed):
        return drive(begun(("chains", "auto"), 2), Budget(1e-3, 1000, None, 2), History()).w

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(fit, range(2)))
    assert all(np.array_equal(w, fit(0)) for w in found)


@pytest.mark.parametrize("case", [("chains", "auto"), ("chains", "linearization")], ids=lambda case: "-".join(case))
def test_a_pass_stops_within_a_round(case):
    run = begun(case, 2, tuning=EAGER._replace(longest=1.0))
    tuning = run.options.tuning
    run.options = replace(run.options, tuning=tuning._replace(pace=tuning.pace._replace(work=1)))
    looks = iter([False, False, True])
    run.advance(lambda: next(looks, True))
    assert 0 < run.visits <= 2 * 2
    assert run.synchronise() > 0.0


def test_no_sample_is_twice_in_a_layer_and_none_is_lost():
    order = np.array([4, 1, 4, 0, 1, 4])
    assert rounds.in_layers(order) == [(0, 3), (3, 5), (5, 6)]
    assert order.tolist() == [4, 1, 0, 4, 1, 4]


def test_rounds_are_worth_their_while():
    """Few samples of little work: one thread. Dear ones: all threads, and more than one round."""
    assert rounds.shape_of_rounds(600, 16, 1e4, 5000, SIDE_BY_SIDE) == (1, 600)
    parts, each = rounds.shape_of_rounds(1000, 16, 1e8, 5000, SIDE_BY_SIDE)
    assert parts == 16 and each >= 1 and parts * each * SIDE_BY_SIDE.rounds <= 1000


def test_crews_are_as_large_as_is_worth_it():
    """Few cheap samples: one thread. Thousands of words: all threads, several rounds a pass; late passes: the same or one."""
    assert crew_of_sets(100, 16, 1e3, 5000, SIDE_BY_SIDE) == 1
    assert crew_of_sets(4000, 16, 33_000.0, 5000, SIDE_BY_SIDE) == 16
    visit = SIDE_BY_SIDE.multiplication * 33_000.0
    many, some, few = (samples_of_part(count, 16, visit, 5000, SIDE_BY_SIDE) for count in (4000, 1500, 100))
    assert many >= some > 0 and few == 0
    assert 16 * many * SIDE_BY_SIDE.fewest <= 4000


def test_threads_that_stand_by_extrapolate_as_one_does():
    """From the same sets and weights: what masses reach, what that changes losses and weights by, and what is taken of it."""
    one, several = (begun(("chains", "auto"), n_jobs) for n_jobs in (1, 3))
    for _ in range(3):
        several.advance(lambda: False)
        several.points.slots[:, BEFORE] *= 0.5
    crew, data, cap = several.call_together(3), several.problem.data, several.problem.cap
    sets, ahead = contract.copied(several.points), several.W.copy()
    gain = set_visits.reach(sets, data, ahead, cap, one.scratch, one.reached, 0.7)
    moved = several.W.copy()
    assert crew.reach(moved, 0.7) == pytest.approx(gain, rel=1e-12)
    assert np.array_equal(several.reached, one.reached)
    np.testing.assert_allclose(moved, ahead, rtol=1e-12, atol=1e-14)
    set_visits.commit(sets, one.reached, True)
    crew.commit(True)
    assert np.array_equal(several.points.slots, sets.slots)
    several.close()


@pytest.mark.parametrize("spare", [0.0, 3.0])
def test_sets_grow_with_all_that_they_hold(spare):
    run = begun(("chains", "auto"), 1)
    for _ in range(3):
        run.advance(lambda: False)
    old, sizes = run.points, run.sizes
    if spare:
        roomy = empty(sizes, old.sample[:, CAPACITY], spare)
        move_sets(old, roomy, sizes)
        old = roomy
    old.sample[::2, CROWDED] = 1
    held = old
    old = contract.copied(held)
    new = grown(held, sizes)
    assert (new is held) == (spare > 0.0)
    assert np.array_equal(new.sample[:, CAPACITY], np.where(old.sample[:, CROWDED], 2, 1) * old.sample[:, CAPACITY])
    assert not new.sample[:, CROWDED].any()
    for i in range(len(sizes)):
        size, wide = old.sample[i, SIZE], new.sample[i, CAPACITY]
        for sets in (old, new):
            assert sets.sample[i, SIZE] == size
        here, there = (slice(s.sample[i, SLOT], s.sample[i, SLOT] + size) for s in (old, new))
        assert np.array_equal(old.slots[here], new.slots[there])
        codes = [s.codes[s.sample[i, CODES] : s.sample[i, CODES] + size * sizes[i]] for s in (old, new)]
        assert np.array_equal(*codes)
        gram = [
            s.gram[s.sample[i, PRODUCTS] :][: s.sample[i, CAPACITY] ** 2].reshape(-1, s.sample[i, CAPACITY]) for s in (old, new)
        ]
        assert np.array_equal(gram[0], gram[1][: len(gram[0]), : len(gram[0])], equal_nan=True)
        assert np.isnan(gram[1][len(gram[0]) :]).all() and gram[1].shape == (wide, wide)


def test_sums_do_not_depend_on_the_number_of_threads():
    problem = posed(Chain(), chains(3 * SPAN_SAMPLES))
    assert len(problem.sums) == 3
    batch = mm.FrankWolfe(block=False)
    runs = [batch.begin(problem, NOWHERE, Setting(n_jobs=n_jobs)) for n_jobs in (1, 2, 5)]
    for _ in range(3):
        for run in runs:
            run.advance(lambda: False)
    assert all(np.array_equal(run.W, runs[0].W) and run.dual == runs[0].dual for run in runs)
    points = runs[0].points
    values = [problem.evaluate(points, n_jobs) for n_jobs in (1, 2, 5)]
    assert all(value.dual == values[0].dual and np.array_equal(value.v, values[0].v) for value in values)


def test_planes_do_not_depend_on_the_number_of_threads(monkeypatch):
    """BLAS has one thread while a plane is added, whoever has asked for more."""
    seen, used = [], BLAS_USERS.enter
    monkeypatch.setattr(BLAS_USERS, "enter", lambda threads: (seen.append(threads), used(threads)))
    problem = PROBLEMS["chains"]
    tuning = LOOP._replace(products=0)  # all have the threads they ask for
    found = [carry_out(mm.Bundle(), problem, Budget(1e-2, 500, None, n_jobs, tuning=tuning), History()) for n_jobs in (1, 3)]
    assert 3 in seen and seen.count(1) > found[1].n_iter
    assert np.array_equal(found[0].w, found[1].w) and found[0].n_iter == found[1].n_iter
