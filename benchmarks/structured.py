"""Structured solvers beside each other: oracle calls and seconds to a dual value and to a certified gap.

Every solver runs on the same encoded samples and from scratch until it has certified a relative gap of 1e-3 or its time is up.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

import maxmargin as mm
from maxmargin.problems.structured import StructuredProblem

from . import curves, floors, sequences
from .objectives import chain_dual, chain_primal
from .report import Report, figure, table
from .traces import BCFW, DEFAULT, MEANING, OEG, PAPER, SOLVERS, TOL, Trace, encoded, measured, trace, warm_up
from .workloads import MissingDataError

LAMS = (0.1, 0.01, 0.001)
SUBOPTIMALITIES = 1e-2, 1e-3
THIRD = 1.0 / 3.0
CLOSE = 1e-5  # the relative gap of the reference run
Moment = tuple[float, int] | None


@dataclass(frozen=True)
class Options:
    """Which solvers, on how much of the data, for how many seconds and how often"""

    solvers: Sequence[str]
    quick: bool
    limit: float
    repeat: int


@dataclass(frozen=True)
class Setting:
    """A workload at one lam, its traces, and the optimum as far as it is known: dual <= optimum <= primal"""

    workload: str
    lam: float
    n: int
    limit: float
    traces: dict[str, Trace]
    primal: float
    dual: float

    def lower(self, suboptimality: float) -> float:
        return self.dual - suboptimality * abs(self.dual)

    def moments(self, name: str) -> list[Moment]:
        """When the dual came within 1e-2 and 1e-3 of the optimum, when a gap of 1e-2 was proved, and 1e-3 certified"""
        one = self.traces[name]
        return [*(one.to_dual(self.lower(s)) for s in SUBOPTIMALITIES), one.to_gap(SUBOPTIMALITIES[0]), one.certified]


def problem_of(workload: str, samples: sequences.Samples, lam: float) -> StructuredProblem:
    chain = sequences.kind(workload) == "chain"
    structure = mm.structures.Chain() if chain else mm.structures.Multiclass(bias=False)
    return StructuredProblem(encoded(structure, samples.X, samples.y), np.ones(len(samples))).at(1.0 / (lam * len(samples)))


def measure(workload: str, problem: StructuredProblem, lam: float, options: Options) -> Setting:
    warm_up(SOLVERS[DEFAULT], problem, options.limit)
    reference = trace("reference", SOLVERS[DEFAULT], problem, 3.0 * options.limit, CLOSE)
    traces = {}
    for name in options.solvers:
        traces[name] = measured(name, problem, options.limit, options.repeat)
        last = traces[name].points[-1]
        ended = f"{last.seconds:.1f} s, dual {last.dual:.6g}, primal {last.primal:.6g}"
        print(f"{workload}, lam = {lam:g}: {traces[name].name}: {ended}", flush=True)
    everyone = [reference, *traces.values()]
    primal, dual = min(one.best_primal for one in everyone), max(one.exact for one in everyone)
    return Setting(workload, lam, problem.n_examples, options.limit, traces, primal, dual)


# ---- tables ----------------------------------------------------------------------------------------------


def ratio(mine: Moment, peer: Moment, ends: tuple[Trace, Trace], which: int) -> str:
    """Mine over the peer's (0: seconds, 1: calls). A run that did not get there took more than it ended with."""
    bounds = [(at[which] if at else (end.points[-1].seconds, end.points[-1].calls)[which]) for at, end in zip((mine, peer), ends)]
    if mine is None and peer is None:
        return "-"
    sign = "> " if mine is None else "< " if peer is None else ""
    return sign + figure(bounds[0] / max(bounds[1], 1e-9), 2)


