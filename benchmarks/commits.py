"""Two checkouts in turns: whether a change of the house costs time.

    python -m benchmarks.commits OTHER [--turns 9]

OTHER is another checkout of this repository. Each turn runs one process of either, one after the other, with this file's tasks
through the public API: a fit that compiles or loads, then one that is timed by the clock of the processor. Printed are medians,
their ratios (this over OTHER) and the geometric mean; and whether primal values agree to the last digit. Data are generated.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
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
        "twelve labels": lambda: mm.MultilabelSVMClassifier(C=0.003, **common).fit(X, many),
        "online, two classes": lambda: mm.SVMClassifier(C=0.3, solver="online", **common).fit(sparse, sign),
        "chains": lambda: mm.StructuredSVM(chain(), C=0.05, **common).fit(words, tags),
        "chains, bundle": lambda: mm.StructuredSVM(chain(), C=0.05, solver="bundle", **common).fit(words, tags),
    }


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
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, both))  # compiles
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
