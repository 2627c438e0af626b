"""What README and docs/speed.md say about speed, computed from the tables of RESULTS.md: our times over those of peers.

Printed, not measured: `python -m benchmarks summary` reads what the other commands have kept; a test holds the pages against it.
"""

import re
from pathlib import Path

from .report import RESULTS, columns, figure, read

MINE, CERTIFIED, ARRIVAL = "maxmargin float64", "certified s", "1e-3 s"
PROBLEMS = {
    "crammer_singer": "multiclass (Crammer-Singer)",
    "hinge": "two classes, hinge",
    "squared_hinge": "two classes, squared hinge",
    "epsilon_insensitive": "regression",
    "squared_epsilon_insensitive": "regression, squared loss",
}
NAMES = {"liblinear": "LIBLINEAR", "scikit-learn": "scikit-learn", "rehline": "ReHLine"}
PEER = re.compile(r"takes ([\d.]+) of the time of (partial_fit|Vowpal Wabbit|one of its) to our test error(, which never)?")


def column(text: str, name: str, which: int = 0) -> dict[str, str]:
    """One column of the first table of a section, by the first cell of each row; of several with this name the `which`-th"""
    lines = [[cell.strip() for cell in one.strip().strip("|").split("|")] for one in text.splitlines() if one.startswith("|")]
    at = [k for k, head in enumerate(lines[0]) if head == name][which]
    return {cells[0]: cells[at] for cells in lines[2:] if len(cells) == len(lines[0])}


def seconds(cell: str) -> float | None:
    """A time of a table; None where the solver did not arrive"""
    return float(cell) if re.fullmatch(r"[\d.]+", cell) else None


def told(ratio: float, sign: str = "") -> str:
    return f"{'< ' if sign else ''}{figure(ratio, 2)}"


def certified(text: str) -> str:
    """A whole fit of ours on one thread over the fastest peer's time to come as close; `<` where none did in its time"""
    found = columns(text)
    rows = list(zip(found["solver"], found["threads"], found[CERTIFIED], found[ARRIVAL], strict=True))
    own = next(float(mine) for solver, threads, mine, _ in rows if solver == MINE and threads == "1")
    peers = [cell for solver, _, _, cell in rows if not solver.startswith("maxmargin")]
    arrived = [time for cell in peers if (time := seconds(cell)) is not None]
    return told(own / min(arrived)) if arrived else told(own / min(float(cell.strip("> ")) for cell in peers), "<")


def fits(sections: dict[str, str]) -> list[list[str]]:
    sets: dict[str, dict[str, dict[float, str]]] = {}
    peers: dict[str, set[str]] = {}
    for name, text in sections.items():
        if (found := re.fullmatch(r"fit: (\w+), (\w+), lam = ([\d.e-]+)", name)) is not None:
            workload, loss, lam = found.groups()
            sets.setdefault(loss, {}).setdefault(workload, {})[float(lam)] = certified(text)
            peers.setdefault(loss, set()).update(columns(text)["solver"])
    return [
        [problem, ", ".join(NAMES[key] for key in NAMES if key in peers[loss]), listed(sets[loss])]
        for loss, problem in PROBLEMS.items()
        if loss in sets
    ]


def listed(sets: dict[str, dict[float, str]]) -> str:
    """The ratios of each set, from the largest lam (or -C) to the smallest"""
    return "; ".join(f"{name} {', '.join(by[lam] for lam in sorted(by, reverse=True))}" for name, by in sets.items())


def labels(sections: dict[str, str]) -> list[str]:
    """Multi-label models without a prior, at each C of each set"""
    sets: dict[str, dict[float, str]] = {}
    for name, text in sections.items():
        if (found := re.match(r"multilabel: peers, (\w+)", name)) is not None:
            ratios = {-float(C): shortened(cell) for C, cell in column(text, "ours / the faster").items()}
            sets.setdefault(found[1], {}).update(ratios)
    return ["several labels, hinge, one model a label", "LIBLINEAR, scikit-learn", listed(sets)]


def shortened(cell: str) -> str:
    """A ratio of a table without its verdict, in two digits"""
    number = cell.removeprefix("<").split()[0]
    return told(float(number), "<" if cell.startswith("<") else "")


