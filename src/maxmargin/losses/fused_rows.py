"""Losses of blocks of rows on a GPU by one kernel each, which reads a row of scores once, where the plain form takes many passes.

The kernels are Triton's, which comes with PyTorch for GPUs; where there are none, the plain forms do the same.
"""

from functools import cache
from importlib.util import find_spec
from typing import Any

from .tensor_rows import BlockStep, CrammerSingerRows, EntryRows, LabelTargets, OneTarget, TopKRows

WIDEST_ROW = 1 << 15  # scores of a row that a program keeps in registers
A_WARP = 256  # numbers of a row for each warp of a program. Nothing was measured, 2026-11-17.
A_TILE, NARROWEST = 1024, 16  # numbers of a tile of entries, and scores of it at the least. Nothing was measured, 2026-11-17.
SHORT_IN_FLOAT32 = 1e4 * 2.0**-23  # as in `CrammerSingerRows.stepped`


@cache
def row_kernels() -> Any:
    """The kernels, imported when they are first asked for."""
    from . import tensor_kernels

    return tensor_kernels


def has_kernels(tensor: Any, scores: int) -> bool:
    """Whether rows of so many scores, on the device of this tensor, may be left to kernels."""
    return tensor.device.type == "cuda" and scores <= WIDEST_ROW and find_spec("triton") is not None


def launch(scores: int) -> dict[str, int]:
    """The shape of programs for such rows."""
    block = 1 << (scores - 1).bit_length()
    return {"BLOCK": block, "num_warps": min(max(block // A_WARP, 1), 32)}


class FusedCrammerSinger(CrammerSingerRows):
    """Crammer and Singer's loss. Newton's rounds run over registers, float64 duals by the plain form."""

    def given(self) -> tuple[Any, bool]:
        """The costs, and whether there are any."""
        return (self.cap, False) if self.cost is None else (self.cost, True)

    def waits(self, dtype):
        return dtype.itemsize != 4

    def step(self, rows, S, held, sigma):
        if S.dtype.itemsize != 4:
            return super().step(rows, S, held, sigma)
        change, gain = S.new_empty(S.shape), self.cap.new_empty(rows.numel())
        (cost, costly), classes = self.given(), S.shape[1]
        row_kernels().crammer_singer_rows[(rows.numel(),)](
            S.contiguous(), held.A, rows, self.label, self.cap, held.q, sigma, cost, change, gain, held.share,
            classes, SHORT_IN_FLOAT32, HAS_COST=costly, **launch(classes),
        )  # fmt: skip
        return BlockStep(change, gain, None, None, parts=True)

    def value(self, rows, S, error=None):
        if error is not None:
            return super().value(rows, S, error)
        losses, (cost, costly), classes = self.cap.new_empty(rows.numel()), self.given(), S.shape[1]
        shape = {"HAS_COST": costly, **launch(classes)}
        row_kernels().crammer_singer_value[(rows.numel(),)](S, rows, self.label, self.cap, cost, losses, classes, **shape)
        return losses.sum()

    def repaired(self, rows, A):
        found, rewards = self.cap.new_empty(A.shape), self.cap.new_empty(rows.numel())
        (cost, costly), classes = self.given(), A.shape[1]
        shape = {"HAS_COST": costly, **launch(classes)}
        row_kernels().crammer_singer_repair[(rows.numel(),)](
            A, found, rows, self.label, self.cap, cost, rewards, classes, **shape
        )
        total = rewards.sum()
        return found, total, total


class FusedTopK(TopKRows):
    """The top-k losses without smoothing. Values, and float64 duals, by the plain form."""

    def waits(self, dtype):
        return dtype.itemsize != 4

    def step(self, rows, S, held, sigma):
        if S.dtype.itemsize != 4:
            return super().step(rows, S, held, sigma)
        change, gain, classes = S.new_empty(S.shape), self.cap.new_empty(rows.numel()), S.shape[1]
        topk_kernels().topk_rows[(rows.numel(),)](
            S.contiguous(), held.A, rows, self.label, self.cap, held.q, sigma, self.cap if self.cost is None else self.cost,
            change, gain, held.share, classes, self.k, SHORT_IN_FLOAT32,
            HAS_COST=self.cost is not None, JOINT=self.joint, **launch(classes),
        )  # fmt: skip
        return BlockStep(change, gain, None, None, parts=True)


@cache
def topk_kernels() -> Any:
    """As `row_kernels`."""
    from . import topk_kernels as found

    return found


class FusedEntries(EntryRows):
    """Losses of one score each. float64 duals and coupled labels by the plain form."""

    def step(self, rows, S, held, sigma):
        if S.dtype.itemsize != 4 or self.form.shape is None or self.coupled:
            return super().step(rows, S, held, sigma)
        (many, scores), targets, (absolute, squared) = S.shape, self.targets, self.form.shape
        tile = entry_tile(scores)
        programs = -(-many // tile["ROWS"])
        change, gain = S.new_empty(S.shape), self.cap.new_empty((programs, scores))
        bend = self.cap.new_empty((programs, scores)) if squared else None
        if isinstance(targets, LabelTargets):
            given = targets.present, targets.present, targets.known, targets.weight, targets.margin
            width = targets.present.shape[1]
        else:
            assert isinstance(targets, OneTarget)
            given, width = (targets.sign, targets.offset, targets.sign, targets.sign, targets.sign), 0
        entry_kernels().entry_rows[(programs,)](
            S.contiguous(), held.A, rows, *given, self.cap, held.q, sigma,
            change, gain, gain if bend is None else bend, held.share, many, scores, width, float(self.form.epsilon),
            BITS=width > 0, ABSOLUTE=absolute, SQUARED=squared, **tile,
        )  # fmt: skip
        return BlockStep(change, gain, bend, None, parts=True)


@cache
def entry_kernels() -> Any:
    """As `row_kernels`."""
    from . import entry_kernels as found

    return found


def entry_tile(scores: int) -> dict[str, int]:
    """Rows and scores that a program steps at a time."""
    block = min(max(1 << (scores - 1).bit_length(), NARROWEST), A_WARP)
    return {"ROWS": A_TILE // block, "BLOCK": block, "num_warps": 4}


def fused_entries(loss: EntryRows) -> EntryRows:
    """The same loss by kernels, where there are some for it."""
    if not has_kernels(loss.cap, 1):
        return loss
    return FusedEntries(loss.form, loss.targets, loss.cap, loss.coupled)


def fused_topk(loss: TopKRows, scores: int) -> TopKRows:
    """The same loss by kernels, where there are some for it."""
    if loss.smoothing > 0.0 or not has_kernels(loss.cap, scores):
        return loss
    return FusedTopK(loss.label, loss.cap, loss.cost, loss.k, loss.smoothing, loss.joint)


def fused(loss: CrammerSingerRows, scores: int) -> CrammerSingerRows:
    """The same loss by kernels, where there are some for it."""
    return FusedCrammerSinger(loss.label, loss.cap, loss.cost) if has_kernels(loss.cap, scores) else loss
