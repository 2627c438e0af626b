"""Two checkouts in turns: whether a change of the house costs time.

    python -m benchmarks.commits OTHER [--turns 9]

OTHER is another checkout of this repository. Each turn runs one process of either, one after the other, with this file's tasks
through the public API: a fit that compiles or loads, then one that is timed by the clock of the processor. Printed are the medians,
their ratios (this over OTHER) and the geometric mean; and whether primal values agree to the last digit.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

ROOT = Path(__file__).resolve().parents[1]


def tasks() -> dict:
    import maxmargin as mm

    from . import multilabel_sets, sequences, workloads

    found = {}
    common = {"tol": 1e-3, "random_state": 0}
    for name, rows in (("letter", None), ("a9a", None), ("cadata", 10_000), ("news20", 4_000), ("synthetic_sparse", 40_000)):
        X, y = workloads.Workload(name, rows).load()
        C = 1.0 / (1e-4 * len(y))
        kind = mm.SVMRegressor if name == "cadata" else mm.SVMClassifier
        found[f"fit {name}"] = lambda kind=kind, X=X, y=y, C=C: kind(C=C, **common).fit(X, y)
        if name in ("a9a", "letter"):
            found[f"online {name}"] = lambda X=X, y=y, C=C: mm.SVMClassifier(C=C, solver="online", **common).fit(X, y)
        if name == "letter":
            found["topk letter"] = lambda X=X, y=y, C=C: mm.TopKSVMClassifier(C=C, k=3, **common).fit(X, y)
    words = sequences.load("ocr", True)
    for solver in ("dual_coordinate", "frank_wolfe", "bundle"):
        found[f"structured ocr, {solver}"] = lambda solver=solver: mm.StructuredSVM(
            mm.structures.Chain(), C=0.1, solver=solver, **common
        ).fit(words.X, words.y)
    split = multilabel_sets.real("yeast")
    found["multilabel yeast"] = lambda: mm.MultilabelSVMClassifier(C=0.1, **common).fit(split.X, split.Y)
    return found


def child() -> None:
    seconds, values = {}, {}
    for name, task in tasks().items():
        task()
        begin = time.process_time()
        model = task()
        seconds[name], values[name] = time.process_time() - begin, model.certificate_.primal
    print(json.dumps([seconds, values]))


def run(checkout: Path) -> list[dict[str, float]]:
    environment = os.environ | {"PYTHONPATH": f"{checkout / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["NUMBA_CACHE_DIR"] = str(checkout / "build" / "commits")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.commits", "--child"], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", nargs="?", type=Path)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child()
    both = ROOT, options.other.resolve()
    for checkout in both:
        run(checkout)  # compiles
    turns = [[run(checkout) for checkout in both] for _ in range(options.turns)]
    logs = []
    for name in turns[0][0][0]:
        ours, theirs = (median(turn[k][0][name] for turn in turns) for k in (0, 1))
        logs.append(np.log(ours / theirs))
        same = turns[0][0][1][name] == turns[0][1][1][name]
        print(f"{name:35s} {ours:8.3f} s {theirs:8.3f} s  ratio {ours / theirs:.3f}  {'bit-equal' if same else 'differs'}")
    print(f"geometric mean of {len(logs)}: {np.exp(np.mean(logs)):.3f} ({options.turns} turns)")


if __name__ == "__main__":
    main()