def described(setting: Setting, picture: str | None) -> str:
    head = ["solver"]
    for column in ("dual 1e-2", "dual 1e-3", "gap 1e-2", "certified 1e-3"):
        head += [f"{column}: passes", "s"]
    head += ["dual 1e-3: calls / BCFW", "time / BCFW", "certified: calls / BCFW", "time / BCFW", "final gap"]
    rows = []
    for name, one in setting.traces.items():
        last, row, moments = one.points[-1], [one.name], setting.moments(name)
        late = [f"> {last.calls / setting.n:.0f}", f"> {last.seconds:.0f}"]
        for at in moments:
            row += [figure(at[1] / setting.n), figure(at[0])] if at else late
        peer = setting.traces.get(BCFW)
        for k in (1, 3):
            row += [ratio(moments[k], setting.moments(BCFW)[k], (one, peer), which) for which in (1, 0)] if peer else ["", ""]
        gap = (last.primal - last.dual) / abs(last.primal)
        rows.append([*row, f"{gap:.1e}" if np.isfinite(gap) else "BROKEN (not a number)"])
    gap = (setting.primal - setting.dual) / abs(setting.primal)
    worst = max(setting.traces.values(), key=lambda one: one.drift)
    text = f"{setting.n} samples, C = 1/({setting.lam:g} n); optimum between {setting.dual:.8g} and {setting.primal:.8g} "
    text += f"({gap:.1e} apart); at most {setting.limit:g} s a run. The dual values noted on the way were within "
    text += f"{worst.drift:.0e} of the exact ones wherever the solvers took these ({worst.name} the farthest off)."
    parts = [text, table(head, rows)]
    return "\n\n".join([*parts, f"![{setting.workload}, lam = {setting.lam:g}](figures/{picture})"] if picture else parts)


# ---- what must hold on OCR -------------------------------------------------------------------------------


def fewer_calls(setting: Setting) -> str:
    """The default certifies in a third of the oracle calls of plain Frank-Wolfe."""
    mine, peer = setting.traces[DEFAULT], setting.traces[BCFW]
    at, other = mine.certified, peer.to_gap(TOL)
    text = f"lam = {setting.lam:g}: `auto` certifies {TOL:g} in at most a third of BCFW's oracle calls: "
    if at is None:
        return text + "FAILS (not certified in time)."
    theirs, sign = (other[1], "") if other else (peer.points[-1].calls, "> ")
    share = at[1] / theirs
    state = "holds" if share <= THIRD else "FAILS" if other else "not known"
    less, extra = "" if other else "< ", mine.evaluations * setting.n
    text += f"{state} ({at[1] / setting.n:.1f} passes' worth against {sign}{theirs / setting.n:.0f}, ratio {less}{share:.3f}; "
    return (
        text + f"{less}{(at[1] + extra) / theirs:.3f} with its {mine.evaluations} evaluations of the objective, BCFW's left out)."
    )


def paper_claim(settings: Sequence[Setting]) -> list[str]:
    """Partial linearization reaches a dual value no later than Frank-Wolfe, in the mean over lam."""
    lines = []
    names = [name for name in settings[0].traces if name.startswith("BCPL") or name == OEG]
    for suboptimality in SUBOPTIMALITIES:
        for which, unit in ((0, "s"), (1, "passes")):
            means = {}
            for name in [BCFW, *names]:
                total, late = 0.0, False
                for setting in settings:
                    at, last = setting.traces[name].to_dual(setting.lower(suboptimality)), setting.traces[name].points[-1]
                    late = late or at is None
                    found = (at or (last.seconds, last.calls))[which]
                    total += (found / setting.n if which else found) / len(settings)
                means[name] = total, late
            base = means[BCFW]
            shown = ", ".join(f"{name} {'> ' * late}{figure(mean)}" for name, (mean, late) in means.items())
            mine = means[PAPER]
            state = "does not hold" if mine[0] > base[0] else "not known" if mine[1] else "holds"
            claim = f"BCPL at 0.01 reaches dual suboptimality {suboptimality:g} no later than BCFW, mean over lam, in {unit}"
            lines.append(f"{claim}: {state} ({shown}).")
    return lines


