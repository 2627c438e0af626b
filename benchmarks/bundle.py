"""Bundle methods: iterations and time to a gap of 1 %, as in Table 2 of Uřičář and Franc (2012), and curves as in their Figure 3.

Their lam is that of lam/2 ||w||^2 + sum of losses, so C = 1/lam. mnist is their first benchmark, the same data; segmented plates
and landmarks are made here, after their second and third; words are ours. On mnist the path begins at lam = 10^4, and a variant
with a prox-term begins where the one before it on the path ended; the others begin anew, as there. OCA in dlib, a cutting-plane
method for binary problems alone, is not beside them: no wheel of it was found, and it was not built.

Variants and lams can be measured by processes of their own; `summary` measures nothing: it reads the tables that are there, says
what holds, and draws the curves.
"""

import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import maxmargin as mm
from maxmargin.data.table import table_of
from maxmargin.problems.linear import BlockProblem
from maxmargin.problems.structured import StructuredProblem
from maxmargin.result import Result
from maxmargin.solvers import solution_of
from maxmargin.solvers.base import NOWHERE, Start
from maxmargin.solvers.loop import Budget
from maxmargin.solvers.planes.run import PlaneStart

from . import curves, sequences
from .report import Report, columns, figure, read, table
from .traces import encoded
from .workloads import MissingDataError, path

PARTS = ("mnist", "mnist6000", "ocr", "segmentation", "parts", "planes", "curves", "summary")
TOL = 0.01
MNIST_LAMS = (1000.0, 100.0, 10.0, 1.0)
FEW, FEW_LAMS = 6_000, (100.0, 10.0, 1.0)  # a tenth of the rows: a tenth of lam weighs them alike
PAPER_ERRORS = {1000.0: 0.0864, 100.0: 0.0740, 10.0: 0.0708, 1.0: 0.0720}
PAPER_ITERATIONS = {
    "BMRM": (157, 417, 1429, 5932),
    "Prox-BMRM": (226, 232, 317, 698),
    "Prox-P=16": (244, 256, 291, 408),
}
# What must hold: errors, iterations of BMRM over those of Prox-P=16, the part of the time that is not the risk's.
CLOSE, THOUSANDS, FEWER, HALF = 0.004, 1_000, 8.0, 0.5
STRUCTURED_LAMS = (1000.0, 100.0, 10.0, 1.0)
PLATES, FACES, WORDS, QUICK = 300, 100, 600, 40  # samples
CURVE_LAMS, CURVE_MODELS = (100.0, 10.0), (1, 4, 16)
LEAST = 1e-5  # relative distance below which a curve is cut off

BMRM, PROX16, DUAL = "BMRM", "Prox-P=16", "dual coordinate"
VARIANTS: dict[str, Any] = {
    BMRM: mm.Bundle(prox=False, n_models=1),
    "P=16": mm.Bundle(prox=False, n_models=16),
    "Prox-BMRM": mm.Bundle(n_models=1),
    PROX16: mm.Bundle(n_models=16),
    "Prox-P=16, planes": mm.Bundle(n_models=16),
    DUAL: mm.DualCoordinate(),
}
# How many planes are kept: P = 16, by the parameters of `Bundle`; memory in megabytes
KEPT: dict[str, dict[str, Any]] = {
    "all planes": {"idle": 10**9, "memory": 8192.0},
    "idle = 100": {"idle": 100},
    "idle = 30": {"idle": 30},
    "idle = 10 (default)": {},
    "memory = 64": {"memory": 64.0},
    "memory = 32": {"memory": 32.0},
}
HEAD = ["variant", "lam", "iter", "gap", "s", "wall s", "jobs", "QP", "planes", "MB", "error", "paper: iter", "paper: error"]
MEANING = """*iter*: calls of the risk, each one pass over the data (of `dual coordinate`: passes). *s*: processor seconds of all
threads; *wall s*: those of the clock; *jobs*: threads. *QP*: part of the clock's time in the quadratic program and the
bookkeeping of planes. *planes*, *MB*: kept at the most, and their memory with that of their inner products. *error*: on data not
seen. `Prox` begins with the previous weights of the path (words, plates, landmarks: ten passes of stochastic gradient descent),
`planes` with the previous planes and after such a descent, `dual coordinate` with the previous duals. `>`: not done within the
limit."""


