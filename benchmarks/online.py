"""Streams on disk under a hard memory limit: one pass, certified passes, and the peers that learn from text.

Each measurement is a process of its own. It warms up on a small file, then limits its address space to its size at that moment
plus a budget that is smaller than the data, then opens the file anew. Objectives and test errors are computed outside of it, in
plain NumPy, from the same rows.

What is measured of a stream (`--who`) is kept as JSON beside the stream, so that several processes can share the work in one
`--folder`; `table` puts it together.
"""

import json
import resource
import shutil
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import SGDClassifier

import maxmargin as mm

from .measure import ONE_THREAD, PeakMemory, environment, status
from .report import Report, figure, table, without
from .streams import BLOCK, LAM, Files, Stream, guesses, objectives, vw_file

CACHE = 32.0  # megabytes
CHUNK = 8 << 20  # bytes of text that scikit-learn parses together
RATES = (("optimal", 0.0), ("constant", 0.001), ("constant", 0.01), ("constant", 0.1), ("invscaling", 0.1), ("invscaling", 1.0))
VW_RATES = (0.02, 0.1, 0.5, 2.0)
PASSES = 5  # of scikit-learn and Vowpal Wabbit at the most; 2 with --quick
MOST = 30  # passes for the best objective: what is above it by 5 % or 1e-3 needs no more
WITHIN = 1e-3  # test errors that differ by less are equal
GROWTH = (1, 4, 16)
GROWTH_BLOCK = 4.0  # megabytes of text: so that the smallest file has many blocks as well


# ---- what is measured, each in its own process -----------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """Wall and processor seconds, growth of the process, weights; or, where these stay inside of a peer, its guesses."""

    seconds: float
    cpu: float
    megabytes: float
    coef: np.ndarray | None = None
    intercept: np.ndarray | None = None
    reads: int = 1
    gap: float | None = None
    guess: np.ndarray | None = None
    arrays: float | None = None  # megabytes that Python and NumPy held at the most


class Clock:
    """Seconds that count, and memory."""

    def __init__(self) -> None:
        self.memory, self.wall, self.cpu = PeakMemory(), 0.0, 0.0
        self.go()

    def go(self) -> None:
        self.begin = time.perf_counter(), time.process_time()

    def stop(self) -> tuple[float, float, float]:
        self.wall += time.perf_counter() - self.begin[0]
        self.cpu += time.process_time() - self.begin[1]
        return self.wall, self.cpu, self.memory.growth() / 1e6


def learn_online(path: Path, stream: Stream, setting: dict[str, Any]) -> list[Found]:
    cache = setting.get("cache")
    scan = 0 if cache and list(Path(cache).glob(f"{path.name}.*.blocks")) else 1  # a read, unless a cache is there
    clock = Clock()
    source = mm.open_source(path, n_features=stream.features, cache=cache, block_size=setting.get("block_size", 16.0))
    solver = mm.OnlineDual(cache_size=CACHE, verify=setting.get("max_iter") != 1)
    end = {key: setting[key] for key in ("tol", "max_iter") if key in setting}
    C = 1.0 / (setting.get("lam", LAM) * stream.rows)
    model = mm.SVMClassifier(C=C, solver=solver, random_state=0, **end).fit(source)
    measured = clock.stop()
    reads = int(model.statistics_["reads"]) + scan
    return [Found(*measured, model.coef_, model.intercept_, reads, model.certificate_.relative_gap)]


def learn_in_memory(path: Path, stream: Stream, setting: dict[str, Any]) -> list[Found]:
    clock = Clock()
    X, y = load_svmlight_file(str(path), n_features=stream.features, zero_based=False)
    model = mm.SVMClassifier(C=stream.C, random_state=0, tol=setting["tol"]).fit(X, y.astype(int))
    return [Found(*clock.stop(), model.coef_, model.intercept_, 1, model.certificate_.relative_gap)]


def chunks(path: Path, stream: Stream) -> Iterator[tuple[Any, np.ndarray]]:
    """The file as scikit-learn parses it, by offsets"""
    size = path.stat().st_size
    for offset in range(0, size, CHUNK):
        X, y = load_svmlight_file(str(path), n_features=stream.features, offset=offset, length=CHUNK, zero_based=False)
        if y.size:
            X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # SGDClassifier takes no others
            yield X, y.astype(int)


def learner(stream: Stream, setting: dict[str, Any]) -> SGDClassifier:
    schedule, rate = setting["rate"]
    return SGDClassifier(alpha=stream.lam, learning_rate=schedule, eta0=rate or 0.01, average=setting["average"], random_state=0)