def for_scale(setting: Setting) -> list[str]:
    """Times to within 1% and 0.1% of the optimum, primal and dual"""
    lines = []
    for name in (DEFAULT, BCFW):
        one, shown = setting.traces[name], []
        for s in SUBOPTIMALITIES:
            at = one.to_optimum(setting.primal * (1.0 + s), setting.lower(s))
            shown.append(figure(at[0]) if at else f"> {one.points[-1].seconds:.0f}")
        told = f"within 1% of the optimum after {shown[0]} s, within 0.1% after {shown[1]} s"
        lines.append(f"lam = {setting.lam:g}: `{name}` had both its primal and its dual value {told}.")
    return lines


def recomputed(samples: sequences.Samples, lam: float) -> str:
    """P and D of a certified model by plain NumPy code that shares nothing with the library"""
    C, letters = 1.0 / (lam * len(samples)), 26
    model = mm.StructuredSVM(mm.structures.Chain(n_labels=letters), C, keep_duals=True, random_state=0).fit(samples.X, samples.y)
    primal = chain_primal(samples.X, samples.y, model.w_, C, letters)
    dual, wrong = chain_dual(samples.X, samples.y, model.dual_coef_, C, letters)
    stated = model.certificate_
    off = max(abs(stated.primal / primal - 1.0), abs(stated.dual / dual - 1.0))
    state = "agree" if off < 1e-9 and wrong < 1e-12 else "DISAGREE"
    text = f"lam = {lam:g}: the certificate of `auto` (primal {stated.primal:.9g}, dual {stated.dual:.9g}) and plain NumPy code "
    text += f"(primal {primal:.9g}, dual {dual:.9g}, relative gap {(primal - dual) / primal:.2e}) {state} to {off:.0e}; "
    return text + f"dual coefficients infeasible by {wrong:.0e}."


def verdicts(report: Report, settings: Sequence[Setting], samples: sequences.Samples) -> None:
    """What must hold on OCR, where the solvers and the lam that it is about were measured"""
    lines: list[str] = []
    both = [setting for setting in settings if {BCFW, DEFAULT} <= set(setting.traces)]
    lines += [fewer_calls(setting) for setting in both]
    if len(settings) == len(LAMS) and {BCFW, PAPER} <= set(settings[0].traces):
        lines += paper_claim(settings)
    lines += [line for setting in both for line in for_scale(setting)]
    lines += [recomputed(samples, setting.lam) for setting in settings]
    report.section("structured: ocr, what must hold", "\n".join(f"- {line}" for line in lines))


def run_one(report: Report, workload: str, lams: Sequence[float], options: Options) -> None:
    samples = sequences.load(workload, options.quick)
    settings = []
    problem = problem_of(workload, samples, lams[0])
    for lam in lams:
        scaled = problem.at(1.0 / (lam * len(samples)))
        settings.append(measure(workload, scaled, lam, options))
        picture = curves.draw(settings[-1])
        report.section(f"structured: {workload}, lam = {lam:g}", described(settings[-1], picture))
    if workload == "ocr":
        verdicts(report, settings, samples)


def passes(report: Report, quick: bool) -> None:
    """What a pass costs beside its floor"""
    try:
        problem = problem_of("ocr", sequences.load("ocr", quick), LAMS[1])
    except MissingDataError as missing:
        print(f"\nskipped structured: {missing}", flush=True)
        return
    with threadpool_limits(1):
        body, lines = floors.described(problem)
    report.section("structured: ocr, cost of a pass", "\n\n".join([body, "\n".join(f"- {line}" for line in lines)]))


def run(report: Report, workloads: Sequence[str], lams: Sequence[float], options: Options) -> None:
    with threadpool_limits(1):
        report.section("structured", MEANING)
        for workload in workloads:
            try:
                run_one(report, workload, lams, options)
            except MissingDataError as missing:
                print(f"\nskipped structured: {missing}", flush=True)