@dataclass(frozen=True)
class Options:
    """What to measure; None: all of it"""

    quick: bool
    limit: float
    jobs: int = 1
    variants: Sequence[str] | None = None
    lams: Sequence[float] | None = None

    @property
    def selection(self) -> str:
        """What a heading says of it, so that processes with parts of one table do not overwrite each other's"""
        names = [", ".join(self.variants)] if self.variants else []
        return "".join(
            f", {text}" for text in names + ([f"lam = {', '.join(f'{lam:g}' for lam in self.lams)}"] if self.lams else [])
        )


@dataclass(frozen=True)
class Task:
    """What is learned: the problem at each lam, and the error of weights on data not seen, where it is known"""

    name: str
    problem: Callable[[float], Any]
    lams: Sequence[float]
    first: float | None = None  # where a path begins; None: each lam on its own
    error: Callable[[Any, np.ndarray], float] | None = None


@dataclass(frozen=True)
class Fit:
    result: Result
    seconds: float
    wall: float

    @property
    def part(self) -> float | None:
        """Of the time in the quadratic program"""
        used = self.result.statistics
        return used["qp_seconds"] / (used["qp_seconds"] + used["oracle_seconds"]) if used else None


# ---- data --------------------------------------------------------------------------------------------------


def mnist(quick: bool, count: int | None = None, lams: Sequence[float] = MNIST_LAMS) -> Task:
    """Pixels divided by 255, no intercept: the errors are the paper's, within 0.004 at each lam. (With pixels divided by 128 they
    are 0.010 below it at lam = 1000, with rows of length one 0.133 above.)"""
    with np.load(path("mnist", "mnist.npz")) as data:
        X, y = data["X_train"].reshape(-1, 784) / 255.0, data["y_train"].astype(np.int64)
        unseen, truth = data["X_test"].reshape(-1, 784) / 255.0, data["y_test"].astype(np.int64)
    if quick or count:
        X, y = np.ascontiguousarray(X[: 1_000 if quick else count]), y[: 1_000 if quick else count]
    samples = table_of(X, 0.0, 0.6)

    def problem(lam: float) -> BlockProblem:
        return BlockProblem(samples, y, np.ones(y.size), 1.0 - np.eye(10)).at(1.0 / lam)

    def error(task: BlockProblem, W: np.ndarray) -> float:
        return float(np.mean(np.argmax(unseen @ task.coefficients(W)[:, :-1].T, axis=1) != truth))

    whole = None if count else error
    return Task("mnist", problem, lams[: 2 if quick else None], 10.0 * lams[0], whole)


def mnist_few(quick: bool) -> Task:
    return replace(mnist(quick, FEW, FEW_LAMS), name="mnist6000")


def structured(name: str, structure: Any, X: Any, y: Any, quick: bool) -> Task:
    data = encoded(structure, X, y)

    def problem(lam: float) -> StructuredProblem:
        return StructuredProblem(data, np.ones(len(y))).at(1.0 / lam)

    return Task(name, problem, STRUCTURED_LAMS[: 2 if quick else None])


def ocr(quick: bool) -> Task:
    words = sequences.ocr_words([0], quick)
    return structured("ocr", mm.structures.Chain(), words.X[:WORDS], words.y[:WORDS], quick)


def generated(maker: str, structure: str, count: int, name: str, quick: bool) -> Task:
    """Data that the package itself makes, for a structure that is asked for by name"""
    try:
        make = getattr(importlib.import_module("maxmargin.datasets"), maker)
        kind = getattr(mm.structures, structure)
    except (ImportError, AttributeError):
        raise MissingDataError(f"{name}: this version has no maxmargin.datasets.{maker} or structures.{structure}") from None
    X, y, shape = make(QUICK if quick else count, random_state=0)
    return structured(name, kind(shape), X, y, quick)


def segmentation(quick: bool) -> Task:
    return generated("make_plates", "Segmentation", PLATES, "segmentation", quick)


def landmarks(quick: bool) -> Task:
    return generated("make_landmarks", "Parts", FACES, "parts", quick)