def learn_sgd(path: Path, stream: Stream, setting: dict[str, Any]) -> list[Found]:
    """The model after each pass, one run"""
    clock, model, found = Clock(), learner(stream, setting), []
    for k in range(setting["passes"]):
        clock.go()
        for X, y in chunks(path, stream):
            model.partial_fit(X, y, classes=np.arange(stream.classes))
        found.append(Found(*clock.stop(), model.coef_.copy(), model.intercept_.copy(), k + 1))
    return found


def tune_sgd(path: Path, stream: Stream, setting: dict[str, Any]) -> list[Found]:
    """One pass of all settings at once, so that the text is parsed once; seconds mean nothing"""
    models = [learner(stream, each) for each in setting["settings"]]
    clock = Clock()
    for X, y in chunks(path, stream):
        for model in models:
            model.partial_fit(X, y, classes=np.arange(stream.classes))
    measured = clock.stop()
    return [Found(*measured, model.coef_, model.intercept_) for model in models]


def learn_vw(path: Path, stream: Stream, setting: dict[str, Any]) -> list[Found]:
    """Vowpal Wabbit reads its own text and keeps a cache for later passes, or reads one it finds (`cached`)"""
    from vowpalwabbit import Workspace

    several = stream.classes > 2
    bits = int(np.ceil(np.log2((stream.features + 1) * stream.classes))) + 1
    clock = Clock()
    model = Workspace(
        f"--quiet --loss_function hinge --l2 {stream.lam if setting['l2'] else 0} -l {setting['rate']} -b {bits} "
        f"{f'--oaa {stream.classes}' if several else ''} -d {vw_file(path)} --passes {setting['passes']} "
        f"--cache_file {vw_file(path).with_suffix('.cache')} {'' if setting.get('cached') else '-k'} --holdout_off"
    )
    measured, guess = clock.stop(), None
    if not setting["warm"]:
        scores = [model.predict(line) for line in test_lines(path)]
        guess = np.array([int(score) - 1 if several else score > 0 for score in scores], int)
    model.finish()
    return [Found(*measured, reads=setting["passes"], guess=guess)]


def test_lines(path: Path) -> list[str]:
    """The test set as Vowpal Wabbit takes it, without labels"""
    return ["|" + line.split("|")[1] for line in vw_file(path.with_name("test.svm")).read_text().splitlines()]


def read_only(path: Path, stream: Stream, setting: dict[str, Any]) -> list[Found]:
    """A pass without learning: the parsers against each other"""
    clock = Clock()
    if setting["parser"] == "our parser":
        mm.open_source(path, n_features=stream.features).scan()
    else:
        for _ in chunks(path, stream):
            pass
    return [Found(*clock.stop())]


Task = Callable[[Path, Stream, dict[str, Any]], list[Found]]


def work(connection, task: Task, small: Path, path: Path, stream: Stream, setting: dict[str, Any], limit: bool) -> None:
    warnings.simplefilter("ignore")
    try:
        task(small, replace(stream, rows=min(BLOCK, stream.rows)), {**setting, "warm": True})
        if limit:
            most = status("VmSize") + int(stream.budget * 2**20)
            resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        connection.send(task(path, stream, {**setting, "warm": False}))
    except Exception as error:  # whatever it is, the table says so
        connection.send(f"{type(error).__name__}: {error}")


def run_apart(files: Files, task: Task, limit: bool = True, **setting) -> list[Found] | str:
    """A measurement in a process of its own; a sentence where it failed."""
    context = get_context("spawn")
    near, far = context.Pipe()
    process = context.Process(target=work, args=(far, task, files.small, files.text, files.stream, setting, limit))
    with environment({**ONE_THREAD, "MALLOC_ARENA_MAX": "1"}):
        process.start()
    far.close()
    try:
        found = near.recv()
    except EOFError:
        found = "the process died"
    process.join()
    return found


# ---- lines of the table, kept in the folder --------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """A measurement without its weights. `kind` is what the table looks it up by."""

    kind: str
    name: str
    seconds: float | None = None
    cpu: float | None = None
    reads: int | None = None
    megabytes: float | None = None
    gap: float | None = None
    error: float | None = None
    objective: float | None = None
    failure: str | None = None

    def cells(self, best: float | None) -> list[str]:
        if self.failure is not None:
            return [self.name, self.failure, *["-"] * 6]
        over = None if self.objective is None or best is None else 100 * (self.objective / best - 1)
        return [
            self.name,
            figure(self.seconds),
            figure(self.cpu),
            "-" if self.reads is None else str(self.reads),
            "-" if over is None else f"{over:.2f} %",
            "-" if self.error is None else f"{100 * self.error:.2f} %",
            "-" if self.gap is None else f"{self.gap:.1e}" if np.isfinite(self.gap) else "not computed",
            figure(self.megabytes),
        ]


