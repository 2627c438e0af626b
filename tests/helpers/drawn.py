"""Small random problems with uneven scales, a row of zeros, a repeated row and weights of zero; priors and signs."""

import zlib

import numpy as np


def seed_of(*parts) -> int:
    """A seed that depends on the case only."""
    return zlib.crc32(repr(parts).encode())


def features(rng: np.random.Generator, n: int = 40, d: int = 5) -> np.ndarray:
    """Rows of uneven columns, one row of zeros, two equal rows."""
    X = rng.normal(size=(n, d)) * np.exp(rng.uniform(-1.0, 1.0, d)) + rng.normal(size=d)
    X[3] = 0.0
    X[5] = X[4]
    return X


def labels(rng: np.random.Generator, X: np.ndarray, K: int) -> np.ndarray:
    """Noisy linear classes, every class present."""
    y = np.argmax(X @ rng.normal(size=(X.shape[1], K)) + rng.normal(size=(len(X), K)) * 2.0, axis=1)
    y[:K] = np.arange(K)
    return y


def targets(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """Noisy linear real targets."""
    return X @ rng.normal(size=X.shape[1]) + 0.5 * rng.normal(size=len(X)) + 1.0


def weights(rng: np.random.Generator, n: int) -> np.ndarray:
    """Sample weights between 0 and 3, some of them zero."""
    return np.where(rng.random(n) < 0.1, 0.0, rng.uniform(0.1, 3.0, n))


def prior(rng: np.random.Generator, kind: str, d: int, K: int | None = None) -> dict:
    """Parameters of a prior of this kind; with K classes, tables of their own for mean and scale."""
    shape, params = (d,) if K is None else (K, d), {}
    if "mean" in kind:
        params["prior_mean"] = rng.normal(size=shape)
    if "scale" in kind:
        params["prior_scale"] = np.exp(rng.uniform(-1.0, 1.0, shape))
    if "covariance" in kind:
        root = rng.normal(size=(d, d))
        params["prior_covariance"] = root @ root.T / d + 0.5 * np.eye(d)
    return params


def signs(kind: str, d: int) -> dict:
    """No signs, all of them, or those of every other feature."""
    return {"positive": {"free": False, "positive": True, "mask": np.arange(d) % 2 == 0}[kind]}