def kernels(sections: dict[str, str]) -> list[str]:
    sets = []
    for name, text in sections.items():
        if (found := re.match(r"multilabel: kernels, (\w+) ([\d,]+)", name)) is not None:
            sets.append(f"{found[1]} {found[2]} rows {', '.join(map(shortened, column(text, 'ratio').values()))}")
    return ["several labels, rbf kernel", "scikit-learn's SVC on a precomputed matrix", "; ".join(sets)]


def certified_chains(sections: dict[str, str]) -> list[str]:
    """Structured models: the default solver over block-coordinate Frank-Wolfe, processor time to a certified 1e-3"""
    sets: dict[str, dict[float, str]] = {}
    for name, text in sections.items():
        if (found := re.fullmatch(r"structured: (\w+), lam = ([\d.]+)", name)) is not None:
            cell = column(text, "time / BCFW", -1)["auto"]  # the last of the two, that of the certificate
            sets.setdefault(found[1], {})[float(found[2])] = shortened(cell)
    return ["sequences, and classes as structures", "block-coordinate Frank-Wolfe (ours)", listed(sets)]


def streams(sections: dict[str, str]) -> list[list[str]]:
    """One pass over a stream, to its own test error, over the peer's time to come as low; `<` where it never does"""
    ratios: dict[str, list[str]] = {}
    for name, text in sections.items():
        if re.fullmatch(r"online: (dense|sparse)\d+", name):
            for found in PEER.finditer(text):
                ratios.setdefault(found[2], []).append(f"{name[8:]} {told(float(found[1]), found[3] or '')}")
    peers = {
        "Vowpal Wabbit": "Vowpal Wabbit, from text",
        "one of its": "Vowpal Wabbit, from binary caches",
        "partial_fit": "SGDClassifier.partial_fit, read by load_svmlight_file",
    }
    return [["one pass over a stream", peers[key], "; ".join(ratios[key])] for key in peers if key in ratios]


def row(text: str, *cells: str) -> dict[str, str]:
    """The row of a section's first table that begins with these cells"""
    found = columns(text)
    heads = list(found)
    rows = list(zip(*found.values(), strict=True))
    return dict(zip(heads, next(one for one in rows if one[: len(cells)] == cells), strict=True))


def headlines(path: Path = RESULTS) -> str:
    """README's few lines, in Markdown"""
    sections = read(path)

    def everyday(name: str, task: str, solver: str) -> str:
        return told(float(row(sections[f"everyday: {name}"], f"{name}: {task}", solver)["maxmargin's / its"]))

    labels = next(text for name, text in sections.items() if name.startswith("multilabel: peers, bibtex"))
    tags = sections["structured: conll2000, accuracy"]
    chain, crf = (row(tags, solver) for solver in ("Chain, tol = 0.01", "crfsuite, L-BFGS"))
    faster, (own, other) = float(chain["train s"]) / float(crf["train s"]), (float(one["chunk F1"]) for one in (chain, crf))
    text = everyday("news20", "against the rest, squared hinge", "LinearSVC")
    images, probe = (everyday(name, "multinomial", peer) for name, peer in (("mnist", "newton-cg"), ("embeddings", "lbfgs")))
    each = shortened(row(labels, "1.00")["ours / the faster"])
    lines = [
        f"text, 20 classes, squared hinge (news20): {text} of LinearSVC's time",
        f"images, 10 classes, log loss (mnist): {images} of LogisticRegression's time by its fastest solver",
        f"159 labels, hinge (bibtex): {each} of the time of a LIBLINEAR model for each",
        f"sentences to tag (conll2000): {told(faster)} of crfsuite's time, for an F1 of {own:.3f} beside {other:.3f}",
        f"embeddings, 10 classes, log loss: **{probe} times** the time of LogisticRegression's lbfgs",
    ]
    return "\n".join(f"- {line}" for line in lines)


def summary(path: Path = RESULTS) -> str:
    """The table, in Markdown"""
    sections = read(path)
    rows = [*fits(sections), labels(sections), kernels(sections), certified_chains(sections), *streams(sections)]
    lines = ["| problem | peer, the fastest of | our time over its |", "|---|---|---|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