Labelled = tuple[str, str, Found | str]


def lines_of(stream: Stream, labelled: Sequence[Labelled], same_objective: bool) -> list[Line]:
    """Lines with objectives, in one sweep, and test errors; `same_objective`: whether theirs is the one that we minimise."""
    X, y = stream.test_set()
    weights = [(one.coef, one.intercept) for _, _, one in labelled if isinstance(one, Found) and one.coef is not None]
    values = iter(objectives(stream, weights) if same_objective else [None] * len(weights))
    lines = []
    for kind, name, one in labelled:
        if isinstance(one, str):
            lines.append(Line(kind, name, failure=one))
            continue
        guess, value = one.guess, None
        if one.coef is not None and one.intercept is not None:
            guess, value = guesses(X, one.coef, one.intercept), next(values)
        error = None if guess is None else float(np.mean(guess != y))
        lines.append(Line(kind, name, one.seconds, one.cpu, one.reads, one.megabytes, one.gap, error, value))
    return lines


def alone(found: list[Found] | str) -> Found | str:
    return found if isinstance(found, str) else found[0]


def ours(files: Files, quick: bool) -> list[Line]:
    once, cache = {"max_iter": 1, "tol": 1e-2}, {"cache": str(files.folder)}
    settings: list[tuple[str, str, dict[str, Any]]] = [
        ("once", "OnlineDual, one pass", once),
        ("written", "OnlineDual, one pass, binary cache written", once | cache),
        ("cached", "OnlineDual, one pass of the binary cache", once | cache),
        ("1e-2", "OnlineDual, certified 1e-2", {"tol": 1e-2}),
        ("1e-3", "OnlineDual, certified 1e-3", {"tol": 1e-3}),
        ("best", f"OnlineDual, tol=1e-4 or {MOST} passes, binary cache", {"tol": 1e-4, "max_iter": MOST} | cache),
    ]
    for old in files.folder.glob("*.blocks"):
        old.unlink()
    lines = lines_of(files.stream, online_runs(files, settings[: 4 if quick else None]), True)
    lam = files.stream.lam
    if lam != LAM:
        name = f"OnlineDual (lam = {lam:g}), one pass"
        tuned = [("tuned", name, once), ("tuned cached", f"{name} of the binary cache", once | cache)]
        runs = online_runs(files, [(kind, name, {**setting, "lam": lam}) for kind, name, setting in tuned])
        lines += lines_of(files.stream, runs, False)
    return lines


def online_runs(files: Files, settings: Sequence[tuple[str, str, dict[str, Any]]]) -> list[Labelled]:
    return [(kind, name, alone(run_apart(files, learn_online, **setting))) for kind, name, setting in settings]


def in_memory(files: Files, quick: bool) -> list[Line]:
    found = alone(run_apart(files, learn_in_memory, limit=False, tol=1e-3))
    return lines_of(files.stream, [("memory", "in memory, certified 1e-3, read by scikit-learn", found)], True)


def parsers(files: Files, quick: bool) -> list[Line]:
    names = ("our parser", "scikit-learn's parser")
    found = [(name, f"{name}, no learning", alone(run_apart(files, read_only, parser=name))) for name in names]
    return lines_of(files.stream, found, True)


def sgd(files: Files, quick: bool) -> list[Line]:
    """SGDClassifier.partial_fit with our lam, at the rate with the lowest test error after one pass: a choice that favours it"""
    stream = files.stream
    name = "SGDClassifier.partial_fit" + (f" (lam = {stream.lam:g})" if stream.lam != LAM else "")
    settings: list[dict[str, Any]] = [{"rate": rate, "average": average} for rate in RATES for average in (False, True)]
    settings = settings[:3] if quick else settings
    tuned = run_apart(files, tune_sgd, settings=settings)
    if isinstance(tuned, str):
        return [Line("sgd", name, failure=tuned)]
    errors = [line.error or 0.0 for line in lines_of(stream, [("", "", one) for one in tuned], False)]
    setting = settings[int(np.argmin(errors))]
    schedule, rate = setting["rate"]
    label = f"{name} ({schedule}{f' {rate:g}' if rate else ''}{', averaged' if setting['average'] else ''})"
    found = run_apart(files, learn_sgd, passes=2 if quick else PASSES, **setting)
    if isinstance(found, str):
        return [Line("sgd", label, failure=found)]
    return lines_of(stream, [("sgd", label, one) for one in found], stream.classes == 2 and stream.lam == LAM)


