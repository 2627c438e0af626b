"""Text on disk: how fast it is read beside scikit-learn's load_svmlight_file, and the memory that passes take. Tables with
columns of categories, beside pandas and scikit-learn's OneHotEncoder."""

import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.compose import make_column_transformer
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.preprocessing import OneHotEncoder

import maxmargin as mm

from .measure import ONE_THREAD, PeakMemory
from .report import Report, figure, table, without
from .workloads import ROOT, MissingDataError, Workload

TEXTS = {"a9a": 1, "news20": None, "synthetic_dense": 6, "synthetic_sparse": None}  # digits that are kept, None for all
ROWS = 10_000
COPIES = (4, 32)  # sizes of the files
CATEGORIES = {"region": 12, "product": 1000, "user": 20_000}  # and eight columns of numbers beside them
TABLE_ROWS = 20  # times ROWS


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


def frame(rows: int) -> Any:
    import pandas as pd

    rng = np.random.default_rng(0)
    texts = {name: np.char.add(f"{name} ", rng.integers(0, count, rows).astype(str)) for name, count in CATEGORIES.items()}
    numbers = {f"x{j}": rng.standard_normal(rows).round(6) for j in range(8)}
    return pd.DataFrame({**texts, **numbers, "y": rng.integers(0, 2, rows)})


def tables(report: Report, folder: Path, rows: int, repeat: int) -> None:
    """Until one-hot rows are in memory, or were read once: a peer holds the whole table, a source a block"""
    import pandas as pd

    given, lines = frame(rows), []
    given.to_csv(folder / "x.csv", index=False)
    given.to_parquet(folder / "x.parquet", index=False)
    for name, read in (("x.csv", pd.read_csv), ("x.parquet", pd.read_parquet)):
        path = folder / name

        def peer(path: Path = path, read: Callable[[Path], Any] = read) -> object:
            encoder = make_column_transformer((OneHotEncoder(), list(CATEGORIES)), remainder="passthrough", sparse_threshold=1.0)
            return sp.csr_matrix(encoder.fit_transform(read(path).drop(columns="y")))

        def opened(how: str, path: Path = path) -> mm.Source:
            return mm.open_source(path, label="y", categorical=how)

        ready = {how: opened(how) for how in ("onehot", "hash")}
        for source in ready.values():
            source.scan()
        times = [seconds(lambda how=how: opened(how).scan(), repeat) for how in ready]
        times += [seconds(lambda source=source: one_pass(source), repeat) for source in ready.values()]
        lines.append([name, figure(path.stat().st_size / 1e6), figure(seconds(peer, repeat)), *map(figure, times)])
    head = ["file", "MB", "pandas and OneHotEncoder, s", "scan one-hot, s", "hashed", "a pass one-hot, s", "hashed"]
    notes = (
        f"{rows} rows, 3 columns of texts ({', '.join(map(str, CATEGORIES.values()))} categories), 8 of numbers; processor time."
    )
    report.section("sources: tables", "\n\n".join([notes, table(head, lines)]))


def memory(report: Report, folder: Path, rows: int, sizes: tuple[int, ...]) -> None:
    """What a fresh process grows by in a scan and a shuffled pass"""
    head = ["text MB", "blocks of 16 MB, extra MB", "of 4 MB", "of 4 MB, gzip"]
    content = text("synthetic_sparse", rows, folder).read_bytes()
    lines = []
    for copies in sizes:
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
        rows = ROWS // 20 if quick else ROWS
        speed(report, Path(folder), rows, repeat)
        if missing := without("pandas", "pyarrow"):
            print(f"\nskipped tables: {missing}", flush=True)
        else:
            tables(report, Path(folder), rows * TABLE_ROWS, repeat)
        memory(report, Path(folder), rows, COPIES[: 1 if quick else None])


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
