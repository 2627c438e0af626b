"""Steps of a block of examples are those of one row after another."""

import numpy as np
import pytest
from helpers.every_problem import COST, LOSSES, SCORES, TABLE, WEIGHT, C, K, problem_of

from maxmargin.data.indicators import checked_labels
from maxmargin.jit import vectors
from maxmargin.losses import MulticlassLoss, MultilabelLoss
from maxmargin.losses.blocks import block_step, block_value, follow_moves, keep_move, row_block_step, row_block_value, row_moves
from maxmargin.problems.linear import row_risk
from maxmargin.problems.multilabel import MultilabelProblem
from maxmargin.regularizers.spaces import averaged
from maxmargin.solvers.ascent.linear import row_pass, scalar_pass
from maxmargin.solvers.ascent.schedule import schedule

SINGLE = [name for name, kind in LOSSES.items() if not issubclass(kind, MulticlassLoss | MultilabelLoss)]
SIZE = 7
CALM = 1e-3  # some examples rest


def in_order(n):
    plan = schedule(n, 0)
    plan.order[:] = np.arange(n)
    return plan


@pytest.mark.parametrize("name", SINGLE)
def test_one_score(name):
    problem, n = problem_of(name), len(WEIGHT)
    loss, curvature, duals = problem.exact_loss, problem.curvature, np.zeros(n)
    space = problem.regularizer.space(problem.regularizer.start(problem.weight_shape), np.dtype(np.float64))
    w, mine = np.zeros(problem.weight_shape), np.zeros(n)
    for _ in range(3):
        wanted = scalar_pass(problem.X, loss, space, duals, curvature, in_order(n), (0, 0, n, 1.0), CALM)
        found = np.zeros(2)
        for block in problem.table.blocks(SIZE):
            examples, changes = np.arange(block.start, block.stop), np.empty(block.stop - block.start)
            scores = block.scores(w[None]).ravel()
            found += block_step(loss, examples, block.products(), scores, mine, changes, CALM)
            w += block.combined(changes[:, None])[0]
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(mine, duals, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(w, averaged(space), rtol=1e-9, atol=1e-12)
    assert np.any(duals != 0.0)
    values = [block_value(loss, np.arange(b.start, b.stop), b.scores(w[None]).ravel()) for b in problem.table.blocks(SIZE)]
    assert sum(values) == pytest.approx(problem.risk(w), rel=1e-12)


def coupled():
    """Labels that go together."""
    columns, R = checked_labels((SCORES > 0).astype(int)).columns, np.eye(K) + 0.4 * COST
    labels = np.ones((K, 2))
    return MultilabelProblem(TABLE, columns, WEIGHT, labels, labels, LOSSES["MultilabelHingeLoss"](), R).at(C).whole()


ROWS = {name: lambda name=name: problem_of(name) for name, kind in LOSSES.items() if issubclass(kind, MulticlassLoss)}
ROWS |= {name: lambda name=name: problem_of(name).whole() for name, kind in LOSSES.items() if issubclass(kind, MultilabelLoss)}
ROWS["coupled labels"] = coupled


@pytest.mark.parametrize("name", ROWS)
def test_rows(name):
    problem, n = ROWS[name](), len(WEIGHT)
    loss, moves = problem.exact_loss, problem.regularizer.moves
    duals, mine = (vectors.zeros_table(n, K, np.float64) for _ in range(2))
    row, change = vectors.zeros_table(1, K, np.float64), vectors.zeros_table(moves, K, np.float64)
    space = problem.regularizer.space(problem.regularizer.start(problem.weight_shape), np.dtype(np.float64))
    W = np.zeros((K, 5))  # what scores are made of
    for _ in range(3):
        scratch = row, change, CALM
        wanted = row_pass(problem.X, loss, space, duals, problem.curvature, in_order(n), (0, 0, n, 1.0), scratch)
        found = np.zeros(2)
        for block in problem.table.blocks(SIZE):
            examples = np.arange(block.start, block.stop)
            scores = vectors.table(vectors.pack(block.scores(W), np.float64))
            moved, curvature = row_moves(examples.size, K, moves, np.float64), problem.curvature[examples]
            scratch = row, change, CALM
            gap, gain, count = row_block_step(loss, examples, curvature, block.products(), scores, mine, moved, scratch)
            found += gap, gain
            changes = np.zeros((examples.size, K))
            changes[moved.stepped[:count]] = moved.follows.flat[:count, :K]
            W += block.combined(changes)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(mine.flat, duals.flat, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(W, vectors.to_classes(space.w, K), rtol=1e-9, atol=1e-12)
    assert np.any(duals.flat != 0.0)
    value = 0.0
    for block in problem.table.blocks(SIZE):
        scores = vectors.table(vectors.pack(block.scores(W), np.float64))
        value += row_block_value(loss, np.arange(block.start, block.stop), scores, row)
    assert value == pytest.approx(
        row_risk(problem.X, loss, vectors.from_classes(W, np.float64), row, 0, n, np.zeros(1)), rel=1e-12
    )


@pytest.mark.parametrize("filled", [0.02, 0.5])
def test_scores_follow_moves(filled):
    """By a list of the vectors that are not zero, and by all of them."""
    classes, rng = 150, np.random.default_rng(0)
    moved, products = row_moves(6, classes, 1, np.float64), rng.normal(size=9)
    scores, row, change = (vectors.zeros_table(rows, classes, np.float64) for rows in (9, 1, 1))
    scores.flat[:] = rng.normal(size=scores.flat.shape)
    wanted = scores.flat[7].copy()
    for count, j in enumerate((0, 2, 3, 6)):
        change.flat[0] = np.where(rng.random(change.flat.shape[1]) < filled, rng.normal(size=change.flat.shape[1]), 0.0)
        keep_move(moved, j, count, change)
        wanted += products[j] * change.flat[0]
    assert (6 * moved.many[:4].sum() > 4 * row.vectors.shape[1]) == (filled > 0.1)
    follow_moves(scores, products, moved, 7, 4, row)
    np.testing.assert_allclose(row.flat[0], wanted, rtol=1e-12, atol=1e-12)
