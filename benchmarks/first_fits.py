"""What compiling costs: processor seconds of the first fit of a machine, and of its first prediction, by family of models.

Each family has a fresh process with an empty compile cache. A second fit of the same data then says what is not compilation.
Usage of one process: python -m benchmarks.first_fits FAMILY
"""

import json
import os
import subprocess
import sys
import time
import warnings
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from .measure import ONE_THREAD
from .report import figure, table
from .workloads import ROOT

FAMILIES = ("binary", "regression", "multiclass", "top-k", "multi-label", "chain", "latent")
ROWS, FEATURES, CLASSES = 200, 10, 5
SETS, PARTS, PART_FEATURES, LABELS = 40, 6, 4, 3


def model_and_data(family: str) -> tuple[Any, Any, Any]:
    """A small problem of this family, with the options that a model has by itself."""
    import maxmargin as mm

    random = np.random.default_rng(0)
    X = random.normal(size=(ROWS, FEATURES))
    parts = [random.normal(size=(PARTS, PART_FEATURES)) for _ in range(SETS)]
    if family == "binary":
        return mm.SVMClassifier(random_state=0), X, random.integers(0, 2, ROWS)
    if family == "regression":
        return mm.SVMRegressor(random_state=0), X, X[:, 0]
    if family == "multiclass":
        return mm.SVMClassifier(random_state=0), X, random.integers(0, CLASSES, ROWS)
    if family == "top-k":
        return mm.TopKSVMClassifier(k=2, random_state=0), X, random.integers(0, CLASSES, ROWS)
    if family == "multi-label":
        return mm.MultilabelSVMClassifier(random_state=0), X, random.integers(0, 2, (ROWS, CLASSES))
    if family == "chain":
        tags = [random.integers(0, LABELS, PARTS) for _ in range(SETS)]
        return mm.StructuredSVM(mm.structures.Chain(), random_state=0), parts, tags
    return mm.LatentSVMClassifier(random_state=0), parts, random.integers(0, 2, SETS)


def main() -> None:
    model, X, y = model_and_data(sys.argv[1])
    calls = {"fit": lambda: model.fit(X, y), "predict": lambda: model.predict(X), "again": lambda: model.fit(X, y)}
    seconds = {}
    for name, call in calls.items():
        start = time.process_time()
        call()
        seconds[name] = time.process_time() - start
    print(json.dumps(seconds))


def probe(family: str) -> dict[str, float]:
    """One fresh process with an empty compile cache"""
    with TemporaryDirectory() as cache:
        words = [sys.executable, "-W", "ignore", "-m", "benchmarks.first_fits", family]
        env = {**os.environ, **ONE_THREAD, "NUMBA_CACHE_DIR": cache}
        done = subprocess.run(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def described(repeat: int, quick: bool) -> str:
    """All families (the first with `quick`): the text and the table."""
    rows = []
    for family in FAMILIES[: 1 if quick else None]:
        found = [probe(family) for _ in range(repeat)]
        cells = [figure(median(one[key] for one in found)) for key in ("fit", "predict", "again")]
        rows.append([family, *cells])
    text = f"First fits, processor seconds: an empty compile cache, {ROWS} rows of {FEATURES} features, {CLASSES} classes or "
    text += f"labels; {SETS} chains of {PARTS} and bags of {PARTS}. One thread; medians of {repeat} fresh processes."
    head = ["family", "fit", "predict after it", "second fit"]
    return "\n\n".join([text, table(head, rows)])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
