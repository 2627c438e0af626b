"""The command line: python -m benchmarks COMMAND [options], with COMMAND one of

fit, everyday, scaling, startup, sources, structured, topk, multilabel, multilabel_kernel, bundle, latent, online,
search, probability, pieces, kernels, newton, blocks, cores, files, sentences, ranking, all, summary
"""

import argparse
from pathlib import Path

from . import (
    blocks,
    bundle,
    cores,
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
    startup,
    structured,
    summary,
    tagging,
    topk,
    traces,
)
from .objectives import LOSSES
from .report import RESULTS, Report
from .solvers import SOLVERS
from .workloads import COMPARED, SETS, Workload

LAMS = (1e-3, 1e-4)
QUICK_ROWS = 1_000
PARTS = ("accuracy", "passes", "curves")


def parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--repeat", type=int, metavar="N", help="runs of which the median counts (5; 2 with --quick; 3 and 1 of structured)"
    )
    common.add_argument(
        "--limit",
        type=float,
        metavar="S",
        help="seconds after which a fit is ended (120; 10 with --quick; 60 and 2 of structured; everyday: 60 a solver)",
    )
    common.add_argument("--quick", action="store_true", help="small data, to see that all works; kept only where --results says")
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
    choice.add_argument("--rows", type=int, metavar="N", help="rows of each set at the most (2,000; 500 with --quick)")
    choice.add_argument("--Cs", type=int, default=9, metavar="N", help="values between 1e-4 and 1e4 (9)")
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
    whole = commands.add_parser("all", parents=[common], help="everything")
    whole.set_defaults(workload=list(COMPARED), loss=list(LOSSES), lam=None, solver=names)
    commands.add_parser("summary", help="what README says about speed, from the tables kept in RESULTS.md; measures nothing")
    return top


def sequence_models(chosen: argparse.Namespace, args: argparse.Namespace, report: Report) -> None:
    """The structured part: which workloads, lams and solvers `chosen` says, the rest as typed"""
    lams = chosen.lam or (structured.LAMS[1:2] if args.quick else structured.LAMS)
    limit, repeat = args.limit or (2.0 if args.quick else 60.0), args.repeat or (1 if args.quick else 3)
    if "accuracy" in chosen.part:
        tagging.run(report, chosen.workload, args.quick)
    if "passes" in chosen.part and "ocr" in chosen.workload:
        structured.passes(report, args.quick)
    if "curves" in chosen.part:
        structured.run(report, chosen.workload, lams, structured.Options(chosen.solver, args.quick, limit, repeat))


def main() -> None:
    args = parser().parse_args()
    if args.command == "summary":
        print(summary.summary())
        return
    repeat = args.repeat or (2 if args.quick else 5)
    limit = args.limit or (10.0 if args.quick else 120.0)
    report = Report(args.results or (None if args.quick else RESULTS))
    if args.command in ("startup", "all"):
        startup.run(report, args.quick, repeat)
    if args.command in ("sources", "all"):
        sources.run(report, args.quick, repeat)
    if args.command in ("everyday", "all"):
        names = args.workload if args.command == "everyday" else list(everyday.SETS)
        everyday.run(report, names, args.quick, args.repeat or (1 if args.quick else 3), args.limit or everyday.LIMIT)
    if args.command in ("scaling", "all"):
        scaling.run(report, args.quick, repeat, limit)
    if args.command in ("structured", "all"):
        sequence_models(args if args.command == "structured" else parser().parse_args(["structured"]), args, report)
    if args.command in ("topk", "all"):
        topk.run(report, args.part if args.command == "topk" else topk.PARTS, args.quick, repeat, limit)
    if args.command in ("multilabel_kernel", "all"):
        chosen = args if args.command == "multilabel_kernel" else parser().parse_args(["multilabel_kernel"])
        multilabel_kernel.run(report, chosen.part, chosen.workload, chosen.samples, (args.quick, limit, repeat))
    if args.command in ("kernels", "all"):
        chosen = args if args.command == "kernels" else parser().parse_args(["kernels"])
        kernels.run(report, chosen.workload, chosen.samples, (args.quick, limit, repeat))
    if args.command in ("multilabel", "all"):
        chosen = args if args.command == "multilabel" else parser().parse_args(["multilabel"])
        multilabel.run(report, chosen.part, chosen.workload, chosen.C, args.quick, limit, repeat)
    if args.command in ("bundle", "all"):
        mine = args if args.command == "bundle" else parser().parse_args(["bundle"])
        bundle.run(report, mine.part, bundle.Options(args.quick, limit, mine.jobs, mine.variant, mine.lam))
    if args.command in ("latent", "all"):
        latent.run(report, args.quick, limit)
    if args.command in ("online", "all"):
        chosen = args if args.command == "online" else parser().parse_args(["online"])
        online.run(report, chosen.part, chosen.who, chosen.folder, args.quick)
    if args.command in ("search", "all"):
        chosen = args if args.command == "search" else parser().parse_args(["search"])
        search.run(report, chosen.workload, chosen.rows or (500 if args.quick else 2_000), chosen.Cs)
    if args.command in ("probability", "all"):
        chosen = args if args.command == "probability" else parser().parse_args(["probability"])
        probability.run(report, chosen.workload, args.quick, repeat)
    if args.command in ("pieces", "all"):
        pieces.run(report, args.quick)
    if args.command in ("newton", "all"):
        newton.run(report, args.part if args.command == "newton" else newton.PARTS, args.quick, repeat, limit)
    if args.command in ("blocks", "all"):
        blocks.run(report, args.quick, args.repeat or (1 if args.quick else 3), limit)
    if args.command in ("cores", "all"):
        chosen = args if args.command == "cores" else parser().parse_args(["cores"])
        own = cores.Options(
            args.quick, args.repeat or (1 if args.quick else 3), limit, chosen.threads, not chosen.no_peers, chosen.plot
        )
        cores.run(report, chosen.family, own)
    if args.command in ("files", "all"):
        files.run(report, args.quick, repeat, args.limit or 30.0)
    if args.command in ("sentences", "all"):
        limit_each = args.limit or sentences.LIMIT
        models = tuple(args.model) if args.command == "sentences" else ()
        sets = args.workload if args.command == "sentences" else list(sentences.SETS)
        sentences.run(report, sets, sentences.Options(args.quick, models, limit_each))
    if args.command in ("ranking", "all"):
        ranking.run(report, args.part if args.command == "ranking" else ranking.PARTS, args.quick, args.repeat or 3)
    if args.command in ("fit", "all"):
        workloads = [Workload(name, QUICK_ROWS if args.quick else None) for name in args.workload]
        everything = parser().parse_args(["all"])
        whole = all(getattr(args, key) == getattr(everything, key) for key in ("workload", "loss", "lam", "solver"))
        lams = args.lam or LAMS[: 1 if args.quick else None]
        fit.run(report, workloads, args.loss, lams, args.solver, fit.Options(repeat, limit), summarise=whole)


if __name__ == "__main__":
    main()
