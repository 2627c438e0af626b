"""Projections onto the sets of the top-k losses, all rows of a tensor at once (Chu et al. 2018; Lapin et al. 2015).

    alpha:  min 1/2 |z - a|^2 + bias/2 s^2,   s = sum z <= radius,   0 <= z_j <= s / k
    beta:   the same with 0 <= z_j <= radius / k

Each is one equation in one unknown that is piecewise linear and falls: Newton's steps inside a bracket, which end exactly. Rows
differ in how many they need; those that are there stay. `projections` does the same for one vector, with fewer looks at it.
"""

from typing import Any, NamedTuple

MOST_ROUNDS = 200  # an end for rows that rounding keeps from settling; mostly five to ten do
NO_PART = -1e29  # entries below this take no part
HALVED = 4  # every so many rounds the bracket is halved: Newton's steps alone may turn in circles


def root(falls: Any, low: Any, high: Any, size: Any) -> Any:
    """Where a function that falls crosses zero, between `low` and `high`; `falls(u)` gives its value and slope at u, (rows, 1).
    `size`: of the terms of its values, beside which rounding is measured."""
    u = 0.5 * (low + high)
    close = 2.0 ** (-50 if u.dtype.itemsize == 8 else -21)
    for k in range(MOST_ROUNDS):
        value, slope = falls(u)
        low, high = u.where(value >= 0.0, low), u.where(value <= 0.0, high)
        middle = 0.5 * (low + high)
        aim = (u - value / slope.clamp(max=-1e-30)).where(slope < 0.0, middle)
        new = middle if k % HALVED == HALVED - 1 else aim.where((aim >= low) & (aim <= high), middle)
        new = u.where(value == 0.0, new)
        if bool((((new - u).abs() <= close * u.abs()) | (value.abs() <= close * size)).all()):
            break
        u = new
    return u


def mass_over(a: Any, t: Any) -> tuple[Any, Any]:
    """sum (a - t)_+ and how many are above t, row by row."""
    rest = a - t
    return rest.clamp(min=0.0).sum(1, keepdim=True), (rest > 0.0).sum(1, keepdim=True).to(a.dtype)


class Levels(NamedTuple):
    """Which set: k, and whether the bound of an entry follows the sum (`joint`: alpha) or is fixed (beta)."""

    k: int
    joint: bool

    def projected(self, a: Any, radius: Any, bias: Any) -> Any:
        """The projection of each row; radius and bias are (rows, 1) or a number. Entries far below zero take no part."""
        bias = bias + 0.0 * radius
        cap = radius / self.k
        free, total = self.cone(a, bias) if self.joint else self.box(a, cap, radius, bias)
        tight = total >= radius * (1.0 - 1e-12 * self.k)
        return self.knapsack(a, cap, radius, tight).where(tight, free) if bool(tight.any()) else free

    def knapsack(self, a: Any, cap: Any, radius: Any, tight: Any) -> Any:
        """sum clip(a - t, 0, cap) = radius, in rows where the sum would be larger."""
        high = a.amax(1, keepdim=True)
        low = (a.topk(self.k, dim=1).values[:, -1:] - cap).where(tight, high)

        def falls(t: Any) -> tuple[Any, Any]:
            above, count = mass_over(a, t)
            beyond, full = mass_over(a, t + cap)
            return above - beyond - radius, full - count

        return (a - root(falls, low, high, high.abs() + radius)).clamp(min=0.0).minimum(cap)

    def box(self, a: Any, cap: Any, radius: Any, bias: Any) -> tuple[Any, Any]:
        """clip(a - bias s, 0, cap) with s its own sum, up to the radius."""

        def falls(s: Any) -> tuple[Any, Any]:
            above, count = mass_over(a, bias * s)
            beyond, full = mass_over(a, bias * s + cap)
            return above - beyond - s, bias * (full - count) - 1.0

        value, _ = falls(radius)
        low = radius.where(value >= 0.0, 0.0 * radius)  # where all of it is used there is nothing to look for
        s = root(falls, low, 1.0 * radius, radius)
        return (a - bias * s).clamp(min=0.0).minimum(cap), s

    def cone(self, a: Any, bias: Any) -> tuple[Any, Any]:
        """The projection without a radius, and its sum: u = t + s / k, t(u) = (bias k u - S(u) / k) / (1 + bias k)."""
        k = float(self.k)
        top = a.topk(min(self.k + 1, a.shape[1]), dim=1).values
        worth = top[:, : self.k].sum(1, keepdim=True) > 0.0
        last, after = top[:, self.k - 1 : self.k], top[:, -1:]  # k entries at the most are cut off: u is not below the next one
        low = after.where(after > NO_PART, last).where(worth, 0.0 * bias)
        whole, _ = mass_over(a, 0.0 * low)
        high = top[:, :1].maximum(whole * (1.0 + bias * k) / k).where(worth, low)

        def level(u: Any) -> tuple[Any, Any, Any]:
            above, count = mass_over(a, u)
            return (bias * k * u - above / k) / (1.0 + bias * k), above, count

        def falls(u: Any) -> tuple[Any, Any]:
            t, above, many = level(u)
            larger, count = mass_over(a, t)
            steep = (bias * k + many / k) / (1.0 + bias * k)
            return larger - above - k * (u - t), many - k - steep * (count - k)

        u = root(falls, low, high, high.abs())
        t = level(u)[0]
        s = (k * (u - t)).clamp(min=0.0).where(worth, 0.0 * u)
        return (a - t).clamp(min=0.0).minimum(s / k), s

    def trimmed(self, a: Any) -> Any:
        """Entries >= 0 cut off at the largest c with sum min(a, c) >= k c: then none is above s / k."""
        c = a.amax(1, keepdim=True)
        for _ in range(self.k):
            count = (a > c).sum(1, keepdim=True).to(a.dtype)
            rest = (a * (a <= c)).sum(1, keepdim=True)
            wrong = a.minimum(c).sum(1, keepdim=True) < self.k * c
            new = (rest / (self.k - count).clamp(min=1.0)).minimum(c).where(wrong & (count < self.k), c)
            if not bool((new < c).any()):
                break
            c = new
        a = a.minimum(c)
        return a.where(a.amax(1, keepdim=True) * self.k <= a.sum(1, keepdim=True) * (1.0 + 1e-12), 0.0 * a)
