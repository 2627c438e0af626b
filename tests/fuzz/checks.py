"""What must hold of a fitted model, whatever was drawn."""

import time
import warnings
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from . import clock
from .objectives import Linear, Value

RELATIVE = 1e-9  # what values may differ by beyond the rounding of their terms
SLACK = 2.0  # seconds beyond max_time: a pass, and a busy machine
MANY = 6  # findings told of one problem


class Report:
    """The findings of one problem, in sentences."""

    def __init__(self) -> None:
        self.findings: list[str] = []

    def expect(self, holds: Any, sentence: str) -> bool:
        if not bool(holds) and len(self.findings) < MANY:
            self.findings.append(sentence)
        return bool(holds)


@contextmanager
def strict():
    """Warnings are errors but for two: a gap that was missed, and names of columns that some of the forms do not have."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "X (has|does not have valid) feature names")
        yield


@contextmanager
def timed(report: Report, max_time: float | None, fits: int = 1):
    """The time of what is done here is bounded, compilation left out."""
    wall, busy, compiling = time.perf_counter(), time.process_time(), clock.compiling()
    with strict():
        yield
    spent = min(time.perf_counter() - wall, time.process_time() - busy) - (clock.compiling() - compiling)
    if max_time is not None and clock.compiles():  # plain Python is slow
        most = fits * (max_time + SLACK)
        report.expect(spent <= most, f"took {spent:.1f} s where max_time={max_time:g} allows {fits} x that and {SLACK:g} s more")


def certificate(report: Report, found, tol: float, what: str = "") -> bool:
    """The fields agree with each other; whether they are numbers at all."""
    if not report.expect(np.all(np.isfinite((found.primal, found.dual, found.gap))), f"{what}certificate is not finite: {found}"):
        return False
    exact = abs(found.gap - (found.primal - found.dual)) <= 1e-15 * max(abs(found.primal), abs(found.dual))
    report.expect(exact, f"{what}gap {found.gap!r} is not primal {found.primal!r} - dual {found.dual!r}")
    with np.errstate(over="ignore"):  # infinite where the primal value is zero and the gap is not
        relative = np.float64(found.gap) / max(abs(found.primal), np.finfo(float).tiny)
    close = found.relative_gap == relative or abs(found.relative_gap - relative) <= 1e-12 * max(1.0, abs(relative))
    report.expect(close, f"{what}relative_gap {found.relative_gap!r} is not gap / primal = {relative!r}")
    report.expect(not found.converged or found.relative_gap <= tol, f"{what}converged at {found.relative_gap:.3g} > tol={tol:g}")
    return True


def bounds(report: Report, found, objective, point, rng, more=(), what: str = "") -> Value | None:
    """primal is the objective at the point, dual lies below it there and at other points (`more` among them)."""
    here: Value = objective.at(point)
    if not report.expect(np.isfinite(here.value), f"{what}weights are not feasible or not finite"):
        return None
    near = RELATIVE * abs(here.value) + 4.0 * (here.rounding + (objective.lost(point) if isinstance(objective, Linear) else 0.0))
    off = found.primal - here.value
    report.expect(abs(off) <= near, f"{what}primal {found.primal!r} is not the objective {here.value!r}: {off:.3g} > {near:.3g}")
    slack = objective.slack(point)
    for name, others in (("here", [point]), ("nearby", objective.others(point, rng)), ("elsewhere", more)):
        for other in others:
            below(report, found.dual, objective.at(other), slack, f"{what}{name}: ")
    return here


def below(report: Report, dual: float, other: Value, slack: float, what: str = "") -> None:
    """A lower bound lies below this value of the objective."""
    if np.isfinite(other.value):
        most = RELATIVE * abs(other.value) + 4.0 * (other.rounding + slack)
        off = dual - other.value
        text = f"{what}dual {dual!r} exceeds the objective {other.value!r} of some weights: {off:.3g} > {most:.3g}"
        report.expect(off <= most, text)


def history(report: Report, records, value: Value, slack: float, what: str = "") -> None:
    """Every dual value on the way was a lower bound."""
    if len(records):
        below(report, max(record.dual for record in records), value, slack, f"{what}history: ")


def duals(report: Report, given, objective, point, found, what: str = "") -> None:
    """Duals are feasible, their value is the certificate's, and the weights are rebuilt from them."""
    table = np.asarray(given, dtype=float).reshape(len(objective.X), -1)
    outside = objective.loss.outside(table, objective.cap)
    largest = float(np.max(objective.cap)) if not objective.loss.squared else float(np.abs(table).max(initial=1e-300))
    report.expect(outside <= 1e-12 * largest, f"{what}duals leave their set by {outside:.3g} (largest cap {largest:.3g})")
    if (rebuilt := objective.dual(table)) is None:
        return
    value, (W, b) = rebuilt
    near = RELATIVE * abs(value.value) + 4.0 * (value.rounding + objective.slack(point))
    off = found.dual - value.value
    report.expect(abs(off) <= near, f"{what}dual {found.dual!r} is not that of dual_coef_, {value.value!r}: off by {off:.3g}")
    sizes = objective.spread(table)
    for name, here, there, size in zip(("coef_", "intercept_"), point, (W, b), sizes):
        most = RELATIVE * np.sqrt(objective.quadratic.condition) * (size + np.abs(there)) + 1e-300
        worst = float(np.max(np.abs(here - there) - most, initial=-1.0))
        report.expect(worst <= 0.0, f"{what}{name} is not rebuilt from dual_coef_: off by {np.max(np.abs(here - there)):.3g}")


def scores(report: Report, given, X, W, b, single: bool, what: str = "") -> None:
    """What decision_function returned is X W' + b, to the precision of X."""
    given = np.asarray(given, dtype=float)
    wanted, sizes = X @ W.T + b, np.abs(X) @ np.abs(W).T + np.abs(b)
    if single:
        wanted, sizes = wanted[:, 0], sizes[:, 0]
    if report.expect(given.shape == wanted.shape, f"{what}scores have shape {given.shape}, not {wanted.shape}"):
        precision = 1e-5 if "float32" in what else 1e-12
        worst = float(np.max(np.abs(given - wanted) - precision * sizes - 1e-300, initial=-1.0))
        report.expect(worst <= 0.0, f"{what}scores are not X coef_' + intercept_: off by {np.max(np.abs(given - wanted)):.3g}")
