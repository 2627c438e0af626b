"""Sweeps: steps in tables of the few classes that an example has duals of are those in rows of all classes."""

import numpy as np
import pytest

from maxmargin import losses
from maxmargin.data.table import table_of
from maxmargin.jit import vectors
from maxmargin.losses.base import for_few, row_label, row_step, take_few
from maxmargin.problems.linear import BlockProblem
from maxmargin.solvers.ascent.schedule import schedule
from maxmargin.solvers.ascent.sweeps import FEW_CLASSES, TIMES_FEW, retreat_held, steps_few, sweep_room, sweep_some

N, D, K = 60, 9, TIMES_FEW * FEW_CLASSES + 8
CROWDED, UNLABELLED = 7, 11  # examples with duals of more than few classes, and with one but none of its own class
LOSSES = {
    "costs": losses.CrammerSingerLoss(),
    "alpha": losses.TopKAlphaLoss(3),
    "beta": losses.TopKBetaLoss(3),
    "smoothed": losses.TopKAlphaLoss(3, smoothing=0.5),
}
DTYPES = [np.float32, np.float64]


class Stage:
    """A problem with duals of some classes each, weights, and an order of visits."""

    def __init__(self, name, dtype):
        rng = np.random.default_rng(2)
        data, label = rng.normal(size=(N, D)).astype(dtype), rng.integers(K, size=N)
        cost = (rng.uniform(0.5, 2.0, size=(K, K)) if name == "costs" else 1.0) * (1.0 - np.eye(K))
        problem = BlockProblem(table_of(data, 0.7), label, rng.uniform(0.5, 2.0, N), cost, LOSSES[name]).at(0.3)
        self.X, self.loss, self.dtype, self.label = problem.X, problem.loss_in(dtype), dtype, label
        self.duals, self.curvature = vectors.zeros_table(N, K, dtype), (data.astype(float) ** 2).sum(axis=1) + 0.49
        scores, change = (vectors.zeros_table(1, K, dtype) for _ in range(2))
        for i in range(N):
            drawn = 2.0 - cost[label[i]] + 0.01 * rng.normal(size=K) if i == CROWDED else rng.normal(size=K)
            drawn[label[i]] = 0.0
            scores.vectors[...] = vectors.pack(drawn[None], dtype, fill=vectors.NEVER)
            row_step(self.loss, i, 1e3 if i == CROWDED else 5.0, scores, self.duals, change, -np.inf)
        self.duals.flat[UNLABELLED] = 0.0
        self.duals.flat[UNLABELLED, (label[UNLABELLED] + 1) % K] = -1e-3  # as rounding may leave it
        self.w = vectors.table(vectors.pack(0.1 * rng.normal(size=(K, D + 1)), dtype))
        self.plan = schedule(N, 0)
        self.plan.order[:] = rng.permutation(N)

    def sweep(self, few, variance=(), stop=N):
        """Duals, weights, the room, and what the sweep returned; in tables of few classes or in rows."""
        duals, w = (vectors.table(table.vectors.copy()) for table in (self.duals, self.w))
        old, room = vectors.zeros_table(N, K, self.dtype), sweep_room(self.loss, K, self.dtype, visits=N)
        room = room if few else room._replace(few=room.few._replace(most=0))
        variance = vectors.pack(np.reshape(variance, (1, -1)), self.dtype).ravel() if len(variance) else np.ones(0, self.dtype)
        visit = 0, stop, (0.0, variance, 1.5)
        found = sweep_some(self.X, self.loss, w, (duals, old, self.curvature), self.plan, room, visit)
        return duals, w, old, room, found


def close(dtype):
    return dict.fromkeys(("rtol", "atol"), 1e-10 if dtype == np.float64 else 2e-5)


def test_which_are_few():
    assert steps_few(TIMES_FEW * FEW_CLASSES) == 0 and steps_few(TIMES_FEW * FEW_CLASSES + 1) == FEW_CLASSES


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LOSSES)
def test_steps_of_few_classes(name, dtype):
    stage = Stage(name, dtype)
    held = np.count_nonzero(stage.duals.flat, axis=1)
    assert held[CROWDED] > FEW_CLASSES and held[UNLABELLED] == 1 and np.median(held) > 3 and np.sum(held > FEW_CLASSES) < N / 3
    for variance in ((), np.linspace(0.5, 1.0, D + 1)):
        (mine, w, *_, found), (theirs, v, *_, wanted) = (stage.sweep(few, variance) for few in (True, False))
        np.testing.assert_allclose(mine.flat, theirs.flat, **close(dtype))
        np.testing.assert_allclose(w.flat, v.flat, **close(dtype))
        np.testing.assert_allclose(found, wanted, **close(dtype))
        moved = np.any(mine.flat != stage.duals.flat, axis=1)
        assert np.sum(moved) > N / 2 and moved[CROWDED] and not moved[UNLABELLED] and found[1] != 0.0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LOSSES)
def test_going_back(name, dtype):
    """Duals end where they were, or halfway, whichever table they go back in; also where there was no room to keep some."""
    stage = Stage(name, dtype)
    for t in (0.0, 0.5):
        halfway = []
        for few, room_left in ((True, True), (False, True), (True, False)):
            duals, _, old, room, _ = stage.sweep(few)
            after = duals.flat.copy()
            if not room_left:
                duals, old = vectors.table(stage.duals.vectors.copy()), vectors.zeros_table(N, K, dtype)
                room = room._replace(classes=room.classes[:50], kept=room.kept[:50])
                w = vectors.table(stage.w.vectors.copy())
                terms = 0.0, np.ones(0, dtype), 1.5
                sweep_some(stage.X, stage.loss, w, (duals, old, stage.curvature), stage.plan, room, (0, N, terms))
                assert np.any(room.many < 0) and np.any(room.many > 0)
            gain = retreat_held(stage.loss, duals, old, stage.plan, room, (0, N), t)
            np.testing.assert_allclose(duals.flat, t * after + (1.0 - t) * stage.duals.flat, **close(dtype))
            halfway.append((gain, duals.flat.copy()))
        for gain, found in halfway[1:]:
            assert gain == pytest.approx(halfway[0][0], **dict(zip(("rel", "abs"), close(dtype).values(), strict=True)))
            np.testing.assert_allclose(found, halfway[0][1], **close(dtype))


def test_losses_that_are_not_selective_have_no_few():
    loss = losses.MultinomialLoss().of(np.zeros(3, int), np.ones((9, 9)), np.ones(3), np.float64)
    assert for_few(loss, FEW_CLASSES) is loss and row_label(loss, 0) == -1 and take_few(loss, 0, 0, np.arange(3), loss) is None
