"""One fresh process of the startup benchmark: times the import of a library, its first fit and later ones; prints JSON.

Nothing is imported before the clock starts. Usage: python -m benchmarks.probe (maxmargin | sklearn) WORKLOAD ROWS LATER
"""

import json
import sys
import time


def main() -> None:
    library, name, rows, later = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    start = time.perf_counter()
    if library == "maxmargin":
        import maxmargin  # noqa: F401
    else:
        import sklearn.svm  # noqa: F401
    imported = time.perf_counter() - start

    from .solvers import CERTIFIED, SCIKIT_LEARN
    from .solvers import maxmargin as own
    from .workloads import Workload

    workload = Workload(name, rows)
    solver = own() if library == "maxmargin" else SCIKIT_LEARN
    data = solver.prepare(*workload.load())
    calls = []
    for _ in range(1 + later):
        start = time.perf_counter()
        solver.fit(data, workload.losses[0], 1.0 / (1e-3 * rows), CERTIFIED)
        calls.append(time.perf_counter() - start)
    print(json.dumps({"import": imported, "first": calls[0], "later": sorted(calls[1:])[later // 2]}))


if __name__ == "__main__":
    main()
