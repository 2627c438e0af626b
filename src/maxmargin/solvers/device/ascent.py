"""Dual ascent where many rows step at once: a block of rows, on the device that holds them.

    S = X_b W                                  the scores of a block, a matrix product
    d_i = best row of duals - b_i              each row by itself, for a curvature sigma ||x_i||^2
    U = sum_i d_i x_i                          a matrix product
    t = clip((G + kappa/2 - <W, U>) / (||U||^2 + kappa), 0, 1)        G: what the rewards gain, kappa: their curvature along d
    b_i += t d_i,   W += t U                   so that the dual value never falls, and W = sum_i b_i x_i but for rounding

The step t is exact where rewards are linear or quadratic along d (hinge, Crammer-Singer, top-k, squared losses), and safe for all
others, for they are concave; with signs too, for the quadratic term is 1-smooth. sigma follows t before the clip: it is 1 where
the rows of a block hardly meet, larger where they do. Labels that nothing couples have each their own t and sigma. Rows with a
small share of the gap rest for some passes. Between passes the duals are extrapolated, as far as they stay feasible, and the same
line search says how far to go (Nesterov's idea, without its constants).

Nothing waits for the device within a pass: t, sigma and the sums stay there, and blocks are replayed (`replayed`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data.tensors import TensorDuals, brought, library, no_room, room_of
from ...losses.tensor_rows import HeldRows
from ...problems.tensors import EVEN, TensorProblem, coarse_float32, full_float32
from ...utils.state import RunState
from ..base import Run
from ..dual_coordinate import COARSE, SAFE, begin
from ..tuning import VISITS
from .fused import fused_line
from .replayed import EAGER, Replayed
from .tuning import DEVICE, DeviceTuning

STATE = ("A", "share", "due", "wait", "sigma", "value", "ahead")  # tensors that make up the state of a run


@dataclass(frozen=True)
class DeviceOptions:
    tol: float
    seed: int
    double: bool
    momentum: bool
    average: bool
    tuning: DeviceTuning = DEVICE


class DeviceWeights:
    """The weights on the device, as duals move them: W for scores, and the rest of what the quadratic term knows of them. Rows of
    all tables begin on even places; what lies between them stays zero."""

    def __init__(self, problem: TensorProblem, dtype: Any):
        put, term = problem.put, problem.regularizer
        self.dtype, self.bias, self.features = dtype, problem.table.bias, problem.table.shape[1]
        self.variance = None if term.variance is None else self.table(put(self.whole(problem, term.variance), dtype))
        self.lower = None if term.lower is None else self.table(put(self.whole(problem, term.lower), dtype))
        self.R = None if problem.R is None else put(problem.R, dtype)
        self.V = self.table(put(np.atleast_2d(term.start((problem.scores, self.features + 1))), dtype))
        self.W = self.V if self.lower is None else self.V.maximum(self.lower)
        self.U = library().zeros_like(self.V)

    @staticmethod
    def whole(problem: TensorProblem, array: np.ndarray) -> np.ndarray:
        return np.broadcast_to(array, (problem.scores, array.shape[-1])).copy()

    @staticmethod
    def table(given: Any) -> Any:
        """A copy with its padding; the views of `even_rows` share it."""
        rows, columns = given.shape
        found = given.new_zeros((rows, -(-columns // EVEN) * EVEN))
        found[:, :columns] = given
        return found

    def set(self, V: Any) -> None:
        """Take these weights, unclipped; of coupled labels those that scores use."""
        self.V[:, : self.features + 1] = V[:, : self.features + 1]
        self.clip()

    def clip(self) -> None:
        """In place, as everything that a recorded block changes."""
        if self.lower is not None:
            library().maximum(self.V, self.lower, out=self.W)

    def scores(self, X: Any) -> Any:
        W, d = self.W, self.features
        found = X @ W[:, :d].T
        return found.add_(self.bias * W[:, d]) if self.bias else found  # in one call it takes twice as long

    def combined(self, change: Any, X: Any) -> Any:
        """U, as W; the same memory each time."""
        library().mm(change.T, X, out=self.U[:, : self.features])
        if self.bias:
            self.U[:, self.features] = self.bias * change.sum(0)
        return self.U

    def slopes(self, U: Any) -> tuple[Any, Any, Any]:
        """<W, U> and ||U||^2 in the metric of the prior, score by score in float64, and by how much W moves at t = 1."""
        moved = U if self.variance is None else self.variance * U
        moved = moved if self.R is None else self.R @ U
        double = library().float64
        return (self.W * U).sum(1, dtype=double), (moved * U).sum(1, dtype=double), moved

    def move(self, t: Any, moved: Any) -> None:
        """t is one number, or a column of them."""
        self.V.addcmul_(moved, t.to(self.dtype).expand_as(moved))
        self.clip()

    def whole_weights(self, table: Any) -> Any:
        """Without the padding."""
        return table[:, : self.features + 1]


class DeviceAscent(Run):
    """Passes over blocks of rows on a device."""

    problem: TensorProblem
    exact_weights: np.ndarray

    def __init__(self, problem: TensorProblem, duals: TensorDuals | None, options: DeviceOptions):
        torch = self.torch = library()
        self.problem, self.options, self.tuning = problem, options, options.tuning
        self.average, self.warm, self.loss = options.average, duals is not None, problem.loss
        double = options.double or self.loss.precise or not float32_fits(problem, options.tol)
        self.dtype = torch.float64 if double else torch.float32
        n, device = problem.n_examples, problem.table.device
        self.coarse = device.type == "cuda" and not double  # whether products may be tf32
        self.aside = False  # whether duals lie in host memory, and those of a block are fetched
        self.A = self.started(duals)
        self.before: Any = None  # the duals after the last pass, for extrapolation
        self.weights = DeviceWeights(problem, self.dtype)
        widths = (problem.scores,) if self.loss.apart else ()
        self.sigma = torch.full(widths, self.tuning.sigma, dtype=torch.float64, device=device)
        self.share = torch.zeros(n, dtype=torch.float64, device=device)
        self.due, self.wait = (torch.zeros(n, dtype=torch.int32, device=device) for _ in range(2))
        self.random = torch.Generator(device=device).manual_seed(options.seed)
        self.new_rows()
        self.dual, self.passes, self.visits = at_zero(problem), 0, 0
        self.value = torch.full((), self.dual, dtype=torch.float64, device=device)
        self.ahead = torch.full((), self.tuning.ahead, dtype=torch.float64, device=device)
        self.mean: Any = None
        self.replayed: Replayed | None = None
        if duals is not None:
            self.synchronise()

    def started(self, duals: TensorDuals | None) -> Any:
        """The duals of the start, made feasible; zero without any."""
        problem, torch = self.problem, self.torch
        shape = problem.n_examples, problem.scores
        try:
            A = torch.zeros(shape, dtype=self.dtype, device=self.place())
        except torch.cuda.OutOfMemoryError:
            self.aside = True
            A = torch.zeros(shape, dtype=self.dtype, device=self.place())
        if duals is not None:
            done = 0
            for part in problem.repaired_blocks(duals.tensor.reshape(A.shape)):
                A[done : done + len(part)] = part
                done += len(part)
        return A

    def place(self) -> Any:
        """Where the duals lie: on the device, as long as it has room for them and for those of the pass before."""
        problem, tables = self.problem, 1 + self.options.momentum
        size = problem.n_examples * problem.scores * (8 if self.dtype == self.torch.float64 else 4)
        self.aside = self.aside or not duals_fit(tables * size, problem.device, self.tuning.duals)
        return self.torch.device("cpu") if self.aside else problem.device

    def new_rows(self) -> None:
        """What a step needs to know of all rows, in the dtype of the run."""
        problem = self.problem
        scale = None if problem.R is None else problem.put(np.diag(problem.R), self.dtype)
        self.held_rows = HeldRows(self.A, problem.put(problem.curvature, self.dtype), scale, self.share)
        self.fused = None if self.aside else fused_line(self.weights, self.A, self.tuning, self.loss.apart)

    # ---- a pass ---------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Rows of a block."""
        table, tuning = self.problem.table, self.tuning
        width = self.problem.scores + table.shape[1]
        fits, most = max(tuning.entries // width, 1), max(tuning.rows, tuning.busy // width)
        found = np.clip(self.problem.n_examples // tuning.parts, min(tuning.least, fits), min(most, fits))
        return max(int(found) >> table.halved, 1)

    def advance(self, stop: Callable[[], bool]) -> float:
        """A pass; where the device has no room for its blocks, one by smaller blocks, from the duals as they are."""
        while True:
            try:
                return self.passed(stop)
            except self.torch.cuda.OutOfMemoryError:
                self.replayed = None
                if not self.problem.table.smaller():
                    raise no_room(f"blocks of {self.size} rows", self.problem.table.device) from None
            self.synchronise()

    def passed(self, stop: Callable[[], bool]) -> float:
        torch, now = self.torch, self.passes
        active = torch.nonzero(self.due <= now).flatten()
        order = active[torch.randperm(active.numel(), generator=self.random, device=active.device)]
        order = self.problem.table.arranged(order)
        sums, many = torch.zeros_like(self.weights.W, dtype=self.dtype), 0
        visited: list[Any] = []
        seen = 0
        with coarse_float32() if self.coarse else full_float32():
            for rows in self.stepped_blocks(order):
                visited.append(rows)
                seen += rows.numel()
                if 2 * seen > order.numel():
                    sums, many = sums.add_(self.weights.W), many + 1
                if stop():
                    break
        if self.fused is not None:
            self.fused.settle(self.value)
        self.mean = sums / many if many else None
        self.rest(torch.cat(visited) if visited else order[:0], now)
        self.passes, self.visits = now + 1, self.visits + seen
        self.dual = float(self.value)
        return float(self.share.sum())

    def stepped_blocks(self, order: Any) -> Iterator[Any]:
        """Step block after block, each before its rows are given."""
        table, size = self.problem.table, self.size
        if not self.may_replay(order.numel() // size):
            for rows, X in table.visits(order, size, self.dtype):
                self.block(rows, X)
                yield rows
            return
        X = table.tensor
        for k, rows in enumerate(order.split(size)):
            if rows.numel() == size and k >= EAGER and self.replayed is None:
                self.replayed = Replayed(X, size, self.dtype, self.block)
            if rows.numel() == size and self.replayed is not None:
                self.replayed(rows)
            else:
                self.block(rows, X.index_select(0, rows).to(self.dtype))
            yield rows

    def may_replay(self, blocks: int) -> bool:
        """Whether so many blocks are worth recording one, and nothing in them waits for the device."""
        table = self.problem.table
        near = table.resident and not self.aside and table.device.type == "cuda"
        return near and blocks > 2 * EAGER and not self.loss.waits(self.dtype)

    def block(self, rows: Any, X: Any) -> None:
        """One block: all its rows at once, as far as the line search goes."""
        weights, S = self.weights, self.weights.scores(X)
        if self.aside:
            found = self.loss.step_from(self.A[rows.cpu()].to(X.device), rows, S, self.held_rows, self.sigma)
        else:
            found = self.loss.step(rows, S, self.held_rows, self.sigma)
        U = weights.combined(found.change, X)
        if self.fused is not None and found.parts:
            self.fused.go(rows, found, weights, U, self.sigma, self.value)
            return
        gain, bend = (each if each is None or not found.parts else each.sum(0) for each in (found.gain, found.bend))
        bend = 0.0 * gain if bend is None else bend
        t, ratio = self.line(gain, bend, *weights.slopes(U), apart=self.loss.apart)
        self.A.index_add_(0, rows.to(self.A.device), (found.change * t.to(self.dtype)).to(self.A.device))
        self.sigma *= ratio.clamp(0.2, 5.0) ** -self.tuning.follow
        self.sigma.clamp_(1.0, self.tuning.most)

    def line(self, gain: Any, bend: Any, slope: Any, square: Any, moved: Any, apart: bool) -> tuple[Any, Any]:
        """Go as far as is best along a joint step, of each score (`apart`) or of all together; returns how far, and how far that
        would have been without bounds."""
        if not apart:
            slope, square = slope.sum(), square.sum()
        ascent, total = gain + 0.5 * bend - slope, square + bend
        noise = self.tuning.noise * (gain.abs() + slope.abs())
        ratio = (ascent / total.clamp(min=1e-300)).where(ascent > noise, 0.0 * ascent)
        t = ratio.clamp(0.0, 1.0)
        self.value += (t * ascent - 0.5 * t * t * total).sum()
        self.weights.move(t[:, None] if t.ndim else t, moved)
        return t, ratio.where(ascent > noise, 0.0 * ratio + 1.0)

    def rest(self, rows: Any, now: int) -> None:
        """Rows whose share of the gap is small are left alone for some passes, longer each time."""
        limit = VISITS.calm * self.options.tol * abs(float(self.value)) / self.problem.n_examples
        calm, wait = self.share[rows] <= limit, self.wait[rows]
        wait = (2 * wait + 1).clamp(max=VISITS.longest).where(calm, 0 * wait)
        self.wait[rows] = wait
        self.due[rows] = now + 1 + wait

    def accelerate(self) -> None:
        """Go on along the change of the last passes, as far as that is feasible and the line search allows."""
        if not self.options.momentum or self.passes < self.tuning.later:
            return
        if self.before is None:
            self.before = self.A.clone()
            return
        self.weights.U.zero_()
        gain, moved, done = 0.0, self.torch.zeros_like(self.weights.U), 0
        ahead = self.ahead.to(self.dtype)
        with coarse_float32() if self.coarse else full_float32():
            for rows, X in self.problem.table.visits(None, self.problem.block_rows, self.dtype):
                part = slice(done, done + len(rows))
                A, before = (each[part].to(X.device) for each in (self.A, self.before))
                wanted = self.loss.repaired(rows, A + ahead * (A - before))
                gain = gain + wanted[1] - self.loss.repaired(rows, A)[1]
                change = (wanted[0] - A).to(self.dtype)
                self.before[part] = change  # until all is known
                moved += self.weights.combined(change, X)
                done += len(rows)
        t, ratio = self.line(gain, 0.0 * gain, *self.weights.slopes(moved), apart=False)
        self.before *= t.to(self.A.device, self.dtype)
        self.A += self.before
        self.before.copy_(self.A)
        self.ahead = (self.ahead * ratio.clamp(0.5, 2.0)).clamp(0.1, self.tuning.farthest)

    def wake(self) -> None:
        self.due.zero_()
        self.wait.zero_()

    # ---- between passes -------------------------------------------------------------------------------------

    def synchronise(self) -> float:
        found = self.roomy(lambda: self.problem.evaluate(self.A))
        if self.fused is not None:
            self.fused.settle(self.value)
        self.exact_weights = found.v
        V = self.problem.coefficients(found.v)
        self.weights.set(self.problem.put(np.atleast_2d(V)))
        self.value.fill_(found.dual)
        self.dual = found.dual
        return found.dual

    def primal(self, w: np.ndarray, n_jobs: int) -> float:
        return self.roomy(lambda: self.problem.primal(w, n_jobs))

    def roomy(self, work: Callable[[], Any]) -> Any:
        """Exact values, by smaller blocks where the device has no room."""
        while True:
            try:
                return work()
            except self.torch.cuda.OutOfMemoryError:
                self.replayed = None
                if not self.problem.table.smaller():
                    raise no_room("the tables of a certificate", self.problem.table.device) from None

    def candidates(self) -> list[Any]:
        found = [self.problem.feasible(self.exact_weights)]
        if self.average and self.mean is not None and self.problem.R is None:
            mean = self.weights.whole_weights(self.mean).double().cpu().numpy()
            found.append(mean.reshape(self.problem.weight_shape))
        return found

    def left(self) -> Any:
        return TensorDuals(self.A)

    def snapshot(self) -> RunState:
        found = super().snapshot() | {"coarse": self.coarse, "double": self.dtype == self.torch.float64}
        for name in STATE:
            found[name] = getattr(self, name).cpu().numpy().copy()
        optional = {"before": self.before, "mean": self.mean}
        found |= {name: each.cpu().numpy().copy() for name, each in optional.items() if each is not None}
        return found | {"V": self.weights.V.cpu().numpy().copy(), "random": self.random.get_state().numpy().copy()}

    def resume(self, state: Mapping[str, Any]) -> None:
        super().resume(state)
        self.coarse = bool(state["coarse"])
        if state["double"] and self.dtype != self.torch.float64:
            self.widen()
        for name in STATE:
            getattr(self, name).copy_(self.problem.put(state[name]))
        places = {"before": self.A.device, "mean": self.problem.device}
        put = {name: brought(state[name].copy(), place) for name, place in places.items() if name in state}
        self.before, self.mean = put.get("before"), put.get("mean")
        self.weights.V.copy_(self.problem.put(state["V"]))
        self.weights.clip()
        self.random.set_state(self.torch.from_numpy(state["random"].copy()))

    def refine(self) -> None:
        """float32 products in the place of tf32, then float64 for everything."""
        self.replayed = None
        if self.coarse:
            self.coarse = False
        elif self.dtype != self.torch.float64:
            self.widen()
        self.wake()

    def widen(self) -> None:
        self.replayed = None
        self.dtype = self.torch.float64
        place = self.place()
        self.A = self.A.to(place, self.dtype)
        self.before = None if self.before is None else self.before.to(place, self.dtype)
        V = self.weights.V
        self.weights = DeviceWeights(self.problem, self.dtype)
        self.weights.set(V)
        self.new_rows()


def duals_fit(nbytes: int, device: Any, part: float) -> bool:
    """Whether duals of so many bytes may lie on a device: within this part of what it has left."""
    return device.type != "cuda" or nbytes <= part * room_of(device)


def at_zero(problem: TensorProblem) -> float:
    """The dual value of no duals at all."""
    if problem.R is not None:
        return 0.0
    r = np.zeros(problem.weight_shape)
    return float(problem.term.dual(r, problem.term.unclipped(r)))


def float32_fits(problem: TensorProblem, tol: float) -> bool:
    """Whether iterations may be float32: as on the processor."""
    if tol < COARSE:
        return False
    sizes = problem.curvature, problem.cap
    fits = all(bool(((each == 0.0) | ((each >= SAFE[0]) & (each <= SAFE[1]))).all()) for each in sizes)
    moves = 2 * int((sizes[0] * sizes[1] >= 1e-2).sum()) >= problem.n_examples  # a score, by its own dual
    return fits and moves


@begin.register
def _(problem: TensorProblem, duals, tol, seed, dtype, momentum, average, n_jobs):
    return DeviceAscent(problem, duals, DeviceOptions(tol, seed, dtype is not None, momentum, average))
