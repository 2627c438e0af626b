"""Two checkouts in turns: whether a change of the house costs time.

    python -m benchmarks.commits OTHER [--turns 9]

OTHER is another checkout of this repository. Each turn runs one process of either, one after the other, with this file's tasks
through the public API: a fit that compiles or loads, then one that is timed by the clock of the processor. Printed are medians,
their ratios (this over OTHER) and the geometric mean; and whether primal values agree to the last digit. Data are generated.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parents[1]


def tasks() -> dict:
    import maxmargin as mm

    rng = np.random.default_rng(0)
    common = {"tol": 1e-3, "random_state": 0}
    sparse = sp.random_array((30_000, 5_000), density=0.01, format="csr", rng=rng)
    sign = np.where(sparse @ rng.normal(size=5_000) > 0, 1, -1)
    X = rng.normal(size=(15_000, 60))
    scores = X @ rng.normal(size=(60, 12)) + 4.0 * rng.normal(size=(15_000, 12))
    label, many = scores.argmax(axis=1), (scores > 9.0).astype(int)
    tags = [rng.integers(0, 8, 10) for _ in range(600)]
    words = [np.eye(8)[y] + 1.2 * rng.normal(size=(10, 8)) for y in tags]
    chain = mm.structures.Chain
    return {
        "two classes, CSR": lambda: mm.SVMClassifier(C=0.3, **common).fit(sparse, sign),
        "two classes, dense": lambda: mm.SVMClassifier(C=0.01, **common).fit(X, many[:, 0]),
        "regression": lambda: mm.SVMRegressor(C=0.01, **common).fit(X, scores[:, 0]),
        "twelve classes": lambda: mm.SVMClassifier(C=0.003, **common).fit(X, label),
        "top-3 of twelve": lambda: mm.TopKSVMClassifier(C=0.003, k=3, **common).fit(X, label),
        "twelve labels": lambda: mm.MultilabelSVMClassifier(C=0.003, loss="hinge", **common).fit(X, many),
        "online, two classes": lambda: mm.SVMClassifier(C=0.3, solver="online", **common).fit(sparse[:4_000], sign[:4_000]),
        "chains": lambda: mm.StructuredSVM(chain(), C=0.05, **common).fit(words, tags),
        "chains, bundle": lambda: mm.StructuredSVM(chain(), C=0.05, solver="bundle", **common).fit(words, tags),
    }


def child() -> None:
    for name, task in tasks().items():
        begin = time.process_time()
        task()
        between = time.process_time()
        model = task()
        later = time.process_time() - between
        print(json.dumps([name, between - begin, later, model.certificate_.primal]), flush=True)


def run(checkout: Path) -> dict[str, list[float]]:
    """Of each task the seconds of the first fit, those of the second, and the primal value."""
    environment = os.environ | {"PYTHONPATH": f"{checkout / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["NUMBA_CACHE_DIR"] = str(checkout / "build" / "commits")
    command = [sys.executable, "-m", "benchmarks.commits", "--child"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return {name: rest for name, *rest in map(json.loads, done.stdout.splitlines())}


def table(turns: list[list[dict[str, list[float]]]], what: int) -> None:
    logs = []
    for name in turns[0][0]:
        ours, theirs = (median(turn[k][name][what] for turn in turns) for k in (0, 1))
        logs.append(np.log(ours / theirs))
        same = turns[0][0][name][2] == turns[0][1][name][2]
        print(f"{name:25s} {ours:8.3f} s {theirs:8.3f} s  ratio {ours / theirs:.3f}  {'bit-equal' if same else 'differs'}")
    print(f"geometric mean of {len(logs)}: {np.exp(np.mean(logs)):.3f}, {len(turns)} turns\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", nargs="?", type=Path)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--later", action="store_true", help="only later fits, with the kernels of a run before")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child()
    both = ROOT, options.other.resolve()
    if not options.later:
        for checkout in both:
            shutil.rmtree(checkout / "build" / "commits", ignore_errors=True)
        print("first fits, from an empty cache:")
        table([[run(checkout) for checkout in both]], 0)
    turns: list[list[dict[str, list[float]]]] = []
    for k in range(options.turns):
        turns.append([run(checkout) for checkout in (both if k % 2 else both[::-1])][:: 1 if k % 2 else -1])
        if k % 2 == 0:
            print(f"later fits, after {k + 1} turns:")
            table(turns, 1)


if __name__ == "__main__":
    main()
