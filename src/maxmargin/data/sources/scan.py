"""What the first pass over a source checks and counts."""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from .blocks import WIDEST, LabelLists, RawBlock, Scan
from .options import SourceOptions

DISTINCT = 1 << 16  # so many different labels are told apart
LABELS = 1 << 24  # of a multi-label source where `n_labels` is not given: a model has a row of weights for each
FOUND = ("width", "sparse", "columns", "many", "low", "high", "kind", "none", "several", "unfit")


class Scanner:
    """Checks the blocks of a scan and counts what they hold."""

    def __init__(self, source: str, options: SourceOptions, place: Callable[[int, int], str]):
        self.source, self.options, self.place = source, options, place
        self.width: int | None = None
        self.sparse: bool | None = None
        self.columns = 0  # of labels
        self.distinct: np.ndarray | None = None
        self.many = False  # more different labels than are told apart
        self.low, self.high = np.inf, -np.inf
        self.kind: str | None = None
        self.none: tuple[int, int] | None = None  # the first row without a label, the first with several, ...
        self.several: tuple[int, int] | None = None
        self.unfit: tuple[int, int] | None = None  # ... and the first with one that cannot be the number of a column

    @property
    def multilabel(self) -> bool:
        if self.kind == "indicator":
            return True
        if self.kind != "lists":
            return False
        return bool(self.options.multilabel) or self.options.n_labels is not None or self.several is not None

    @property
    def range(self) -> tuple[float, float] | None:
        return (self.low, self.high) if self.low <= self.high else None

    @property
    def n_labels(self) -> int:
        return self.options.n_labels or self.columns

    def add(self, k: int, raw: RawBlock) -> None:
        self.add_matrix(k, raw.X)
        if raw.y is None:
            self.same_kind(k, "none")
        elif isinstance(raw.y, LabelLists):
            self.same_kind(k, "lists")
            self.add_lists(k, raw.y)
        elif raw.y.ndim == 2:
            self.same_kind(k, "indicator")
            self.add_indicator(k, raw)
        else:
            self.same_kind(k, "strings" if raw.y.dtype.kind in "US" else "numbers")
            self.add_labels(k, raw)
        if raw.weight is not None:
            self.add_weight(k, raw)

    def refuse(self, k: int, row: int, reason: str) -> NoReturn:
        raise ValueError(f"{self.source}, {self.place(k, row)}: {reason}.")

    def same_kind(self, k: int, kind: str) -> None:
        if self.kind not in (None, kind):
            self.refuse(k, 0, f"labels of another kind than before ({kind} after {self.kind})")
        self.kind = kind

    def add_matrix(self, k: int, X) -> None:
        sparse = sp.issparse(X)
        if self.sparse not in (None, sparse):
            self.refuse(k, 0, f"X is {'sparse' if sparse else 'dense'} from here on, but not before")
        self.sparse = sparse
        values = X.data if sparse else X
        if not np.isfinite(values).all():
            bad = np.flatnonzero(~np.isfinite(values.ravel()))[0]
            row = np.searchsorted(X.indptr, bad, side="right") - 1 if sparse else bad // X.shape[1]
            self.refuse(k, int(row), "X must be finite; it holds NaN or infinity")
        if self.width is not None and not sparse and X.shape[1] != self.width:
            self.refuse(k, 0, f"X has {X.shape[1]} features from here on, {self.width} before")
        declared = self.options.n_features
        if declared is not None and (X.shape[1] > declared or (not sparse and X.shape[1] != declared)):
            self.refuse(k, 0, f"X has {X.shape[1]} features, but n_features={declared}")
        self.width = max(self.width or 0, X.shape[1])

    def add_lists(self, k: int, lists: LabelLists) -> None:
        counts = np.diff(lists.indptr)
        self.none = self.none or first_place(k, counts == 0)
        self.several = self.several or first_place(k, counts > 1)
        values, of = lists.values, np.repeat(np.arange(counts.size), counts)
        fits = (values >= 0) & (values <= WIDEST) & (values == np.floor(values))
        if not fits.all():
            self.unfit = self.unfit or (k, int(of[~fits][0]))
        elif values.size:
            self.columns = max(self.columns, int(values.max()) + 1)
            if counts.max() > 1:
                order = np.lexsort((values, of))
                twice = (np.diff(values[order]) == 0) & (np.diff(of[order]) == 0)
                if twice.any():
                    at = order[:-1][twice][0]
                    self.refuse(k, int(of[at]), f"the label {values[at]:g} is given twice")
        self.count(values)

    def add_indicator(self, k: int, raw: RawBlock) -> None:
        y = raw.y
        bad = ~np.isin(y.data if sp.issparse(y) else y, (0, 1))
        if bad.any():
            self.refuse(k, 0, "an indicator matrix of labels holds 0 and 1 only, here are other numbers")
        if self.columns not in (0, y.shape[1]):
            self.refuse(k, 0, f"the matrix of labels has {y.shape[1]} columns from here on, {self.columns} before")
        if y.shape[0] != raw.X.shape[0]:
            self.refuse(k, 0, f"{y.shape[0]} rows of labels for {raw.X.shape[0]} rows")
        if self.options.n_labels not in (None, y.shape[1]):
            self.refuse(k, 0, f"the matrix of labels has {y.shape[1]} columns, but n_labels={self.options.n_labels}")
        self.columns = y.shape[1]
        self.count((sp.csc_matrix(y).getnnz(axis=0)).nonzero()[0])

    def add_labels(self, k: int, raw: RawBlock) -> None:
        y = raw.y
        if y.ndim != 1 or y.size != raw.X.shape[0]:
            self.refuse(k, 0, f"labels of shape {y.shape} for {raw.X.shape[0]} rows")
        if y.dtype.kind == "f":
            bad = np.flatnonzero(~np.isfinite(y))
            if bad.size:
                self.refuse(k, int(bad[0]), f"the label {y[bad[0]]} is not finite")
        elif y.dtype.kind not in "iubUS":
            self.refuse(k, 0, f"labels must be numbers or strings, these are {y.dtype}")
        self.count(y)

    def add_weight(self, k: int, raw: RawBlock) -> None:
        weight = raw.weight
        assert weight is not None
        if weight.dtype.kind not in "fiub":
            self.refuse(k, 0, f"weights must be numbers, these are {weight.dtype}")
        if weight.shape != (raw.X.shape[0],):
            self.refuse(k, 0, f"weights of shape {weight.shape} for {raw.X.shape[0]} rows")
        bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
        if bad.size:
            self.refuse(k, int(bad[0]), f"a weight must be finite and not negative, this one is {weight[bad[0]]:g}")

    def count(self, labels: np.ndarray) -> None:
        if labels.size == 0:
            return
        if labels.dtype.kind in "iufb":
            self.low, self.high = min(self.low, float(labels.min())), max(self.high, float(labels.max()))
        if not self.many:
            new = np.unique(labels)
            self.distinct = new if self.distinct is None else np.union1d(self.distinct, new)
            if self.distinct.size > DISTINCT:
                self.many, self.distinct = True, None

    def state(self) -> dict[str, Any]:
        """All that was found, as JSON can hold it, for a later `restore`."""
        distinct = None if self.distinct is None else self.distinct.tolist()
        return {name: getattr(self, name) for name in FOUND} | {"distinct": distinct}

    def restore(self, state: dict[str, Any]) -> None:
        """As if the same blocks of text had been added here, with these options."""
        for name in FOUND:
            setattr(self, name, state[name])
        self.distinct = None if state["distinct"] is None else np.array(state["distinct"], np.float64)

    def finish(self, n_rows: int) -> Scan:
        """What was found, when all blocks have been seen; some of it is only now known to be wrong."""
        if self.options.multilabel is False and self.multilabel:
            self.refuse(*(self.several or (0, 0)), "several labels, but multilabel=False")
        if self.options.multilabel and not self.multilabel:
            raise ValueError(f"{self.source} has no lists of labels, but multilabel=True.")
        if self.multilabel:
            if self.unfit is not None:
                self.refuse(*self.unfit, "labels of multi-label sources are whole numbers from 0 on, this row has another")
            if self.columns > self.n_labels:
                raise ValueError(
                    f"{self.source} has the label {self.columns - 1}, but n_labels={self.n_labels}: labels start at 0."
                )
            if self.options.n_labels is None and self.columns > LABELS:
                raise ValueError(
                    f"{self.source} has the label {self.columns - 1}: more than {LABELS} labels must be given as n_labels."
                )
        elif self.options.n_labels is not None:
            raise ValueError(f"n_labels={self.options.n_labels} is given, but {self.source} is not multi-label.")
        elif self.none is not None:
            self.refuse(*self.none, "there is no label; give multilabel=True if rows may have any number of labels")
        return Scan(n_rows, self.options.n_features or self.width or 0, self.distinct)


def first_place(block: int, mask: np.ndarray) -> tuple[int, int] | None:
    return (block, int(np.argmax(mask))) if mask.any() else None
