"""The command line: python -m benchmarks COMMAND [options], with COMMAND a family of benchmarks, all (all of them), or summary.

The families on a GPU have commands of their own: python -m benchmarks.gpu and benchmarks.gpu_sklearn.
"""

import argparse
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import (
    blocks,
    bundle,
    cores,
    curves,
    everyday,
    files,
    fit,
    kernels,
    latent,
    multilabel,
    multilabel_kernel,
    multilabel_sets,
    newton,
    online,
    pieces,
    probability,
    ranking,
    scaling,
    search,
    sentences,
    sequences,
    sources,
    stand_ins,
    startup,
    structured,
    summary,
    tagging,
    topk,
    traces,
)
from .objectives import LOSSES
from .report import RESULTS, Report
from .report import cores as count_cores
from .solvers import SOLVERS
from .workloads import COMPARED, SETS, Workload

LAMS = (1e-3, 1e-4)
QUICK_ROWS = 300
PARTS = ("accuracy", "passes", "curves")
# What --quick measures of each family, where nothing is typed; {}: as much as without it, on less data. A test reads the names.
QUICK: dict[str, dict[str, list[str]]] = {
    "startup": {},
    "sources": {},
    "everyday": {"workload": ["letter", "cadata", "bibtex"]},
    "scaling": {},
    "structured": {"workload": ["ocr", "conll2000", "letter"], "solver": ["BCFW", "BCPL-0.01", "OEG", "auto"]},
    "topk": {},
    "multilabel": {"workload": ["yeast", "synthetic"]},
    "multilabel_kernel": {"workload": ["yeast", "synthetic"]},
    "kernels": {"workload": ["halves", "cadata"]},
    "bundle": {"part": ["mnist", "parts", "planes", "curves", "summary"], "variant": ["Prox-P=16", "dual coordinate"]},
    "latent": {},
    "online": {"part": ["sparse10", "growth"]},
    "search": {"workload": ["digits", "cadata", "yeast"]},
    "probability": {"workload": ["letter", "yeast"]},
    "pieces": {},
    "newton": {},
    "blocks": {},
    "cores": {"family": ["binary, CSR", "100 classes", cores.TEXT]},
    "files": {},
    "sentences": {"model": ["1e-2", "ap"]},
    "ranking": {},
    "fit": {"workload": ["letter", "cadata"], "loss": ["crammer_singer", "epsilon_insensitive"]},
}