TASKS: dict[str, Callable[[bool], Task]] = {
    "mnist": mnist,
    "mnist6000": mnist_few,
    "ocr": ocr,
    "segmentation": segmentation,
    "parts": landmarks,
}


# ---- runs --------------------------------------------------------------------------------------------------


def fitted(solver: Any, problem: Any, limit: float, jobs: int = 1, start: Start = NOWHERE) -> Fit:
    """To the gap TOL, or until `limit` seconds are spent: of the processor, or with several threads of the clock"""
    begin, clock = time.process_time(), time.perf_counter()

    def watch(iteration: int) -> bool:
        return (time.process_time() - begin if jobs == 1 else time.perf_counter() - clock) > limit

    result = solution_of(solver, problem, Budget(tol=TOL, max_iter=10**6, n_jobs=jobs, watch=watch), mm.History(), start=start)
    return Fit(result, time.process_time() - begin, time.perf_counter() - clock)


def along(name: str, task: Task, options: Options) -> dict[float, Fit]:
    """One variant at every lam, each begun as `MEANING` says"""
    found: dict[float, Fit] = {}
    last: Result | None = None
    lams = options.lams or task.lams
    if task.first and (name == DUAL or VARIANTS[name].prox):  # it comes along the path; the others begin anew
        lams = [lam for lam in (task.first, *task.lams) if lam >= min(lams)]
        onward = True
    else:
        onward = False
    for lam in lams:
        problem, start = task.problem(lam), NOWHERE
        if last is not None and onward:
            result = last
            if isinstance(result.duals, PlaneStart) and name.endswith("planes"):
                start = Start(result.duals, result.w)
            elif name == DUAL:
                start = Start(problem.clipped(result.duals), result.w)
            else:
                start = Start(None, result.w)
        one = fitted(VARIANTS[name], problem, options.limit, options.jobs, start)
        gap = one.result.certificate.relative_gap
        print(f"{task.name}, lam = {lam:g}: {name}: {one.wall:.1f} s, {one.result.n_iter}, gap {gap:.3g}", flush=True)
        last = one.result
        if lam in (options.lams or task.lams):
            found[lam] = replace(one, result=replace(one.result, duals=None))  # planes are large
    return found


def line(task: Task, name: str, lam: float, one: Fit, jobs: int) -> list[str]:
    """A line of the table, its columns as in HEAD"""
    proof, used = one.result.certificate, one.result.statistics
    late = "" if proof.converged else "> "
    cells = [name, f"{lam:g}", f"{late}{one.result.n_iter}", figure(proof.relative_gap, 2), late + figure(one.seconds)]
    cells += [late + figure(one.wall), str(jobs)]
    if one.part is None:
        cells += ["-", "-", "-"]
    else:
        cells += [f"{100.0 * one.part:.0f} %", f"{used['most_planes']:.0f}", f"{used['plane_megabytes']:.0f}"]
    if task.error is None:
        return [*cells, "-", "-", "-"]
    theirs = PAPER_ITERATIONS[name][MNIST_LAMS.index(lam)] if name in PAPER_ITERATIONS else None
    return [*cells, f"{task.error(task.problem(lam), one.result.w):.4f}", figure(theirs), f"{PAPER_ERRORS[lam]:.4f}"]


def iterations(report: Report, name: str, options: Options) -> None:
    task = TASKS[name](options.quick)
    if missing := [lam for lam in options.lams or () if lam not in task.lams]:
        raise SystemExit(f"{name} has no lam = {missing[0]:g}; it has {', '.join(f'{lam:g}' for lam in task.lams)}.")
    variants = options.variants or [one for one in VARIANTS if task.first or not one.endswith("planes")]
    for one in variants:  # compiles all of it
        few = Budget(tol=1e-9, max_iter=12, n_jobs=options.jobs)
        solution_of(VARIANTS[one], task.problem(task.lams[-1]), few, mm.History())
    fits = {one: along(one, task, options) for one in variants}
    lines = [line(task, one, lam, fits[one][lam], options.jobs) for lam in options.lams or task.lams for one in variants]
    unit = "of the processor" if options.jobs == 1 else "of the clock"
    text = f"Relative gap {TOL:g}, at most {options.limit:g} s {unit} a fit."
    report.section(f"bundle: {name}{options.selection}", "\n\n".join([text, MEANING, table(HEAD, lines)]))


