"""What the first call costs: in a process with an empty compile cache, in a later process, and from the second call on; and what
compiling costs each family of models (`first_fits`)."""

import json
import os
import subprocess
import sys
from statistics import median
from tempfile import TemporaryDirectory

from .first_fits import described
from .measure import ONE_THREAD
from .report import Report, figure, table
from .solvers import maxmargin
from .workloads import ROOT, Workload

PROBLEMS = ("synthetic_sparse", "synthetic_dense", "synthetic_regression")
LATER = 5  # calls after the first one
Times = dict[str, float]


def probe(library: str, workload: Workload, cache: str) -> Times:
    """One fresh process with its compile cache in the folder `cache`"""
    words = [sys.executable, "-W", "ignore", "-m", "benchmarks.probe", library, workload.name, str(workload.rows), str(LATER)]
    env = {**os.environ, **ONE_THREAD, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def typical(times: list[Times]) -> Times:
    return {key: median(one[key] for one in times) for key in times[0]}


def run(report: Report, quick: bool, repeat: int) -> None:
    """One-thread fits of small problems: maxmargin with an empty and with a filled cache, and scikit-learn, in turns"""
    if not maxmargin().installed:
        print("\nskipped startup: maxmargin is not installed", flush=True)
        return
    head = ["problem", "library", "compile cache", "import s", "ratio", "first call s", "ratio", "later call s", "ratio"]
    rows = []
    for name in PROBLEMS[: 1 if quick else None]:
        workload = Workload(name, 500 if quick else 5_000)
        empty, filled, other = [], [], []
        for _ in range(repeat):
            with TemporaryDirectory() as cache:
                try:
                    empty.append(probe("maxmargin", workload, cache))
                    filled.append(probe("maxmargin", workload, cache))
                    other.append(probe("sklearn", workload, cache))
                except subprocess.CalledProcessError as failure:  # its own message is on stderr
                    print(f"\nskipped startup: {name}: the process ended with {failure.returncode}", flush=True)
                    return
        peer = typical(other)
        lines = (("maxmargin", "empty", empty), ("maxmargin", "filled", filled), ("scikit-learn", "", other))
        for library, state, times in lines:
            found = typical(times)
            cells = [text for key in found for text in (figure(found[key]), figure(found[key] / peer[key], 2))]
            rows.append([f"{name}, {workload.losses[0]}", library, state, *cells])
    text = f"{workload.rows} rows, lam = 1e-3, tol = 1e-3 (each library by its own rule), one thread, float64; medians of "
    text += f"{repeat} fresh processes, in each of which a later call is the median of {LATER}."
    report.section("startup", "\n\n".join([text, table(head, rows), described(repeat, quick)]))