def vw(files: Files, quick: bool) -> list[Line]:
    """Vowpal Wabbit with our lam or none, at the setting with the lowest test error after one pass"""
    name, stream = "Vowpal Wabbit", files.stream
    if missing := without("vowpalwabbit"):
        print(f"\nskipped {missing}", flush=True)
        return [Line("vw", name, failure="not installed")]
    files.vw_text()
    settings: list[dict[str, Any]] = [{"rate": rate, "l2": l2} for rate in VW_RATES for l2 in (True, False)]
    settings = settings[:1] if quick else settings
    tuned = lines_of(stream, [("", "", alone(run_apart(files, learn_vw, passes=1, **each))) for each in settings], False)
    setting = settings[min(range(len(settings)), key=lambda k: 1.0 if tuned[k].error is None else tuned[k].error)]
    label = f"{name} (-l {setting['rate']:g}{f' --l2 {stream.lam:g}' if setting['l2'] else ''})"
    found: list[Labelled] = []
    for passes in range(1, (2 if quick else PASSES) + 1):
        found.append(("vw", label, alone(run_apart(files, learn_vw, passes=passes, **setting))))
    cached = alone(run_apart(files, learn_vw, passes=1, cached=True, **setting))
    return lines_of(stream, [*found, ("vw cached", f"{label}, one pass of its cache", cached)], False)


MEASURES: dict[str, Callable[[Files, bool], list[Line]]] = {
    "ours": ours,
    "sgd": sgd,
    "vw": vw,
    "memory": in_memory,
    "parsers": parsers,
}
WHO = (*MEASURES, "table")


def record(files: Files, who: str, quick: bool) -> None:
    lines = MEASURES[who](files, quick)
    for line in lines:
        print(f"{files.stream.name}, {who}:", *line.cells(None), sep="  ", flush=True)
    (files.folder / f"{who}.json").write_text(json.dumps([asdict(line) for line in lines]))


def recorded(files: Files) -> dict[str, list[Line]]:
    """What was measured of each kind; of a peer's passes there are several."""
    found: dict[str, list[Line]] = {}
    for who in MEASURES:
        path = files.folder / f"{who}.json"
        for line in json.loads(path.read_text()) if path.exists() else [asdict(Line(who, who, failure="not measured"))]:
            found.setdefault(line["kind"], []).append(Line(**line))
    return found


# ---- the table -------------------------------------------------------------------------------------------------


def at_error(lines: Sequence[Line], target: float) -> Line | None:
    """The first of a peer's passes whose test error is equal or lower."""
    return next((line for line in lines if line.error is not None and line.error <= target + WITHIN), None)


def verdicts(found: dict[str, list[Line]], best: float | None) -> list[str]:
    """What must hold, and what was seen."""
    said = []
    kinds = ("once", "1e-2", "cached", "tuned", "tuned cached")
    once, coarse, cached, tuned, tuned_cached = (found.get(kind, [Line(kind, kind, failure="")])[0] for kind in kinds)
    if once.objective is not None and best is not None:
        said.append(f"one pass is {100 * (once.objective / best - 1):.2f} % above the best objective (must: 5 %)")
    if coarse.reads is not None:
        said.append(f"1e-2 is certified after {coarse.reads} reads of the file, its scan among them (must: 5)")
    text, binary = tuned if tuned.seconds else once, tuned_cached if tuned_cached.seconds else cached
    for kind, name, mine in (("sgd", "partial_fit", text), ("vw", "Vowpal Wabbit", text), ("vw cached", "one of its", binary)):
        lines = [line for line in found.get(kind, []) if line.failure is None]
        if not lines or mine.error is None or mine.seconds is None or mine.cpu is None:
            continue
        peer = at_error(lines, mine.error)
        never = "" if peer is not None else ", which never gets there"
        peer = peer or max(lines, key=lambda line: line.seconds or 0.0)
        assert peer.seconds is not None and peer.cpu is not None and peer.error is not None
        where = "from the binary cache" if kind == "vw cached" else "from text"
        said.append(
            f"{where} our one pass takes {figure(mine.seconds / peer.seconds)} of the time of {name} to our test error{never} "
            f"(processor time: {figure(mine.cpu / peer.cpu)}; passes: {peer.reads}; test errors: {100 * mine.error:.2f} % and "
            f"{100 * peer.error:.2f} %)"
        )
    return said


