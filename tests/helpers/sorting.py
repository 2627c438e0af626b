"""Projections by sorting, in plain NumPy: the independent side of the tests of `maxmargin.projections`.

Each returns z for a vector a. The supports are found by trying: sorted, the entries at the cap come first, then those in
between, then zeros, and for every split the linear equations of that split are solved at once.
"""

import numpy as np


def split_errors(b, p, t, u):
    """How far levels t(q), u(q) are from their place if the first p of the falling b are above u and the next q above t."""
    d = b.size
    padded = np.concatenate([[np.inf], b, [-np.inf]])
    q = np.arange(d - p + 1)
    with np.errstate(invalid="ignore"):
        errors = [u - padded[p], padded[p + 1] - u, t - padded[p + q], padded[p + q + 1] - t, t - u]
    return np.nan_to_num(np.max([np.where(np.isnan(e), -np.inf, e) for e in errors], axis=0), nan=np.inf, posinf=np.inf)


def knapsack(a, cap, radius):
    """sum z = radius, 0 <= z <= cap: the sum is evaluated at every point where it bends."""
    points = np.unique(np.concatenate([a, a - cap]))
    if cap * a.size <= radius:
        return np.full(a.size, cap)
    points = np.concatenate([[points[0] - radius], points])
    falling = np.array([np.clip(a - t, 0.0, cap).sum() for t in points])
    right = np.flatnonzero(falling <= radius)[0]
    if falling[right] == radius or right == 0:
        return np.clip(a - points[right], 0.0, cap)
    left = right - 1
    part = (falling[left] - radius) / (falling[left] - falling[right])
    return np.clip(a - (points[left] + part * (points[right] - points[left])), 0.0, cap)


def cone(a, k, bias):
    """0 <= z_j <= s / k with bias/2 s^2 added."""
    b = np.sort(a)[::-1]
    sums = np.concatenate([[0.0], np.cumsum(b)])
    if sums[k] <= 0.0:
        return np.zeros(a.size)
    best = np.inf, 0.0, 0.0
    for p in range(k + 1):
        q = np.arange(a.size - p + 1)
        middle = sums[p + q] - sums[p]
        # (1 + bias k) t = bias k u - (sums[p] - p u) / k   and   middle - q t = (k - p) (u - t)
        factor = 1.0 + bias * k
        at, rate = -sums[p] / (k * factor), (bias * k + p / k) / factor
        slope = (k - p) + (q + p - k) * rate
        with np.errstate(divide="ignore", invalid="ignore"):
            u = (middle - (q + p - k) * at) / slope
        if p == k:
            u[0] = b[k - 1]  # any u down to where t meets the next entry will do
        t = at + rate * u
        errors = split_errors(b, p, t, u)
        errors[~np.isfinite(u)] = np.inf
        found = int(np.argmin(errors))
        if errors[found] < best[0]:
            best = errors[found], t[found], u[found]
    _, t, u = best
    return np.clip(a - t, 0.0, u - t)


def topk(a, k, radius, bias):
    """0 <= z_j <= s / k, s <= radius."""
    z = cone(a, k, bias)
    return z if z.sum() <= radius else knapsack(a, radius / k, radius)


def box(a, k, radius, bias):
    """0 <= z_j <= radius / k, s <= radius."""
    cap = radius / k
    if np.clip(a - bias * radius, 0.0, cap).sum() >= radius:
        return knapsack(a, cap, radius)
    if bias == 0.0 or a.max() <= 0.0:
        return np.clip(a, 0.0, cap)
    points = np.unique(np.concatenate([[0.0, radius], a / bias, (a - cap) / bias]))
    points = points[(points >= 0.0) & (points <= radius)]
    excess = np.array([np.clip(a - bias * s, 0.0, cap).sum() - s for s in points])
    right = np.flatnonzero(excess <= 0.0)[0]
    left = max(right - 1, 0)
    fall = excess[left] - excess[right]
    s = points[left] + (excess[left] / fall * (points[right] - points[left]) if fall > 0.0 else 0.0)
    return np.clip(a - bias * s, 0.0, cap)
