"""Tuned numbers: they are handed to runs and kernels, and say on what they were chosen."""

import ast
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from helpers.source_tree import PACKAGE, modules

from maxmargin.data.table import table_of
from maxmargin.losses import HingeLoss
from maxmargin.losses.topk_alpha import topk_alpha
from maxmargin.losses.topk_steps import SHORTLIST
from maxmargin.problems.linear import ScalarProblem
from maxmargin.result import History
from maxmargin.solvers import loop, tuning
from maxmargin.solvers.ascent.linear import AscentOptions, ScalarAscent, scalar_pass
from maxmargin.solvers.ascent.schedule import reschedule, schedule
from maxmargin.solvers.ascent.tuning import ASCENT
from maxmargin.solvers.planes import simplex_qp
from maxmargin.solvers.planes.tuning import BUNDLE
from maxmargin.solvers.polish.tuning import POLISH

FILES = [import_module(f"maxmargin.{name}") for name in sorted(modules()) if re.fullmatch(r"solvers\.(\w+\.)?tuning", name)]


def problem(n=300, d=5):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return ScalarProblem(table_of(X, 1.0), HingeLoss(), (np.sign(X[:, 0] + rng.normal(size=n)), np.ones(n)), np.full(n, 3.0))


def solved(group=ASCENT, budget=tuning.LOOP):
    run = ScalarAscent(problem(), None, AscentOptions(1e-6, 0, np.float64, tuning=group))
    run.polish_tuning = POLISH._replace(first=10**9)  # passes only
    return run, loop.drive(run, loop.Budget(tol=1e-6, tuning=budget), History())


def test_a_run_takes_its_numbers_with_its_options():
    run, result = solved()
    visits = tuning.VISITS
    for other in (
        ASCENT._replace(farthest=0.5),
        ASCENT._replace(visits=visits._replace(calm=1e-3)),
        ASCENT._replace(visits=visits._replace(longest=2)),
        ASCENT._replace(visits=visits._replace(start=10_000)),
    ):
        varied, found = solved(other)
        assert varied.visits != run.visits and found.certificate.converged
        assert found.certificate.primal == pytest.approx(result.certificate.primal, rel=1e-5)
    # What only concerns the processor leaves every bit as it is.
    same = solved(ASCENT._replace(visits=visits._replace(ahead=7, cached=0), pace=tuning.PACE._replace(scalars=17)))[1]
    np.testing.assert_array_equal(same.duals, result.duals)
    often = solved(budget=tuning.LOOP._replace(seldom=(1, 0.0)))[1]
    assert len(often.history) > len(result.history)


@pytest.mark.compiled
def test_another_number_compiles_nothing():
    solved()
    before = len(scalar_pass.cached.signatures)
    solved(ASCENT._replace(visits=tuning.VISITS._replace(ahead=3, longest=8, calm=0.5)))
    assert len(scalar_pass.cached.signatures) == before


def test_examples_rest_as_long_as_the_plan_says():
    plan = schedule(1, 0, tuning=tuning.VISITS._replace(longest=5))
    waits = []
    for now in range(4):
        reschedule(plan, 0, now, True)
        waits.append(int(plan.wait[0]))
    assert waits == [1, 3, 5, 5]


def test_losses_and_programs_take_numbers_too():
    loss = topk_alpha(np.zeros(1, int), np.ones(1), 3, 1, 0.0, np.float64, SHORTLIST._replace(few=2))
    assert loss.shortlist == (2, SHORTLIST.lower, SHORTLIST.slack)
    rng = np.random.default_rng(0)
    A, linear, block = rng.normal(size=(12, 6)), rng.normal(size=12), np.repeat([0, 1, 2], 4)
    start = simplex_qp.normalised(np.ones(12), block)
    few = BUNDLE.simplex._replace(pairs=1, sweeps=1, as_long=1)
    values = [
        simplex_qp.value_of(A @ A.T, linear, simplex_qp.solve_program(A @ A.T, linear, block, start, 1e-9, tuning=group))[0]
        for group in (BUNDLE.simplex, few)
    ]
    assert values[0] == pytest.approx(values[1], abs=1e-8)


def test_every_room_with_numbers_is_met():
    assert {file.__name__.split(".")[-2] for file in FILES} >= {"solvers", "ascent", "polish", "polytope", "planes", "streams"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.__name__)
def test_every_number_has_a_date(file):
    """Beside it, or for its whole group."""
    tree = ast.parse(lines := Path(file.__file__).read_text())
    text, dated = lines.splitlines(), re.compile(r"20\d\d-\d\d-\d\d|\(20\d\d\)|As `")
    for group in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        whole, comment = bool(dated.search(ast.get_docstring(group) or "")), ""
        for field in (node for node in group.body if isinstance(node, ast.AnnAssign)):
            above = field.lineno - 2
            while text[above].lstrip().startswith("#"):
                above -= 1
            comment = "\n".join(text[above + 1 : field.lineno - 1]) or comment  # several fields may share one
            assert whole or dated.search(comment) or ast.unparse(field.annotation).endswith("Tuning"), ast.unparse(field.target)


def test_numbers_of_rooms_below_stand_where_the_list_says():
    listed = re.findall(r"^    (\w[\w/]*\.py) +((?:\w+(?:\.\w+)?(?:, )?)+)", tuning.__doc__, re.MULTILINE)
    assert len(listed) > 10
    for file, names in listed:
        text = (PACKAGE / file).read_text()
        for name in re.findall(r"\b(?:[A-Z]{2}\w+|Coupled)\b", names):
            assert re.search(rf"^(class )?{name}\b", text, re.MULTILINE), (file, name)


def test_kernels_read_no_tuned_number_by_name():
    """What is compiled in cannot be varied."""
    names = {
        name for file in FILES for name, value in vars(file).items() if isinstance(value, tuple) and hasattr(value, "_fields")
    }
    assert {"LOOP", "ASCENT", "POLISH", "STREAM", "DEVICE"} <= names
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and any(
                re.match(r"kernel$|jitable|generic|\w+\.register", ast.unparse(d)) for d in node.decorator_list
            ):
                body = {name.id for line in node.body for name in ast.walk(line) if isinstance(name, ast.Name)}
                assert not body & names, (module, node.name)
