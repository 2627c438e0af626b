"""Streams on disk: rows made block by block from a seed, as text for the learners and as arrays for objectives and test errors.

Values are of few kinds, each written with four digits, so that text is put together from ready words at some 100 MB/s, and
the arrays say exactly what the text says.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

LAM = 1e-4
BLOCK = 10_000  # rows that are made together
TEST = 5  # blocks of the test set
LEVELS = 64  # values are of so many kinds
NOISE = 0.5


class Rows(NamedTuple):
    """Some rows: CSR with the number of a level in the place of each value."""

    levels: np.ndarray
    columns: np.ndarray
    indptr: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Stream:
    """A noisy linear model. Dense-ish: each of the features is there with a chance of 0.3; sparse: `nonzeros` of them, the first
    ones often, the last ones seldom."""

    name: str
    rows: int
    features: int
    classes: int
    nonzeros: int | None = None
    budget: float = 256.0  # megabytes
    lam: float = LAM  # ours and the peers', where one pass of each is compared by its test error

    @property
    def C(self) -> float:  # noqa: N802 - as everywhere
        return 1.0 / (LAM * self.rows)

    @property
    def values(self) -> np.ndarray:
        """What levels stand for: as many below zero as above, about one in the sum of squares over a row."""
        width = self.nonzeros or 0.3 * self.features
        return np.round((np.arange(LEVELS) - LEVELS // 2 + 0.5) / (LEVELS / 4) / np.sqrt(width), 4)

    def truth(self) -> np.ndarray:
        return np.random.default_rng(0).normal(size=(self.features, self.classes if self.classes > 2 else 1))

    def block(self, k: int, truth: np.ndarray) -> Rows:
        """Block k; those of the test set have negative numbers."""
        rng = np.random.default_rng([1, k + TEST])
        n = min(BLOCK, self.rows - max(k, 0) * BLOCK)
        if self.nonzeros is None:
            there = rng.random((n, self.features), dtype=np.float32) < 0.3
        else:  # a column that is drawn twice is there once
            drawn = np.sort((self.features * rng.random((n, self.nonzeros)) ** 3).astype(np.int32), axis=1)
            there = np.diff(drawn, axis=1, prepend=-1) > 0
        columns = np.nonzero(there)[1].astype(np.int32) if self.nonzeros is None else drawn[there]
        indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        levels = rng.integers(LEVELS, size=columns.size, dtype=np.uint8)
        scores = sp.csr_matrix((self.values[levels], columns, indptr), (n, self.features)) @ truth
        scores = scores + NOISE * rng.normal(size=scores.shape)
        labels = scores.argmax(axis=1) if self.classes > 2 else (scores[:, 0] > 0).astype(np.int64)
        return Rows(levels, columns, indptr, labels)

    def blocks(self) -> Iterator[Rows]:
        truth = self.truth()
        return (self.block(k, truth) for k in range(-(-self.rows // BLOCK)))

    def matrix(self, rows: Rows) -> sp.csr_matrix:
        return sp.csr_matrix((self.values[rows.levels], rows.columns, rows.indptr), (rows.labels.size, self.features))

    def test_blocks(self) -> list[Rows]:
        truth = self.truth()
        return [self.block(k, truth) for k in range(-TEST, 0)]

    def test_set(self) -> tuple[sp.csr_matrix, np.ndarray]:
        parts = self.test_blocks()
        return sp.vstack([self.matrix(part) for part in parts], format="csr"), np.concatenate([part.labels for part in parts])


def words(texts: list[str]) -> np.ndarray:
    """Texts as rows of bytes, filled up with zeros."""
    array = np.array([text.encode() for text in texts])
    return array.view(np.uint8).reshape(array.size, -1)


class Writer:
    """Rows as text, one a line. Each part of a line is put into a field of fixed width; the zeros left over are taken out."""

    def __init__(self, stream: Stream, heads: list[str]):
        self.heads = words([f"\n{head}" for head in heads])
        self.columns = words([f" {j + 1}:" for j in range(stream.features)])
        self.values = words([f"{value:.4f}" for value in stream.values])

    def text(self, rows: Rows) -> bytes:
        n, wide = rows.labels.size, self.columns.shape[1]
        fields = np.zeros((n + rows.levels.size, max(wide + self.values.shape[1], self.heads.shape[1])), np.uint8)
        is_head = np.zeros(len(fields), bool)
        is_head[rows.indptr[:-1] + np.arange(n)] = True
        fields[is_head, : self.heads.shape[1]] = self.heads[rows.labels]
        entries = np.empty((rows.levels.size, fields.shape[1]), np.uint8)
        entries[:, :wide], entries[:, wide:] = self.columns[rows.columns], 0
        entries[:, wide : wide + self.values.shape[1]] = self.values[rows.levels]
        fields[~is_head] = entries
        return fields.tobytes().translate(None, b"\0")[1:] + b"\n"


def heads(stream: Stream, vw: bool) -> list[str]:
    """How a line begins, for each label."""
    if not vw:
        return [str(label) for label in range(stream.classes)]
    return ["-1 |", "1 |"] if stream.classes == 2 else [f"{label + 1} |" for label in range(stream.classes)]


class Files:
    """A stream in a folder of its own: `text` for us and scikit-learn, `vw_text()` the same rows for Vowpal Wabbit, and the first
    blocks of both to warm up with. Each is made once, by whoever needs it first; several processes may share them."""

    def __init__(self, stream: Stream, folder: Path):
        self.stream, self.folder = stream, folder / f"{stream.name}-{stream.rows}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.text, self.small = self.folder / "stream.svm", self.folder / "small.svm"
        self.made(".svm")

    def vw_text(self) -> Path:
        self.made(".vw")
        return vw_file(self.text)

    def made(self, suffix: str) -> None:
        complete = self.folder / f"complete{suffix}"
        with self.locked():
            if complete.exists():
                return
            writer = Writer(self.stream, heads(self.stream, vw=suffix == ".vw"))
            with self.text.with_suffix(suffix).open("wb") as file:
                for k, rows in enumerate(self.stream.blocks()):
                    lines = writer.text(rows)
                    file.write(lines)
                    if k == 0:
                        self.small.with_suffix(suffix).write_bytes(lines)
            test = b"".join(writer.text(rows) for rows in self.stream.test_blocks())
            self.text.with_name(f"test{suffix}").write_bytes(test)
            complete.touch()

    @contextmanager
    def locked(self) -> Iterator[None]:
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @property
    def megabytes(self) -> float:
        return self.text.stat().st_size / 1e6


def vw_file(path: Path) -> Path:
    """The same rows as Vowpal Wabbit wants them."""
    return path.with_suffix(".vw")


# ---- values in plain NumPy, from the arrays --------------------------------------------------------------------


def objectives(stream: Stream, models: list[tuple[np.ndarray, np.ndarray]]) -> list[float]:
    """P at each of these weights and intercepts, in one sweep over rows that are made anew."""
    totals = [0.5 * float(np.sum(coef**2) + np.sum(intercept**2)) for coef, intercept in models]
    for rows in stream.blocks() if models else ():
        X = stream.matrix(rows)
        for k, (coef, intercept) in enumerate(models):
            totals[k] += stream.C * float(losses(X @ coef.T + intercept, rows.labels).sum())
    return totals


def losses(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    if scores.shape[1] == 1:
        return np.maximum(0.0, 1.0 - np.where(y == 1, 1.0, -1.0) * scores[:, 0])
    here = np.arange(y.size)
    margins = scores + 1.0
    margins[here, y] -= 1.0
    return margins.max(axis=1) - scores[here, y]


def guesses(X, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    scores = X @ coef.T + intercept
    return scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(int)
