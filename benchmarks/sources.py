"""Text on disk: how fast it is read beside scikit-learn's load_svmlight_file, and the memory that passes take."""

import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import maxmargin as mm

from .measure import ONE_THREAD, PeakMemory
from .report import Report, figure, table
from .workloads import ROOT, MissingDataError, Workload

TEXTS = {"a9a": 1, "news20": None, "synthetic_dense": 6, "synthetic_sparse": None}  # digits that are kept, None for all
ROWS = 10_000
COPIES = (4, 32)  # sizes of the files


def seconds(work: Callable[[], object], repeat: int) -> float:
    """Processor time, the least of several runs: all that is measured here computes, and other processes do not count"""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def text(name: str, rows: int, folder: Path) -> Path:
    X, _ = Workload(name, rows).load()
    X = sp.csr_matrix(X if TEXTS[name] is None else np.round(X.toarray() if sp.issparse(X) else X, TEXTS[name]), dtype=np.float64)
    path = folder / f"{name}.svm"
    dump_svmlight_file(X, np.arange(X.shape[0]) % 3 * 1.0, str(path), zero_based=False)
    return path


def one_pass(source: mm.Source, seed: int | None = None) -> None:
    for block in source.blocks(seed):
        del block


def speed(report: Report, folder: Path, rows: int, repeat: int) -> None:
    head = ["text", "MB", "load_svmlight_file MB/s", "scan MB/s", "ratio", "pass MB/s", "ratio", "pass of the cache MB/s"]
    lines = []
    for name in TEXTS:
        try:
            path = text(name, rows, folder)
        except MissingDataError as reason:
            print(f"\nskipped {reason}", flush=True)
            continue
        size = path.stat().st_size / 1e6
        source, cached = mm.open_source(path), mm.open_source(path, cache=True)
        source.scan()  # compiles
        cached.scan()
        peer = seconds(lambda path=path: load_svmlight_file(str(path)), 2)
        scan = seconds(lambda path=path: mm.open_source(path).scan(), repeat)
        whole = seconds(lambda source=source: one_pass(source), repeat)
        binary = seconds(lambda source=cached: one_pass(source), repeat)
        rates = [figure(size / peer), figure(size / scan), figure(scan / peer, 2), figure(size / whole), figure(whole / peer, 2)]
        lines.append([name, figure(size), *rates, figure(size / binary)])
    notes = f"{rows} rows at the most; one core, processor time, the least of {repeat} runs, file in the page cache; MB of text."
    report.section("sources: speed", "\n\n".join([notes, table(head, lines)]))


def memory(report: Report, folder: Path, rows: int) -> None:
    """What a fresh process grows by in a scan and a shuffled pass"""
    head = ["text MB", "blocks of 16 MB, extra MB", "of 4 MB", "of 4 MB, gzip"]
    content = text("synthetic_sparse", rows, folder).read_bytes()
    lines = []
    for copies in COPIES:
        plain, packed = folder / "large.svm", folder / "large.svm.gz"
        with open(plain, "wb") as file, gzip.open(packed, "wb", compresslevel=1) as zipped:
            for _ in range(copies):
                file.write(content)
                zipped.write(content)
        grown = [growth(path, size) for path, size in ((plain, 16.0), (plain, 4.0), (packed, 4.0))]
        lines.append([figure(plain.stat().st_size / 1e6), *(figure(size / 1e6) for size in grown)])
    notes = "Growth of a fresh process in a scan and a shuffled pass; compiled before. The text of synthetic_sparse, repeated."
    report.section("sources: memory", "\n\n".join([notes, table(head, lines)]))


def growth(path: Path, block_size: float) -> float:
    words = [sys.executable, "-m", "benchmarks.sources", str(path), str(block_size)]
    env = {**os.environ, **ONE_THREAD}
    return json.loads(subprocess.run(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout)


def run(report: Report, quick: bool, repeat: int) -> None:
    with TemporaryDirectory() as folder:
        rows = ROWS // 10 if quick else ROWS
        speed(report, Path(folder), rows, repeat)
        memory(report, Path(folder), rows)


def probe(path: str, block_size: float) -> int:
    """The growth of this process, in bytes"""
    with TemporaryDirectory() as folder:
        small = Path(folder) / "x.svm"
        small.write_bytes(b"1 1:1\n2 2:1\n")
        one_pass(mm.open_source(small), 0)
    meter = PeakMemory()
    one_pass(mm.open_source(path, block_size=block_size), 0)
    return meter.growth()


if __name__ == "__main__":
    print(json.dumps(probe(sys.argv[1], float(sys.argv[2]))))