def keeping(report: Report, options: Options) -> None:
    """Whether dropping planes, or little memory for them, costs iterations"""
    task, lines = mnist_few(options.quick), []
    fitted(VARIANTS[PROX16], task.problem(task.lams[0]), 1.0, options.jobs)  # compiles all of it
    for lam in options.lams or task.lams[1:]:
        for name, params in KEPT.items():
            one = fitted(mm.Bundle(n_models=16, **params), task.problem(lam), options.limit, options.jobs)
            lines.append(line(task, name, lam, one, options.jobs))
            print(*lines[-1], flush=True)
    text = f"""Prox-P=16 on the first {FEW} rows of mnist, each lam after ten passes of stochastic gradient descent, relative
gap {TOL:g}; columns as for mnist. By default planes without mass for 30 iterations are dropped, and memory is 1,024 MB."""
    report.section(f"bundle: planes{options.selection}", f"{text}\n\n{table(HEAD[:-3], [cells[:-3] for cells in lines])}")


# ---- curves ------------------------------------------------------------------------------------------------


def convergence(report: Report, lam: float, options: Options) -> None:
    """Distance to the optimum against iterations: more models, and the prox-term (their Figure 3, a and b)"""
    problem = mnist(options.quick).problem(lam)
    best = solution_of(mm.DualCoordinate(), problem, Budget(tol=1e-4), mm.History()).certificate.dual
    found: dict[str, dict[int, float]] = {}
    for prox in (False, True):
        for models in CURVE_MODELS:
            one = fitted(mm.Bundle(prox=prox, n_models=models, init="zero"), problem, options.limit, options.jobs)
            name = f"{'Prox-' if prox else ''}P={models}"
            print(f"lam = {lam:g}: {name}: {one.wall:.1f} s, {one.result.n_iter}", flush=True)
            found[name] = {record.iteration: max((record.primal - best) / best, LEAST) for record in one.result.history}
    longest = max(max(curve) for curve in found.values())
    shown = sorted(
        {round(k) for k in np.geomspace(1, longest, 1 + int(12 * np.log10(longest)))} | {max(c) for c in found.values()}
    )
    lines = [[str(k), *(figure(curve.get(k), 2) for curve in found.values())] for k in shown]
    text = f"""mnist, lam = {lam:g}: how far the best value so far is above the optimum, as a part of it, after each iteration,
from zero weights, until the gap is {TOL:g} or {options.limit:g} s are over. P=1 without a prox-term is BMRM."""
    report.section(f"bundle: curves, lam = {lam:g}", f"{text}\n\n{table(['iterations', *found], lines)}")


def drawn(name: str, section: dict[str, list[str]]) -> str | None:
    """The picture of such a table; None where there is no matplotlib"""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        print("\nskipped figures: matplotlib is not installed", flush=True)
        return None
    picture = Figure(figsize=(9, 3.5), layout="constrained")
    for axes, prox in zip(picture.subplots(1, 2, sharey=True), (False, True)):
        for curve, cells in section.items():
            if curve != "iterations" and curve.startswith("Prox-") == prox:
                points = [(int(k), float(cell)) for k, cell in zip(section["iterations"], cells) if cell != "-"]
                axes.loglog(*zip(*points), label=curve, lw=1.2)
        axes.set_title("with a prox-term" if prox else "without a prox-term")
        axes.set_xlabel("iterations")
        axes.legend()
        axes.grid(alpha=0.3)
    picture.axes[0].set_ylabel("relative distance to the optimum")
    curves.FOLDER.mkdir(exist_ok=True)
    file = name.replace("bundle: ", "bundle ").replace(", lam = ", "_").replace(" ", "_") + ".png"
    FigureCanvasAgg(picture).print_png(curves.FOLDER / file)
    return file


# ---- what holds --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A line of a table, read back; counts of a fit that was not done are lower bounds"""

    iterations: int
    done: bool
    jobs: int
    part: float | None
    error: float | None

    @property
    def count(self) -> str:
        return f"{'' if self.done else '> '}{self.iterations}"