def parser(quick: bool = False) -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--repeat", type=int, metavar="N", help="runs of which the median counts (5; 3 of some; 1 with --quick)"
    )
    common.add_argument(
        "--limit",
        type=float,
        metavar="S",
        help="seconds after which a fit is ended (120; structured: 60; everyday: 60 a solver; with --quick 1 or less)",
    )
    text = "seconds on small generated data, to see that all works; kept only where --results says"
    common.add_argument("--quick", action="store_true", help=text)
    common.add_argument("--results", type=Path, metavar="FILE", help="where the tables are kept (benchmarks/RESULTS.md)")

    top = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    select = commands.add_parser("fit", parents=[common], help="time to a given suboptimality, beside the peers")
    select.add_argument("--workload", nargs="+", choices=list(SETS), default=list(COMPARED), metavar="NAME", help=", ".join(SETS))
    select.add_argument("--loss", nargs="+", choices=LOSSES, default=list(LOSSES), metavar="LOSS", help=", ".join(LOSSES))
    text = "lambda = 1/(C n) (1e-3 and 1e-4; 1e-3 with --quick)"
    select.add_argument("--lam", nargs="+", type=float, metavar="LAM", help=text)
    names = list(dict.fromkeys(solver.name for solver in SOLVERS))
    select.add_argument("--solver", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    usual = commands.add_parser("everyday", parents=[common], help="what people use today, beside what would take its place")
    sets = list(everyday.SETS)
    usual.add_argument("--workload", nargs="+", choices=sets, default=sets, metavar="NAME", help=", ".join(sets))
    commands.add_parser("scaling", parents=[common], help="growth of time and memory with rows and non-zeros")
    commands.add_parser("startup", parents=[common], help="import, first call, first call of a later process, later calls")
    commands.add_parser("sources", parents=[common], help="text on disk: speed beside scikit-learn's reader, and memory")
    chains = commands.add_parser("structured", parents=[common], help="structured solvers beside each other, and crfsuite")
    sets = list(sequences.SETS)
    chains.add_argument("--workload", nargs="+", choices=sets, default=sets, metavar="NAME", help=", ".join(sets))
    text = "lambda = 1/(C n) (0.1, 0.01 and 0.001; 0.01 with --quick)"
    chains.add_argument("--lam", nargs="+", type=float, metavar="LAM", help=text)
    kinds = list(traces.SOLVERS)
    chains.add_argument("--solver", nargs="+", choices=kinds, default=kinds, metavar="NAME", help=", ".join(kinds))
    chains.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    guesses = commands.add_parser("topk", parents=[common], help="top-k projections, training and accuracy")
    guesses.add_argument(
        "--part", nargs="+", choices=topk.PARTS, default=list(topk.PARTS), metavar="PART", help=", ".join(topk.PARTS)
    )
    single = commands.add_parser("kernels", parents=[common], help="classes and regression with a kernel, beside SVC and SVR")
    sets = list(kernels.TASKS)
    single.add_argument("--workload", nargs="+", choices=sets, default=sets, metavar="NAME", help=", ".join(sets))
    text = f"of those that are measured (all; {', '.join(map(str, kernels.SIZES))})"
    single.add_argument("--samples", nargs="+", type=int, choices=kernels.SIZES, metavar="N", help=text)
    labelled = commands.add_parser("multilabel_kernel", parents=[common], help="multi-label learning with a kernel, beside SVC")
    known = multilabel_kernel.PARTS
    labelled.add_argument("--part", nargs="+", choices=known, default=list(known), metavar="PART", help=", ".join(known))
    sets = list(multilabel_kernel.SETS)
    labelled.add_argument("--workload", nargs="+", choices=sets, default=sets, metavar="NAME", help=", ".join(sets))
    counts = sorted({size for _, sizes in multilabel_kernel.SETS.values() for size in sizes})
    text = f"of those that a set is measured at (all; {', '.join(map(str, counts))})"
    labelled.add_argument("--samples", nargs="+", type=int, choices=counts, metavar="N", help=text)
    many = commands.add_parser("multilabel", parents=[common], help="multi-label models beside LIBLINEAR, and priors on labels")
    kinds = list(multilabel.PARTS)
    many.add_argument("--part", nargs="+", choices=kinds, default=kinds, metavar="PART", help=", ".join(kinds))
    sets = list(multilabel_sets.WORKLOADS)
    many.add_argument("--workload", nargs="+", choices=sets, default=sets, metavar="NAME", help=f"of peers: {', '.join(sets)}")
    many.add_argument("--C", nargs="+", type=float, metavar="C", help="of peers (lambda = 1e-3 and 1e-4, and 1)")
    planes = commands.add_parser("bundle", parents=[common], help="bundle methods: iterations and time, as in their paper")
    planes.add_argument(
        "--part", nargs="+", choices=bundle.PARTS, default=list(bundle.PARTS), metavar="PART", help=", ".join(bundle.PARTS)
    )
    kinds = list(bundle.VARIANTS)
    planes.add_argument("--variant", nargs="+", choices=kinds, metavar="NAME", help=f"{'; '.join(kinds)} (all)")
    planes.add_argument("--lam", nargs="+", type=float, metavar="LAM", help="that of lam/2 ||w||^2 + sum of losses (all)")
    planes.add_argument("--jobs", type=int, default=1, metavar="N", help="threads; with several, --limit is of the clock")
    commands.add_parser("latent", parents=[common], help="latent models of generated gestures")
    flow = commands.add_parser("online", parents=[common], help="streams on disk under a memory limit, beside the peers")
    flow.add_argument(
        "--part", nargs="+", choices=online.PARTS, default=list(online.PARTS), metavar="PART", help=", ".join(online.PARTS)
    )
    text = f"what is measured of a stream ({', '.join(online.WHO)}); `table` puts together what is in the folder"
    flow.add_argument("--who", nargs="+", choices=online.WHO, default=list(online.WHO), metavar="WHO", help=text)
    text = "where streams and measurements are kept, for several processes to share (default: a temporary one)"
    flow.add_argument("--folder", type=Path, metavar="FOLDER", help=text)
    choice = commands.add_parser("search", parents=[common], help="C by cross-validation, beside GridSearchCV")
    kinds = list(search.SETS)
    choice.add_argument("--workload", nargs="+", choices=kinds, default=kinds, metavar="NAME", help=", ".join(kinds))
    choice.add_argument("--rows", type=int, metavar="N", help="rows of each set at the most (2,000; 300 with --quick)")
    choice.add_argument("--Cs", type=int, metavar="N", help="values between 1e-4 and 1e4 (9; 3 with --quick)")
    text = "probabilities beside CalibratedClassifierCV: quality and time"
    sure = commands.add_parser("probability", parents=[common], help=text)
    kinds = list(probability.SETS)
    sure.add_argument("--workload", nargs="+", choices=kinds, default=kinds, metavar="NAME", help=", ".join(kinds))
    commands.add_parser("pieces", parents=[common], help="partial_fit: what calls cost as more samples are kept")
    commands.add_parser("blocks", parents=[common], help="dense rows of classes in blocks, beside one row after another")
    many_threads = commands.add_parser("cores", parents=[common], help="what threads bring, for every family of problems")
    kinds = [*(family.name for family in cores.FAMILIES), cores.TEXT]
    many_threads.add_argument("--family", nargs="+", choices=kinds, default=kinds, metavar="NAME", help="; ".join(kinds))
    counts = list(cores.THREADS)
    many_threads.add_argument("--threads", nargs="+", type=int, default=counts, metavar="N", help=f"how many ({counts})")
    many_threads.add_argument("--no-peers", action="store_true", help="leave the peers out")
    many_threads.add_argument("--plot", type=Path, metavar="FILE", help="where to draw the roofline")
    commands.add_parser("files", parents=[common], help="models as files, and checkpoints: what they cost")
    tagged = commands.add_parser("sentences", parents=[common], help="tagging from names of features to F1, beside crfsuite")
    sets = list(sentences.SETS)
    tagged.add_argument("--workload", nargs="+", choices=sets, default=sets, metavar="NAME", help=", ".join(sets))
    taggers = list(sentences.MODELS)
    tagged.add_argument("--model", nargs="+", choices=taggers, default=[], metavar="NAME", help=f"{', '.join(taggers)} (all)")
    orders = commands.add_parser("ranking", parents=[common], help="rankings: growth with the rows, and beside a classifier")
    orders.add_argument(
        "--part", nargs="+", choices=ranking.PARTS, default=list(ranking.PARTS), metavar="PART", help=", ".join(ranking.PARTS)
    )
    second = commands.add_parser("newton", parents=[common], help="second-order steps on raw data, and beside LIBLINEAR's")
    kinds = list(newton.PARTS)
    second.add_argument("--part", nargs="+", choices=kinds, default=kinds, metavar="PART", help=", ".join(kinds))
    commands.add_parser("all", parents=[common], help="everything")
    commands.add_parser("summary", help="what README and docs/speed.md say about speed, from RESULTS.md; measures nothing")
    for name, options in QUICK.items() if quick else ():
        commands.choices[name].set_defaults(**options)
    return top


def sequence_models(args: argparse.Namespace, report: Report) -> None:
    lams = args.lam or (structured.LAMS[1:2] if args.quick else structured.LAMS)
    limit, repeat = args.limit or (0.1 if args.quick else 60.0), args.repeat or (1 if args.quick else 3)
    if "accuracy" in args.part:
        tagging.run(report, args.workload, args.quick)
    if "passes" in args.part and "ocr" in args.workload:
        structured.passes(report, args.quick)
    if "curves" in args.part:
        structured.run(report, args.workload, lams, structured.Options(args.solver, args.quick, limit, repeat))


def fits(args: argparse.Namespace, report: Report, repeat: int, limit: float) -> None:
    workloads = [Workload(name, QUICK_ROWS if args.quick else None) for name in args.workload]
    usual = parser(args.quick).parse_args(["fit"])
    whole = all(getattr(args, key) == getattr(usual, key) for key in ("workload", "loss", "lam", "solver"))
    lams = args.lam or LAMS[: 1 if args.quick else None]
    fit.run(report, workloads, args.loss, lams, args.solver, fit.Options(repeat, limit, plain=args.quick), summarise=whole)


def measure(args: argparse.Namespace, report: Report) -> None:
    """One family, with the options that were typed for it, or its own where none were."""
    repeat, few = args.repeat or (1 if args.quick else 5), args.repeat or (1 if args.quick else 3)
    limit = args.limit or (1.0 if args.quick else 120.0)
    patience = args.limit or (30.0 if args.quick else 120.0)  # where a fit that is ended gives no table
    match args.command:
        case "startup":
            startup.run(report, args.quick, repeat)
        case "sources":
            sources.run(report, args.quick, repeat)
        case "everyday":
            everyday.run(report, args.workload, args.quick, few, args.limit or (limit if args.quick else everyday.LIMIT))
        case "scaling":
            scaling.run(report, args.quick, repeat, patience)
        case "structured":
            sequence_models(args, report)
        case "topk":
            topk.run(report, args.part, args.quick, repeat, limit)
        case "multilabel_kernel":
            multilabel_kernel.run(report, args.part, args.workload, args.samples, (args.quick, limit, repeat))
        case "kernels":
            kernels.run(report, args.workload, args.samples, (args.quick, limit, repeat))
        case "multilabel":
            multilabel.run(report, args.part, args.workload, args.C, args.quick, limit, repeat)
        case "bundle":
            bundle.run(report, args.part, bundle.Options(args.quick, limit, args.jobs, args.variant, args.lam))
        case "latent":
            latent.run(report, args.quick, limit)
        case "online":
            online.run(report, args.part, args.who, args.folder, args.quick)
        case "search":
            search.run(report, args.workload, args.rows or (300 if args.quick else 2_000), args.Cs or (3 if args.quick else 9))
        case "probability":
            probability.run(report, args.workload, args.quick, repeat)
        case "pieces":
            pieces.run(report, args.quick)
        case "newton":
            newton.run(report, args.part, args.quick, repeat, limit)
        case "blocks":
            blocks.run(report, args.quick, few, limit)
        case "cores":
            own = cores.Options(args.quick, few, limit, args.threads, not args.no_peers, args.plot)
            cores.run(report, args.family, own)
        case "files":
            files.run(report, args.quick, repeat, args.limit or 30.0)
        case "sentences":
            own_limit = args.limit or sentences.LIMIT
            sentences.run(report, args.workload, sentences.Options(args.quick, tuple(args.model), own_limit))
        case "ranking":
            ranking.run(report, args.part, args.quick, few)
        case "fit":
            fits(args, report, repeat, patience)


def everything(options: list[str], together: int) -> int:
    """All families, each in a process of its own, so many together; returns 1 if one has failed. Of several together the tables
    are shown where one has failed."""

    def run(name: str) -> bool:
        begin, out = time.perf_counter(), None if together == 1 else subprocess.PIPE
        words = [sys.executable, "-m", "benchmarks", name, *options]
        done = subprocess.run(words, stdout=out, stderr=None if out is None else subprocess.STDOUT, text=True, check=False)
        lines = (done.stdout or "").splitlines()
        shown = lines if done.returncode else [line for line in lines if line.startswith("skipped")]
        ended = f"{'FAILED' if done.returncode else 'done'} after {time.perf_counter() - begin:.0f} s"
        print(*shown, f"{name}: {ended}", sep="\n", flush=True)
        return done.returncode == 0

    with ThreadPoolExecutor(together) as pool:
        ended = dict(zip(QUICK, pool.map(run, QUICK), strict=True))
    failed = [name for name, well in ended.items() if not well]
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall families ran", flush=True)
    return int(bool(failed))


def main() -> None:
    args = parser("--quick" in sys.argv).parse_args()
    if args.command == "summary":
        print(summary.headlines(), summary.summary(), sep="\n\n")
        return
    if args.command == "all":
        sys.exit(everything(sys.argv[2:], count_cores() if args.quick and args.results is None else 1))
    report = Report(args.results or (None if args.quick else RESULTS))
    if not args.quick:
        measure(args, report)
        return
    with stand_ins.instead() as folder:
        curves.FOLDER = folder / "figures"  # pictures of nothing
        measure(args, report)


if __name__ == "__main__":
    main()
