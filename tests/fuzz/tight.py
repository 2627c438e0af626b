"""Fine targets on small problems: each is certified soon, or the run says that float64 can tell no more. None is endless.

The tasks are those of `linear`, with every loss that the estimators know, columns of very different sizes and any C; the solver
is the default one, or Newton's method where it serves the problem.
"""

import time
from dataclasses import replace

import numpy as np
from sklearn.base import clone

from . import checks, clock, linear
from .checks import Report
from .draws import Draw
from .linear import Task

TOL = 1e-6
SECONDS = 2.0  # for a fit, compilation left out
ENDLESS = 60.0  # max_time, by the clock, which runs on where others compute: what takes longer is not waited for
LIMITS = "limit of float64", "for rounding"  # how a run says that it can do no better
# How many times what the terms of both values may be off by a gap is then at the most: a run stops at a point whose weights are
# rounded, and what that moves is not all in the terms.
TIMES = 100.0
TIMES_DUALS = 10.0  # the same, where weights have to be those of the duals: of what the rounding of these moves
MAKERS = linear.binary, linear.binary, linear.regression, linear.multiclass, linear.multiclass, linear.topk, linear.multilabel
QUICK = linear.binary, linear.regression, linear.multiclass  # compiled for other tests anyway
SMOOTH = {
    linear.binary: ({"loss": "log_loss", "cost": None}, {"loss": "squared_error", "cost": None}),
    linear.regression: ({"loss": "squared_error"},),
    linear.multiclass: (
        {"loss": "log_loss", "cost": None},
        *({"loss": loss, "multi_class": "ovr", "cost": None} for loss in ("hinge", "squared_hinge", "log_loss", "squared_error")),
    ),
    linear.multilabel: ({"loss": "log_loss", "cost": None}, {"loss": "squared_error", "cost": None}),
    linear.topk: (),
}


def run(draw: Draw, report: Report) -> None:
    """Draw a task, fit it to the fine target, and see what came of it and when."""
    draw.tame = draw.dense = True
    make = draw.one(*(QUICK if draw.quick else MAKERS))
    task = widened(draw, make(draw))
    others = () if draw.quick else SMOOTH[make]
    own = draw.one({}, {}, *others)
    model = clone(task.estimator).set_params(tol=TOL, max_iter=10_000, max_time=ENDLESS, solver=draw.one("auto", "newton"), **own)
    draw.note(estimator=model, X=task.X, y=task.y, sample_weight=task.weight)
    spent = seconds_of(model, task)
    report.expect(spent <= SECONDS, f"took {spent:.1f} s: {model.certificate_.message}")
    found = model.certificate_
    said = any(limit in found.message for limit in LIMITS)
    report.expect(found.converged or said, f"neither certified nor at the limit of float64: {found.message}")
    if own:  # of these losses there is no objective here
        checks.certificate(report, found, TOL)
    else:
        linear.check(draw, report, task, model)
        if said and not found.converged:
            at_the_limit(report, task, model)


def at_the_limit(report: Report, task: Task, model) -> None:
    """A gap that is said to be rounding is not much more than that."""
    point, found = linear.point_of(model), model.certificate_
    rounding = task.objective.at(point).rounding + task.objective.slack(point) + task.objective.lost(point)
    if model.keep_duals:  # the weights are those of the duals, whatever others are better
        duals = np.asarray(model.dual_coef_, float)
        rounding += task.objective.swayed(point, duals.reshape(len(duals), -1)) * (TIMES_DUALS / TIMES)
    report.expect(
        found.gap <= TIMES * rounding, f"a gap of {found.gap:.3g} is no rounding, which is {rounding:.3g}: {found.message}"
    )


def widened(draw: Draw, task: Task) -> Task:
    """The task with columns multiplied by powers of ten, mostly, and another C."""
    factors = 10.0 ** draw.rng.uniform(-4, 4, task.X.shape[1]) if draw.chance(0.7) else np.ones(task.X.shape[1])
    C, X = draw.power(-4, 4), task.X * factors
    objective = replace(task.objective.scaled(C / task.estimator.C), X=X)
    return replace(task, estimator=clone(task.estimator).set_params(C=C), X=X, objective=objective)


def seconds_of(model, task: Task) -> float:
    """Of a fit, by the clock or by what this process has used, whichever is less; compilation left out."""
    wall, busy, compiling = time.perf_counter(), time.process_time(), clock.compiling()
    with checks.strict():
        try:
            model.fit(task.X, task.y, sample_weight=task.weight)
        except TypeError as refused:
            if model.solver != "newton" or "Newton" not in str(refused):
                raise
            model.set_params(solver="auto").fit(task.X, task.y, sample_weight=task.weight)
    spent = min(time.perf_counter() - wall, time.process_time() - busy) - (clock.compiling() - compiling)
    return spent if clock.compiles() else 0.0  # plain Python is slow
