"""Multi-label data, real and made."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from .workloads import MissingDataError, path

SPARSE = ("tmc2007_500", "rcv1_subset1", "bibtex")
REAL = ("yeast", "scene", *SPARSE)
WORKLOADS = (*REAL, "synthetic")
FREQUENT = 40  # labels of the sets that have more, where a table says so


@dataclass(frozen=True)
class Split:
    X: Any
    Y: np.ndarray
    X_test: Any
    Y_test: np.ndarray


def real(name: str) -> Split:
    if name in SPARSE:
        X, X_test = (sp.csr_matrix(sp.load_npz(path(name, f"X_{part}.npz")), dtype=np.float64) for part in ("train", "test"))
        with np.load(path(name, "Y.npz")) as data:
            return Split(X, data["Y_train"], X_test, data["Y_test"])
    with np.load(path(name, f"{name}.npz")) as data:
        X, X_test = (data[part].astype(np.float64) for part in ("X_train", "X_test"))
        return Split(X, data["Y_train"], X_test, data["Y_test"])


def found(name: str) -> Split | None:
    """The set of this name; None, with a word to the reader, where it is not here"""
    try:
        return real(name)
    except MissingDataError as missing:
        print(f"\nskipped {name}: {missing}", flush=True)
        return None


def made(n: int, d: int, labels: int, seed: int = 0) -> Split:
    """Gaussian features, linear labels of frequencies between 1 and 30 percent, noise"""
    rng = np.random.default_rng(seed)
    W, b = rng.standard_normal((d, labels)), rng.uniform(-2.6, -0.6, labels)

    def part(n: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.standard_normal((n, d)) / np.sqrt(d)
        return X, (X @ W + b + 0.5 * rng.standard_normal((n, labels)) > 0).astype(np.uint8)

    return Split(*part(n), *part(max(n // 5, 1)))


def frequent(split: Split) -> Split:
    """The most frequent labels of the training set"""
    chosen = np.sort(np.argsort(-split.Y.sum(axis=0, dtype=np.int64), kind="stable")[:FREQUENT])
    return Split(split.X, split.Y[:, chosen], split.X_test, split.Y_test[:, chosen])
