"""Losses of blocks of rows on a device: the step of many rows at once, values and rewards, by operations on tensors.

Tables are (rows of the block, scores): S of scores, A of duals b with V = sum_i b_i x_i. What a loss holds of all examples lies
on their device; `rows` are the numbers of those of a block. As in `tensor_forms`, no library is imported here.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

from .tensor_forms import EntryForm
from .tensor_levels import Levels

NOWHERE_NEAR = -1e30  # the score of a class that takes no part


class BlockStep(NamedTuple):
    """What a block would do: the change of its duals; by how much that raises the rewards and, where these are quadratic, twice
    how much less half of the way raises them than half of that (each a number, or one for each score where these are
    `apart`); and the share of the gap that each row had before, None where that is noted already. `parts`: gain and bend are of
    parts of the block, one after another."""

    change: Any
    gain: Any
    bend: Any
    share: Any
    parts: bool = False


class HeldRows(NamedTuple):
    """What a run holds of all examples: duals A (examples, scores), curvatures q, how much that is for each score (None: one),
    and the shares of the gap that `step` finds."""

    A: Any
    q: Any
    scale: Any
    share: Any


class TensorLoss(ABC):
    """A loss with the targets and caps of all examples."""

    cap: Any  # (examples,) in float64: the largest that a dual may be, or what it is measured by

    @property
    def apart(self) -> bool:
        """Whether scores are problems of their own, each with a line search of its own."""
        return False

    @property
    def precise(self) -> bool:
        """Whether duals need float64."""
        return False

    def waits(self, dtype: Any) -> bool:
        """Whether a step in this dtype looks at what the device has computed: then it cannot be recorded."""
        return True

    @abstractmethod
    def value(self, rows: Any, S: Any, error: Any = None) -> Any:
        """The sum of the losses, in float64; at the worst of all scores within `error` of these, one for each row."""

    def step(self, rows: Any, S: Any, held: HeldRows, sigma: Any) -> BlockStep:
        """The best row of duals for each of these rows, alone, for curvatures times sigma; their shares are noted."""
        return self.step_from(held.A[rows], rows, S, held, sigma)

    def step_from(self, A: Any, rows: Any, S: Any, held: HeldRows, sigma: Any) -> BlockStep:
        """The same, with the duals of the block itself."""
        q = held.q[rows][:, None] * sigma.to(S.dtype)
        found = self.stepped(rows, S, A, q if held.scale is None else q * held.scale)
        held.share[rows] = found.share.double()
        return found

    @abstractmethod
    def stepped(self, rows: Any, S: Any, A: Any, q: Any) -> BlockStep:
        """The same from the duals and curvatures of the block itself, (rows, 1) or (rows, scores)."""

    @abstractmethod
    def attained(self, rows: Any, S: Any) -> Any:
        """Duals at which the losses at these scores are attained: minus a subgradient of each."""

    @abstractmethod
    def repaired(self, rows: Any, A: Any) -> tuple[Any, Any, Any]:
        """The feasible duals nearest to these, in float64; their reward, and the sum of the absolute values of its terms."""


def wide(tensor: Any) -> Any:
    """The sum in float64."""
    return tensor.double().sum()


@dataclass(frozen=True, eq=False)
class ClassRows(TensorLoss):
    """One class for each example: what the losses of Crammer and Singer and the top-k losses have in common. `cost` is (classes,
    classes), None for 0 and 1."""

    label: Any
    cap: Any
    cost: Any

    def margins(self, rows: Any, S: Any) -> Any:
        if self.cost is not None:
            return self.cost[self.label[rows]].to(S.dtype)
        return (0.0 * S + 1.0).scatter(1, self.label[rows][:, None], 0.0)

    def opened(self, rows: Any, A: Any) -> tuple[Any, Any]:
        """The truth of each row, and its duals a >= 0 of the other classes."""
        y = self.label[rows][:, None]
        return y, (-A.double()).clamp(min=0.0).scatter(1, y, 0.0)

    def closed(self, y: Any, a: Any) -> Any:
        """The row of duals b of these a."""
        return (-a).scatter(1, y, a.sum(1, keepdim=True))


@dataclass(frozen=True, eq=False)
class CrammerSingerRows(ClassRows):
    """cap_i max_j (cost[y, j] + z_j - z_y); the step is that of `crammer_singer`, Newton from the left for all rows at once."""

    def value(self, rows, S, error=None):
        y, h = self.label[rows][:, None], S + self.margins(rows, S)
        found = (h.amax(1) - S.gather(1, y)[:, 0]).double()
        return (self.cap[rows] * (found if error is None else found + 2.0 * error)).sum()

    def stepped(self, rows, S, A, q):
        y, margin = self.label[rows][:, None], self.margins(rows, S)
        cap = self.cap[rows].to(S.dtype)[:, None]
        h, truth, held = S + margin, S.gather(1, y), A.gather(1, y)
        share = (cap * (h.amax(1, keepdim=True) - truth) + (h * A).sum(1, keepdim=True))[:, 0]
        B = (h - truth + q * (held - A)).scatter(1, y, NOWHERE_NEAR)
        best, where = B.max(1, keepdim=True)
        room, support = q * cap, (A < 0.0).scatter(1, y, False)
        short = room <= 1e4 * eps_of(S) * best  # moving such a row moves its scores by less than rounding does
        one = 0.0 * best + 1.0
        begin = levels_of_sets(support.sum(1, keepdim=True).to(S.dtype), (B * support).sum(1, keepdim=True), room)
        t = levels_of_sets(one, best, room).maximum(begin)
        for _ in range(S.shape[1]):
            over = t < B
            new = levels_of_sets(over.sum(1, keepdim=True).to(S.dtype), (B * over).sum(1, keepdim=True), room).maximum(t)
            if not bool((new > t).any()):
                break
            t = new
        a = (B - t).clamp(min=0.0) / q.clamp(min=tiny_of(S))
        vertex = (0.0 * a).scatter(1, where, cap)
        a = vertex.where(short, a).where(best > 0.0, 0.0 * a)
        change = self.closed(y, a) - A
        return BlockStep(change, -wide(change * margin), 0.0 * share.double().sum(), share)

    def attained(self, rows, S):
        y = self.label[rows][:, None]
        best, where = (S + self.margins(rows, S)).max(1, keepdim=True)
        a = (0.0 * S).scatter(1, where, self.cap[rows].to(S.dtype)[:, None])
        return self.closed(y, a.where(best > S.gather(1, y), 0.0 * a))

    def repaired(self, rows, A):
        y, a = self.opened(rows, A)
        mass, cap = a.sum(1, keepdim=True), self.cap[rows][:, None]
        a = a * (cap / mass.clamp(min=tiny_of(a))).clamp(max=1.0)
        terms = wide(a * self.margins(rows, a))
        return self.closed(y, a), terms, terms


def levels_of_sets(count: Any, total: Any, room: Any) -> Any:
    """t for given sets of `count` classes whose B sum to `total`; that of none is far on the left."""
    free = total / (count + 1.0)
    tight = (total - room) / count.clamp(min=1.0)
    return free.where(total <= room * (count + 1.0), tight).where(count > 0.0, 0.0 * free + NOWHERE_NEAR)


def eps_of(tensor: Any) -> float:
    """The distance from one to the next number."""
    return 2.0 ** (-52 if tensor.dtype.itemsize == 8 else -23)


def tiny_of(tensor: Any) -> float:
    return 1e-300 if tensor.dtype.itemsize == 8 else 1e-37


@dataclass(frozen=True, eq=False)
class TopKRows(ClassRows):
    """The top-k losses as in `topk_steps`: duals a = cap_i p, p in the top-k simplex (`joint`: alpha) or the top-k box (beta)."""

    k: int
    smoothing: float
    joint: bool

    @property
    def levels(self) -> Levels:
        return Levels(self.k, self.joint)

    def value(self, rows, S, error=None):
        y = self.label[rows][:, None]
        h = (S + self.margins(rows, S) - S.gather(1, y)).scatter(1, y, NOWHERE_NEAR)
        if self.smoothing > 0.0:
            away = (h / self.smoothing).scatter(1, y, NOWHERE_NEAR)
            p = self.levels.projected(away, 1.0 + 0.0 * h[:, :1], 0.0)
            found = (p * h - 0.5 * self.smoothing * p * p).sum(1)
        else:
            top = h.topk(self.k, dim=1).values
            found = (top.sum(1).clamp(min=0.0) if self.joint else top.clamp(min=0.0).sum(1)) / self.k
        found = found.double()
        return (self.cap[rows] * (found if error is None else found + 2.0 * error)).sum()

    def stepped(self, rows, S, A, q):
        y, cap = self.label[rows][:, None], self.cap[rows].to(S.dtype)[:, None]
        margin = self.margins(rows, S)
        h = S + margin
        held, truth = A.gather(1, y), S.gather(1, y)
        soft = (self.smoothing / cap.clamp(min=tiny_of(S))).where(cap > 0.0, 0.0 * cap)
        Q = (q + soft).clamp(min=tiny_of(S))
        B = (h - truth + q * (held - A)).scatter(1, y, NOWHERE_NEAR)
        short = Q * cap <= 1e4 * eps_of(S) * B.amax(1, keepdim=True)
        a = self.levels.projected((B / Q).scatter(1, y, NOWHERE_NEAR), cap, q / Q)
        a = self.vertex(h - truth, y, cap).where(short, a) if bool(short.any()) else a
        a = a.where(cap > 0.0, 0.0 * a).scatter(1, y, 0.0)
        change = self.closed(y, a) - A
        others, old = change.scatter(1, y, 0.0), (-A).scatter(1, y, 0.0)
        gain = wide((a - old) * margin) - 0.5 * wide(soft * (a * a - old * old))
        losses = self.losses(h - truth, y, cap)
        share = losses + (h * A).sum(1) + 0.5 * (soft * old * old).sum(1)
        return BlockStep(change, gain, wide(soft * others * others), share)

    def attained(self, rows, S):
        y, cap = self.label[rows][:, None], self.cap[rows].to(S.dtype)[:, None]
        h = S + self.margins(rows, S) - S.gather(1, y)
        if self.smoothing == 0.0:
            return self.closed(y, self.vertex(h, y, cap))
        away = (h / self.smoothing).scatter(1, y, NOWHERE_NEAR)
        return self.closed(y, cap * self.levels.projected(away, 1.0 + 0.0 * cap, 0.0).scatter(1, y, 0.0))

    def losses(self, h: Any, y: Any, cap: Any) -> Any:
        """The loss of each row, without smoothing: an upper bound of that with it, which is enough to tell who may rest."""
        top = h.scatter(1, y, NOWHERE_NEAR).topk(self.k, dim=1).values
        return cap[:, 0] * (top.sum(1).clamp(min=0.0) if self.joint else top.clamp(min=0.0).sum(1)) / self.k

    def vertex(self, h: Any, y: Any, cap: Any) -> Any:
        """The duals of rows that move nothing: even parts of the cap for the k classes of the largest h, if that is worth it."""
        top = h.scatter(1, y, NOWHERE_NEAR).topk(self.k, dim=1)
        worth = top.values.sum(1, keepdim=True) > 0.0 if self.joint else top.values > 0.0
        return (0.0 * h).scatter(1, top.indices, (cap / self.k + 0.0 * top.values).where(worth, 0.0 * top.values))

    def repaired(self, rows, A):
        y, a = self.opened(rows, A)
        cap = self.cap[rows][:, None]
        a = self.levels.trimmed(a) if self.joint else a.minimum(cap / self.k)
        a = a * (cap / a.sum(1, keepdim=True).clamp(min=tiny_of(a))).clamp(max=1.0)
        soft = (self.smoothing / cap.clamp(min=tiny_of(a))).where(cap > 0.0, 0.0 * cap)
        linear, square = wide(a), 0.5 * wide(soft * a * a)
        return self.closed(y, a), linear - square, linear + square


class EntryTargets(ABC):
    """What is asked of each score of a row."""

    @abstractmethod
    def of(self, rows: Any, dtype: Any) -> tuple[Any, Any, Any]:
        """Signs, offsets and the factors of the caps: each (rows, scores), or what stretches to it."""


@dataclass(frozen=True, eq=False)
class OneTarget(EntryTargets):
    """One score: the sign of each example and its offset, a margin or a target."""

    sign: Any
    offset: Any

    def of(self, rows, dtype):
        return self.sign[rows][:, None].to(dtype), self.offset[rows][:, None].to(dtype), 1.0


@dataclass(frozen=True, eq=False)
class LabelTargets(EntryTargets):
    """A label for each score. Present and known are bytes of eight labels; pairs are (labels, 2), absent and present."""

    present: Any
    known: Any
    weight: Any
    margin: Any

    @property
    def width(self) -> int:
        return int(self.weight.shape[0])

    def bits(self, packed: Any, rows: Any) -> Any:
        chosen = packed[rows].int()
        return ((chosen[:, :, None] >> self.places(chosen)) & 1).flatten(1)[:, : self.width].bool()

    def places(self, like: Any) -> Any:
        return like.new_ones(8).cumsum(0) - 1  # made on the device: a list would have to be sent there

    def of(self, rows, dtype):
        present, known = self.bits(self.present, rows), self.bits(self.known, rows)
        weight, margin = self.weight.to(dtype), self.margin.to(dtype)
        factor = weight[:, 1].where(present, weight[:, 0])
        sign = 2.0 * present.to(dtype) - 1.0
        return sign, margin[:, 1].where(present, margin[:, 0]), factor.where(known, 0.0 * factor)


@dataclass(frozen=True, eq=False)
class EntryRows(TensorLoss):
    """A loss of each score. `coupled`: labels move each other's scores, and have one line search together."""

    form: EntryForm
    targets: EntryTargets
    cap: Any
    coupled: bool = False

    @property
    def apart(self) -> bool:
        return not self.coupled

    @property
    def precise(self) -> bool:
        return self.form.precise

    def waits(self, dtype):
        return False

    def asked(self, rows: Any, like: Any) -> tuple[Any, Any, Any]:
        """Signs, offsets and caps of a block."""
        sign, offset, factor = self.targets.of(rows, like.dtype)
        return sign, offset, self.cap[rows].to(like.dtype)[:, None] * factor

    def value(self, rows, S, error=None):
        sign, offset, cap = self.asked(rows, S)
        return wide(self.form.value(offset - sign * S, cap, 0.0 if error is None else error.to(S.dtype)[:, None]))

    def stepped(self, rows, S, A, q):
        sign, offset, cap = self.asked(rows, S)
        slope, a, form = offset - sign * S, sign * A, self.form
        share = form.value(slope, cap) + form.cost(a, cap) - a * slope
        new = form.best(a, slope, q, cap)
        gain = offset * (new - a) - (form.cost(new, cap) - form.cost(a, cap))
        change = sign * (new - a)
        gain, bend = gain.double(), form.bend(change, cap).double()
        sums = (gain.sum(0), bend.sum(0)) if self.apart else (gain.sum(), bend.sum())
        return BlockStep(change, *sums, share.sum(1))

    def attained(self, rows, S):
        sign, offset, cap = self.asked(rows, S)
        return sign * self.form.attained(offset - sign * S, cap)

    def repaired(self, rows, A):
        A = A.double()
        sign, offset, cap = self.asked(rows, A)
        a = self.form.clip(sign * A, cap)
        linear, cost = offset * a, self.form.cost(a, cap)
        return sign * a, wide(linear - cost), wide(linear.abs() + cost.abs())
