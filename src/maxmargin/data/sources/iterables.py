"""Any Python object that yields `(X_block, y_block)` or `(X_block, y_block, weight_block)`, and does so again when asked."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..matrices import reals
from ..mistakes import trouble
from .blocks import RawBlock
from .column_names import check_same_names
from .one_file import FileSource
from .options import SourceOptions

MEANINGLESS = ("label", "weight", "group", "features", "zero_based", "cache", "categorical", "delimiter", "header", "quote")


class IterableSource(FileSource):
    """A sequence is read in any order; other iterables only from their beginning."""

    told_by_files = False

    def __init__(self, given, options: SourceOptions):
        name = f"The {type(given).__name__}"
        for option in MEANINGLESS:
            if getattr(options, option) is not None and getattr(options, option) is not False:
                raise ValueError(f"{option} is for files; an iterable yields (X, y) or (X, y, weight), block by block.")
        try:
            start = iter(given)
        except TypeError:
            raise TypeError(
                f"open_source takes a path, a list of paths or an iterable of (X_block, y_block), got {type(given).__name__}."
            ) from None
        if start is given:
            raise ValueError(
                f"{name} can be read only once, and a source is read several times: give an object whose iter() starts anew, "
                "for example a list, or a class with __iter__ as a generator."
            )
        super().__init__(name, [], options)
        self._given = given
        self._dtype = options.dtype
        self._names: list[str] | None = None
        self._numbers: list[int] = []  # of the blocks that have rows

    @property
    def dtype(self) -> np.dtype:
        self.scan()
        assert self._dtype is not None
        return self._dtype

    @property
    def feature_names(self) -> list[str] | None:
        """Those of the blocks, where they are data frames."""
        self.scan()
        return self._names

    def _cuts(self) -> Iterable[int]:
        return super()._cuts() if isinstance(self._given, Sequence) else [0]

    def _raw_blocks(self, first: int, stop: int | None) -> Generator[RawBlock]:
        if stop is None:
            self._numbers = []
        for k, item in self._items(first, stop):
            raw = self._raw_block(k, item)
            if raw.X.shape[0]:
                if stop is None:
                    self._numbers.append(k)
                yield raw
            del raw, item

    def _items(self, first: int, stop: int | None) -> Iterator[tuple[int, Any]]:
        if stop is None or not isinstance(self._given, Sequence):
            return enumerate(self._given)
        return ((k, self._given[k]) for k in self._numbers[first:stop])

    def _raw_block(self, k: int, item) -> RawBlock:
        if not isinstance(item, (tuple, list)) or len(item) not in (2, 3):
            raise ValueError(
                f"{self}: block {k} must be (X, y) or (X, y, weight), it is {type(item).__name__}; a single block is given as "
                "[(X, y)]."
            )
        X, y, weight = (*item, None)[:3]
        where = f"{self}, block {k}"
        if sp.issparse(X):
            X = sp.csr_matrix(X)
            if self._dtype is None:
                self._dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
            X = canonical(X.astype(self._dtype, copy=False), where)
        else:
            self._check_names(X, where)
            if (found := trouble(X)) is not None:
                raise ValueError(f"{where}: X is not a matrix of numbers: {found}.")
            X = np.asarray(X)
            if X.ndim != 2 or X.dtype.kind not in "fiub":
                raise ValueError(f"{where}: X must be a matrix of real numbers, it is {X.dtype} of shape {X.shape}.")
            if self._dtype is None:
                self._dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
            X = np.ascontiguousarray(X, dtype=self._dtype)
        n = X.shape[0]
        if y is not None:
            y = y if sp.issparse(y) else as_strings(np.asarray(y), where)
            if y.ndim not in (1, 2) or y.shape[0] != n:
                raise ValueError(f"{where}: X has {n} rows, y is of shape {y.shape}.")
            y = sp.csr_matrix(y) if y.ndim == 2 else y
        if weight is not None:
            weight = reals(f"{where}: the weights", weight)
            if weight.shape != (n,):
                raise ValueError(f"{where}: X has {n} rows, the weights are of shape {weight.shape}.")
        return RawBlock(X, y, weight)

    def _check_names(self, X, where: str) -> None:
        """Blocks that are data frames have the same columns."""
        names = list(getattr(X, "columns", ()))
        if not names or not all(isinstance(name, str) for name in names):
            return
        if self._names is not None:
            check_same_names(where, names, "before it was", self._names)
        self._names = names


def as_strings(y: np.ndarray, where: str) -> np.ndarray:
    """Labels that are Python objects, as strings if all of them are."""
    if y.dtype == object and any(none := [label is None for label in y.ravel()]):
        raise ValueError(f"{where}: the label of its row {none.index(True) // (y.size // len(y))} is None.")
    if y.dtype == object and all(isinstance(label, str) for label in y.ravel()):
        return y.astype(str)
    return y


def canonical(X: sp.csr_matrix, where: str) -> sp.csr_matrix:
    """With valid, sorted indices of 32 bits and no entry twice; copied only if it was not so."""
    try:
        copy(X).check_format(full_check=True)  # a shallow copy: the check may cut arrays that are longer than needed
    except ValueError as error:
        raise ValueError(f"{where}: X is not a valid CSR matrix: {error}.") from None
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    if X.indices.dtype != np.int32 and X.shape[1] < 2**31:
        X = sp.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    return X
