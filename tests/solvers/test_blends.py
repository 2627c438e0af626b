"""Parts of corrections of the interior point for many columns: what is combined, and how far it leads."""

import numpy as np
import pytest

from maxmargin.data.table import table_of
from maxmargin.problems.linear import BlockProblem
from maxmargin.solvers.base import NOWHERE, Setting
from maxmargin.solvers.second_order import wide_rows
from maxmargin.solvers.second_order.blends import furthest
from maxmargin.solvers.second_order.interior_point import TO_THE_BORDER, to_border
from maxmargin.solvers.second_order.tuning import BLENDS
from maxmargin.solvers.second_order.wide_rows import WideInterior

RNG = np.random.default_rng(8)
X = np.maximum(RNG.normal(size=(120, 6)) + RNG.normal(size=(120, 1)), 0.0) * 200.0
Y = (X @ RNG.normal(size=(6, 4)) + 100.0 * RNG.normal(size=(120, 4))).argmax(axis=1)
PARTS = (1.0, 0.5, 0.1)


def begun() -> WideInterior:
    problem = BlockProblem(table_of(X, 1.0), Y, np.ones(len(Y)), 1.0 - np.eye(4))
    return WideInterior(problem, NOWHERE, Setting(tol=1e-4))


def made(shape: tuple[int, ...]):
    return RNG.normal(size=(2, 3)), [RNG.normal(size=shape)], [RNG.normal(size=shape)], 1.0


@pytest.mark.parametrize("shape", [(30, 3), (0, 3)])
def test_the_part_that_leads_furthest(shape):
    for _ in range(20):
        first, second = made(shape), made(shape)
        positive = RNG.uniform(0.1, 1.0, shape), RNG.uniform(0.1, 1.0, shape)
        part, found = furthest(positive, first, second, PARTS)
        lengths = []
        for other in PARTS:
            changes = [a + other * (b - a) for a, b in zip((*first[1], *first[2]), (*second[1], *second[2]), strict=True)]
            lengths.append(TO_THE_BORDER * to_border(positive, tuple(changes)))
        assert part == PARTS[int(np.argmax(lengths))] and found[-1] == pytest.approx(max(lengths))
        np.testing.assert_allclose(found[0], (1.0 - part) * first[0] + part * second[0])
        for x, change in zip(positive, (*found[1], *found[2]), strict=True):
            assert np.all(x + found[-1] * change > 0.0)


@pytest.mark.parametrize("part", PARTS)
def test_a_combination_leads_to_the_products_between(part, monkeypatch):
    monkeypatch.setattr(wide_rows, "LEFT_OVER", 1e-13)
    run = begun()
    run.see()
    assert run.prepared()
    few, many = ([np.full_like(run.inside[0], goal)] for goal in (0.0, 3.0))
    _, found = furthest((*run.inside, *run.against), run.corrected(few), run.corrected(many), (part,))
    wanted = run.corrected([few[0] + part * (many[0] - few[0])])
    for a, b in zip((found[0], *found[1], *found[2]), (wanted[0], *wanted[1], *wanted[2]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6 * np.abs(b).max())
    assert found[-1] == pytest.approx(wanted[-1], rel=1e-5)


def test_corrections_are_as_many_as_a_matrix_is_worth(monkeypatch):
    run, (few, many) = begun(), BLENDS.corrections
    assert run.most_corrections(BLENDS) == few
    monkeypatch.setattr(wide_rows, "work_of_matrix", lambda problem: 1e12)
    assert run.most_corrections(BLENDS) == many


@pytest.mark.parametrize("gone", [1.0, 0.1])
def test_steps_become_longer(gone):
    """No correction is taken that makes the step shorter, so that further ones never do."""
    run = begun()
    for _ in range(8):
        run.see()
        assert run.prepared()
        predicted = run.corrected([0.0])
        mu = float(np.vdot(run.inside[0], run.against[0])) / run.inside[0].size
        lengths = []
        for count in (0, 2, 10):
            run.gone = gone
            lengths.append(run.lengthened(predicted, mu, 0.3 * mu, BLENDS._replace(corrections=(count, count)))[-1])
            assert run.gone == lengths[-1]
        assert lengths == sorted(lengths) and lengths[0] > 0.0
        run.advance(lambda: False)
