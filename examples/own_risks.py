"""Convex risks of your own, each minimised to a certified gap by `maxmargin.minimize`: a value and a subgradient is all it takes.

Run it as `python examples/own_risks.py`.
"""

import numpy as np

import maxmargin as mm


def ordinal(X, y, levels):
    """Ordinal regression: a direction and a threshold between each two levels; every threshold on the wrong side costs.

    w holds the direction, then the thresholds. One part of the risk for each threshold.
    """
    d = X.shape[1]

    def risk(w):
        values, slopes = np.zeros(levels - 1), np.zeros((levels - 1, w.size))
        for t in range(levels - 1):
            side = np.where(y > t, 1.0, -1.0)
            excess = 1.0 - side * (X @ w[:d] - w[d + t])
            active = side * (excess > 0.0)
            values[t] = np.maximum(excess, 0.0).sum()
            slopes[t, :d], slopes[t, d + t] = -active @ X, active.sum()
        return values, slopes

    return risk


def auc(X, y):
    """Area under the ROC curve: the hinge of every pair of a positive and a negative, without listing the pairs.

    A pair costs max(0, 1 - (s_i - s_j)); sorting tells how many partners of each sample are within the margin.
    """
    positive, negative = X[y == 1], X[y == 0]
    pairs = len(positive) * len(negative)

    def risk(w):
        up, down = positive @ w, negative @ w
        highs, lows = np.sort(down), np.sort(up)
        above = len(down) - np.searchsorted(highs, up - 1.0, side="right")  # negatives too close to each positive
        below = np.searchsorted(lows, down + 1.0, side="left")  # positives too close to each negative
        value = above.sum() - above @ up + below @ down
        return value / pairs, (below @ negative - above @ positive) / pairs

    return risk


def quantile(X, y, level):
    """The pinball loss, whose minimiser is the `level` quantile of y given x."""

    def risk(w):
        residual = y - X @ w
        weight = np.where(residual > 0.0, level, level - 1.0)
        return float(weight @ residual), -weight @ X

    return risk


def precision_at_k(X, y, k):
    """A bound on the errors among the k highest scores, a loss of whole rankings as the F-measure is (Joachims 2005).

    With k positives as the truth y, it is the maximum over choices z of k samples of
    (negatives in z) / k + sum_i (z_i - y_i) s_i / k, which takes the k largest of s_i + [y_i = 0].
    """
    best = np.flatnonzero(y == 1)[:k]

    def risk(w):
        scores = X @ w
        chosen = np.argpartition(-(scores + (y == 0)), k - 1)[:k]
        truth = best[np.argsort(-scores[best])]
        value = np.mean(y[chosen] == 0) + (scores[chosen].sum() - scores[truth].sum()) / k
        return value, (X[chosen].sum(axis=0) - X[truth].sum(axis=0)) / k

    return risk


def pair_rate(scores, y):
    """The part of the pairs in the right order."""
    up, down = scores[y == 1], scores[y == 0]
    return np.mean(up[:, None] > down[None, :])


def main():
    """{name: (result, quality at zero weights, quality of the result)}"""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(300, 4)), np.ones(300)])
    score = X @ np.array([1.5, -1.0, 0.5, 0.0, 0.2]) + 0.4 * rng.normal(size=300)
    found = {}

    level = np.digitize(score, [-1.5, 0.0, 1.5])
    result = mm.minimize(ordinal(X[:, :4], level, 4), 4 + 3, C=0.1)
    guess = np.sum(X[:, :4] @ result.w[:4] > np.sort(result.w[4:])[:, None], axis=0)
    found["ordinal"] = result, np.mean(level == 0), np.mean(guess == level)

    rare = (score > 1.5).astype(int)
    result = mm.minimize(auc(X, rare), 5, C=10.0)
    found["auc"] = result, 0.0, pair_rate(X @ result.w, rare)

    result = mm.minimize(quantile(X, score, 0.9), 5, C=0.1, bounds=(-1.0, 2.0))
    found["quantile"] = result, np.mean(score <= 0.0), np.mean(score <= X @ result.w)

    k = int(rare.sum()) // 2
    result = mm.minimize(precision_at_k(X, rare, k), 5, C=10.0)
    found["precision at k"] = result, np.mean(rare), np.mean(rare[np.argsort(-(X @ result.w))[:k]])

    for name, (result, before, after) in found.items():
        print(f"{name}: {before:.3f} -> {after:.3f}; {result.n_iter} calls, {result.certificate}")
    return found


if __name__ == "__main__":
    main()
