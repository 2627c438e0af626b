"""The data. Real sets are found through `MAXMARGIN_DATA` or at `../shared/data` beside the checkout; synthetic ones are made.

Every set comes as float64 (C order, or CSR with sorted indices) with the labels -1/+1, 0..K-1, or a standardised target.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .objectives import BINARY, MULTICLASS, REGRESSION

ROOT = Path(__file__).resolve().parents[1]
Arrays = tuple[Any, np.ndarray]


class MissingDataError(Exception):
    """A real set that is not on this machine; its workload is skipped by name."""


@dataclass(frozen=True)
class Workload:
    """What to load, small enough to send to another process.

    `rows` limits a real set to a random subset and sets the size of a synthetic one; `nnz` is the number of draws a row of
    the synthetic sparse set (a few fewer columns, as some coincide).
    """

    name: str
    rows: int | None = None
    nnz: int | None = None

    @property
    def losses(self) -> tuple[str, ...]:
        return SETS[self.name][1]

    def load(self) -> Arrays:
        loader = SETS[self.name][0]
        if self.name.startswith("synthetic"):
            options = {key: value for key, value in (("rows", self.rows), ("nnz", self.nnz)) if value is not None}
            return loader(**options)
        X, y = loader()
        if self.rows is not None and self.rows < y.size:
            chosen = np.sort(np.random.default_rng(0).choice(y.size, self.rows, replace=False))
            X, y = X[chosen], y[chosen]
        return X, y


def path(name: str, file: str) -> Path:
    folder = Path(os.environ.get("MAXMARGIN_DATA") or ROOT.parent / "shared" / "data")
    found = folder / name / file
    if not found.exists():
        raise MissingDataError(f"{name}: {file} not found; set MAXMARGIN_DATA to the folder that holds {name}/")
    return found


def mnist() -> Arrays:
    """60,000 digits of 28 x 28 pixels, divided by 255"""
    with np.load(path("mnist", "mnist.npz")) as data:
        return data["X_train"].reshape(-1, 784) / 255.0, data["y_train"].astype(np.int64)


def mnist16() -> Arrays:
    """The same as 16 x 16 pixels, as those of usps: padded to 32 x 32, means of 2 x 2"""
    X, y = mnist()
    padded = np.pad(X.reshape(-1, 28, 28), ((0, 0), (2, 2), (2, 2)))
    return padded.reshape(-1, 16, 2, 16, 2).mean(axis=(2, 4)).reshape(-1, 256), y


def letter() -> Arrays:
    """15,000 letters, 16 features of 0..15, divided by 15"""
    with np.load(path("letter", "letter.npz")) as data:
        return data["X_train"] / 15.0, data["y_train"].astype(np.int64)


def caltech101_silhouettes() -> Arrays:
    """6,548 binary images of 28 x 28 pixels, 101 classes"""
    with np.load(path("caltech101_silhouettes", "caltech101_silhouettes.npz")) as data:
        train = ~data["is_test"]
        X = np.unpackbits(data["X_packed"][train], axis=1)[:, :784]
        return X.astype(np.float64), data["y"][train].astype(np.int64)


def sparse_set(name: str) -> Arrays:
    X = sp.csr_matrix(sp.load_npz(path(name, "X_train.npz")), dtype=np.float64)
    X.sort_indices()
    with np.load(path(name, "y.npz")) as data:
        return X, data["y_train"].astype(np.int64)


def news20() -> Arrays:
    """11,314 messages, counts of 33,820 words, rows of unit length"""
    X, y = sparse_set("news20")
    return unit_rows(X), y


def a9a() -> Arrays:
    """32,561 rows of 123 binary features"""
    return sparse_set("a9a")


def cadata() -> Arrays:
    """20,640 rows of 8 features; features and target have mean 0 and variance 1"""
    with np.load(path("cadata", "cadata.npz")) as data:
        X, y = data["X"].astype(np.float64), data["y"].astype(np.float64)
    return np.ascontiguousarray((X - X.mean(axis=0)) / X.std(axis=0)), (y - y.mean()) / y.std()


def unit_rows(X: sp.csr_matrix) -> sp.csr_matrix:
    """Each row divided by its Euclidean norm; zero rows stay zero."""
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    norms[norms == 0.0] = 1.0
    X.data /= np.repeat(norms, np.diff(X.indptr))
    return X


def synthetic_sparse(rows: int = 200_000, columns: int = 20_000, nnz: int = 52) -> Arrays:
    """Text-like binary set: column frequencies follow a power law, rare columns weigh more, rows have unit length.

    Labels are the signs of a linear model on a tenth of the columns, with Gaussian noise and 2 % of flips. The model does not
    depend on `rows`, so larger sets are more of the same.
    """
    model, sample = np.random.default_rng(0), np.random.default_rng(1)
    frequency = 1.0 / (np.arange(columns) + 20.0)
    frequency /= frequency.sum()
    weights = model.standard_normal(columns) * (model.random(columns) < 0.1)
    length = np.maximum(1, sample.poisson(nnz, rows))
    drawn = np.searchsorted(np.cumsum(frequency)[:-1], sample.random(length.sum())).astype(np.int32)
    values = -np.log(frequency[drawn]) * sample.uniform(0.5, 1.5, drawn.size)
    X = sp.csr_matrix((values, drawn, np.concatenate([[0], np.cumsum(length)])), shape=(rows, columns))
    X.sum_duplicates()
    X = unit_rows(X)
    score = X @ weights
    score += 0.3 * score.std() * sample.standard_normal(rows)
    y = np.where((score > 0) != (sample.random(rows) < 0.02), 1, -1)
    return X, y


def synthetic_dense(rows: int = 80_000, columns: int = 100, classes: int = 20) -> Arrays:
    """Gaussian clusters around `classes` centres that overlap in part; the centres do not depend on `rows`."""
    model, sample = np.random.default_rng(0), np.random.default_rng(1)
    centres = model.standard_normal((classes, columns))
    y = sample.integers(classes, size=rows)
    X = sample.standard_normal((rows, columns))
    X *= 2.0
    X += centres[y]
    X /= np.sqrt(columns)
    return X, y


def synthetic_regression(rows: int = 20_000, columns: int = 20) -> Arrays:
    """Gaussian features, a linear target with noise, both of about unit variance"""
    model, sample = np.random.default_rng(0), np.random.default_rng(1)
    X = sample.standard_normal((rows, columns))
    y = X @ (model.standard_normal(columns) / np.sqrt(columns)) + 0.3 * sample.standard_normal(rows)
    return X, y


SETS: dict[str, tuple[Callable[..., Arrays], tuple[str, ...]]] = {
    "mnist": (mnist, MULTICLASS),
    "mnist16": (mnist16, MULTICLASS),
    "news20": (news20, MULTICLASS),
    "letter": (letter, MULTICLASS),
    "caltech101_silhouettes": (caltech101_silhouettes, MULTICLASS),
    "a9a": (a9a, BINARY),
    "synthetic_sparse": (synthetic_sparse, BINARY),
    "cadata": (cadata, REGRESSION),
    "synthetic_dense": (synthetic_dense, MULTICLASS),
    "synthetic_regression": (synthetic_regression, REGRESSION),
}
COMPARED = ("mnist", "news20", "letter", "caltech101_silhouettes", "a9a", "synthetic_sparse", "cadata")