def measured(sections: dict[str, str], part: str) -> dict[tuple[str, float], Row]:
    """What all tables of this part say, by variant and lam"""
    found: dict[tuple[str, float], Row] = {}
    for name, body in sections.items():
        if name == f"bundle: {part}" or name.startswith(f"bundle: {part}, "):
            cells = columns(body)
            for k, variant in enumerate(cells["variant"]):
                iterations, share, error = (cells[key][k] for key in ("iter", "QP", "error"))
                found[variant, float(cells["lam"][k])] = Row(
                    int(iterations.removeprefix("> ")),
                    not iterations.startswith(">"),
                    int(cells["jobs"][k]),
                    None if share == "-" else float(share.removesuffix(" %")) / 100.0,
                    None if error == "-" else float(error),
                )
    return found


def judged(claim: str, state: bool | None, detail: str) -> list[str]:
    return [claim, "not known" if state is None else "holds" if state else "FAILS", detail]


def verdicts(found: dict[tuple[str, float], Row]) -> list[list[str]]:
    """What must hold on mnist, each with what was measured"""
    lines = []
    for lam in MNIST_LAMS:
        errors = {name: row.error for (name, at), row in found.items() if at == lam and row.done and row.error is not None}
        worst = max(errors, key=lambda name: abs(errors[name] - PAPER_ERRORS[lam]), default=None)
        if worst is not None:
            close = abs(errors[worst] - PAPER_ERRORS[lam]) <= CLOSE
            detail = f"{errors[worst]:.4f} ({worst}, farthest of {len(errors)}) against {PAPER_ERRORS[lam]:.4f}"
            lines.append(judged(f"lam = {lam:g}: error within {CLOSE:g} of the paper's", close, detail))
    last = MNIST_LAMS[-1]
    plain, best = found.get((BMRM, last)), found.get((PROX16, last))
    if plain is not None:
        many = True if plain.iterations >= THOUSANDS else False if plain.done else None
        detail = f"{plain.count}; the paper: {PAPER_ITERATIONS[BMRM][-1]}"
        lines.append(judged(f"lam = {last:g}: BMRM takes thousands of iterations", many, detail))
    if plain is not None and best is not None:
        ratio = plain.iterations / max(best.iterations, 1)
        fewer = None if not best.done else True if ratio >= FEWER else False if plain.done else None
        theirs = PAPER_ITERATIONS[BMRM][-1] / PAPER_ITERATIONS[PROX16][-1]
        detail = f"{plain.count} against {best.count}: {ratio:.1f}; the paper: {theirs:.1f}"
        lines.append(judged(f"lam = {last:g}: Prox-P=16 takes at least {FEWER:g} times fewer", fewer, detail))
    for lam in MNIST_LAMS:
        row = found.get((PROX16, lam))
        if row is not None and row.part is not None and row.jobs == 1:
            claim = f"lam = {lam:g}: less than half of the time is not the risk's, Prox-P=16, one thread"
            lines.append(judged(claim, row.part < HALF, f"{100 * row.part:.0f} %"))
    return lines


def summary(report: Report) -> None:
    """What the tables measured so far say, and the picture of each set of curves"""
    sections = read(report.path) if report.path is not None else {}
    lines = verdicts(measured(sections, "mnist"))
    text = ["Computed from the tables of this file."]
    if lines:
        text.append(table(["mnist", "state", "measured"], lines))
    for name, body in sections.items():
        if name.startswith("bundle: curves, ") and (file := drawn(name, columns(body))) is not None:
            text.append(f"{name.removeprefix('bundle: curves, ')}\n\n![{name}](figures/{file})")
    if len(text) > 1:
        report.section("bundle: summary", "\n\n".join(text))


def run(report: Report, parts: Sequence[str], options: Options) -> None:
    for part in parts:
        try:
            if part == "curves":
                for lam in options.lams or CURVE_LAMS[: 1 if options.quick else None]:
                    convergence(report, lam, options)
            elif part == "planes":
                keeping(report, options)
            elif part == "summary":
                summary(report)
            else:
                iterations(report, part, options)
        except MissingDataError as error:
            print(f"\nskipped {error}", flush=True)
