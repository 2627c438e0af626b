"""Steps that several threads take side by side, each as if it were alone: how far to go along all of them at once.

Part p of the examples steps from b to b + d_p, which changes the rewards by gain_p and the weights by u_p. Rewards are concave
and the quadratic term is 1-smooth in the metric of the prior, so that for 0 <= t_p <= 1

    D(b + sum t_p d_p) - D(b) >= sum t_p (gain_p - <w, u_p>) - 1/2 |sum t_p u_p|^2

whatever the loss, the prior and the signs. The right side is zero at t = 0: its maximum never lowers the dual value, and it is a
problem of as many numbers as there are parts. Where rows of different parts have much in common the best t is about one over the
number of parts, and steps for a curvature that is `spread` times as large go further together: the spread follows t.
"""

import numpy as np

from ...jit import jitable, jitable_call, kernel

SWEEPS_TO_SETTLE = 100  # over a handful of numbers; they settle in a few
SETTLED_BELOW = 1e-3  # part of the distance below which a sweep has settled
ROUNDING_OF_SUMS = float(np.finfo(np.float64).eps)


@kernel
def settle(gains, slopes, bends, t, sweeps, least, rounding):
    return settle_ways(gains, slopes, bends, t, sweeps, least, rounding)


@jitable_call
def settle_ways(gains, slopes, bends, t, sweeps, least, rounding):
    """Coordinate steps on sum t_p (gain_p - slope_p) - 1/2 t' bends t within [0, 1], from t = 1; returns the best common t
    without bounds. Compiled: in plain Python sixteen parts take a millisecond, as long as a round."""
    total, bend = 0.0, 0.0
    for p in range(t.size):
        ascent = gains[p] - slopes[p]
        total += ascent
        t[p] = 1.0 if ascent > rounding * (abs(gains[p]) + abs(slopes[p])) else -1.0  # those that gain nothing stay
        for q in range(t.size):
            bend += bends[p, q]
    for _ in range(sweeps):
        largest = 0.0
        for p in range(t.size):
            if t[p] >= 0.0:
                ahead = gains[p] - slopes[p]
                for q in range(t.size):
                    if q != p:
                        ahead -= bends[p, q] * max(t[q], 0.0)
                new = min(max(ahead / bends[p, p], 0.0), 1.0) if bends[p, p] > 0.0 else 1.0
                largest = max(largest, abs(new - t[p]))
                t[p] = new
        if largest <= least:
            break
    for p in range(t.size):
        t[p] = max(t[p], 0.0)
    return total / bend if bend > 0.0 else 1.0


def settled(gains: np.ndarray, slopes: np.ndarray, bends: np.ndarray) -> tuple[np.ndarray, float]:
    """t in [0, 1] for each part, by coordinate steps from t = 1, and the best common t without bounds: below one the parts step
    too far together, above it not far enough. `slopes`: <w, u_p>; `bends`: <u_p, u_q> in the metric of the prior, summed in
    float64. A part whose steps gain nothing beyond rounding stays where it was."""
    t = np.empty(gains.size)
    return t, settle(gains, slopes, bends, t, SWEEPS_TO_SETTLE, SETTLED_BELOW, ROUNDING_OF_SUMS)


@jitable
def followed(spread: float, found: float, most: float) -> float:
    """The spread for the next steps, after this ratio; between one, as if alone, and `most`, the number of parts, where t = 1 is
    safe."""
    return min(max(spread * min(max(found, 0.2), 5.0) ** -0.3, 1.0), most)