def tabulate(report: Report, files: Files) -> None:
    stream, found = files.stream, recorded(files)
    lines = [line for kind in found.values() for line in kind]
    values = [line.objective for line in lines if line.objective is not None]
    best = min(values) if values else None
    head = ["", "seconds", "processor s", "reads", "objective above best", "test error", "certified gap", "extra MB"]
    speeds = [f"{kind} {figure(files.megabytes / line.seconds)} MB/s" for kind, line in parsing(found)]
    parts = [
        f"{stream.rows} x {stream.features}, {stream.classes} classes, {figure(files.megabytes)} MB of text, lam = {LAM:g}; each "
        f"process may grow by {stream.budget:g} MB beyond its size after warming up, all but the one in memory; "
        f"cache_size={CACHE:g}. Seconds count reading, and of ours the scan, a read where no cache is. The peers' settings are "
        f"those with the lowest test error after one pass, of {2 * len(RATES)} and {2 * len(VW_RATES)}, at lam = {stream.lam:g} "
        f"(Vowpal Wabbit also without), with which our one pass is compared to them. The peers' objective for several classes is "
        f"one against the rest; test errors compare.",
        table(head, [line.cells(best) for line in lines]),
        "".join(f"- {verdict}\n" for verdict in verdicts(found, best)).rstrip(),
        f"Reading only: {'; '.join(speeds)}." if speeds else "",
    ]
    report.section(f"online: {stream.name}", "\n\n".join(part for part in parts if part))


def parsing(found: dict[str, list[Line]]) -> list[tuple[str, Line]]:
    return [(kind, lines[0]) for kind, lines in found.items() if "parser" in kind and lines[0].seconds]


def learn_traced(path: Path, stream: Stream, setting: dict[str, Any]) -> list[Found]:
    """As `learn_online`, with the memory of arrays besides that of the process, which keeps what was freed."""
    tracemalloc.start()
    found = learn_online(path, stream, setting)[0]
    most = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return [replace(found, arrays=most)]


def growth(report: Report, folder: Path, stream: Stream, quick: bool) -> None:
    """The same memory for 1x, 4x and 16x the data"""
    rows = []
    for times in GROWTH[: 2 if quick else None]:
        files = Files(replace(stream, rows=stream.rows * times), folder)
        found = alone(run_apart(files, learn_traced, tol=1e-2, block_size=GROWTH_BLOCK))
        cells = [found, *["-"] * 5]
        if isinstance(found, Found):
            assert found.arrays is not None
            cells = [figure(value) for value in (found.arrays, found.megabytes, found.seconds, found.cpu)]
            cells += [str(found.reads), f"{found.gap:.1e}"]
        rows.append([str(files.stream.rows), figure(files.megabytes), *cells])
        shutil.rmtree(files.folder)
    head = ["rows", "MB of text", "arrays MB", "extra MB", "seconds", "processor s", "reads", "certified gap"]
    notes = f"{stream.features} features, tol=1e-2, cache_size={CACHE:g}, block_size={GROWTH_BLOCK:g} (of text); "
    notes += f"limit {stream.budget:g} MB beyond the size when warm. Arrays: the most that Python and NumPy held at a time "
    notes += "(tracemalloc); extra: growth of the process, what its allocator keeps after use included."
    report.section("online: memory", f"{notes}\n\n{table(head, rows)}")


# ---- streams ---------------------------------------------------------------------------------------------------


def streams(quick: bool) -> dict[str, Stream]:
    """Of 1e-4, 3e-5 and 1e-5, lam is the one with which our one pass has the lowest test error."""
    part = 200 if quick else 1
    sizes = {"dense": (1_000_000 // part, 100, None, 1e-4), "sparse": (500_000 // part, 50_000 // part, 80, 1e-5)}
    return {
        f"{kind}{classes}": Stream(f"{kind}{classes}", rows, features, classes, nonzeros, 256.0, lam)
        for kind, (rows, features, nonzeros, lam) in sizes.items()
        for classes in (2, 10)
    }


PARTS = (*streams(quick=True), "growth")


@contextmanager
def folder_or_temporary(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="maxmargin-bench-") as temporary:
        yield Path(temporary)


def run(report: Report, parts: Sequence[str], who: Sequence[str], folder: Path | None, quick: bool) -> None:
    known = streams(quick)
    for part in parts:
        with folder_or_temporary(folder) as here:
            if part == "growth":
                growth(report, here, Stream("growth", 1_000 if quick else 200_000, 100, 2, None, 128.0), quick)
                continue
            files = Files(known[part], here)
            for one in who:
                if one != "table":
                    record(files, one, quick)
            if "table" in who:
                tabulate(report, files)
