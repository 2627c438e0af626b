"""A source whose rows go through a transformer of scikit-learn's on the way, block by block."""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..matrices import checked_matrix
from .base import Source
from .blocks import Block, Scan

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class Mapped(Source):
    """What `source.map(transformer)` returns: the same rows, labels and weights, X transformed."""

    def __init__(self, source: Any, transformer: Any):
        super().__init__()
        self.source, self.transformer = source, transformer
        self._dtype: np.dtype | None = None

    def __str__(self) -> str:
        return f"{self.source} through {type(self.transformer).__name__}"

    def __repr__(self) -> str:
        return f"<Mapped {self}>"

    @property
    def dtype(self) -> np.dtype:
        self.scan()
        assert self._dtype is not None
        return self._dtype

    @property
    def multilabel(self) -> bool:
        return self.source.multilabel

    @property
    def label_range(self) -> tuple[float, float] | None:
        return self.source.label_range

    @property
    def n_labels(self) -> int | None:
        return self.source.n_labels

    @property
    def feature_names(self) -> list[str] | None:
        """As the transformer says, where the columns before it have names."""
        names = self.source.feature_names
        if names is None or not hasattr(self.transformer, "get_feature_names_out"):
            return None
        return [str(name) for name in self.transformer.get_feature_names_out(names)]

    def check_unchanged(self) -> None:
        self.source.check_unchanged()

    def _said_rows(self) -> int | None:
        return self.source.n_rows

    def _scan(self) -> Scan:
        """The first block says how wide X becomes."""
        found = self.source.scan()
        with closing(self.source.blocks()) as blocks:
            X = self._transformed(next(blocks).X)
        self._dtype = X.dtype
        return Scan(found.n_rows, X.shape[1], found.labels)

    def _runs(self) -> list[Callable[[], Iterator[Block]]]:
        return [partial(self._run, run) for run in self.source._runs()]

    def _run(self, run: Callable[[], Iterator[Block]]) -> Iterator[Block]:
        width = self.scan().n_features
        for block in run():
            X = self._transformed(block.X)
            if X.shape != (block.rows.size, width):
                raise ValueError(
                    f"{type(self.transformer).__name__} made {X.shape} of {block.rows.size} rows of {self.source}; in the first "
                    f"block it made {width} columns. A transformer of a source keeps the rows and makes the same columns of each."
                )
            yield block._replace(X=X)

    def _transformed(self, given: Any) -> Any:
        X = self.transformer.transform(given)
        X = X.tocsr() if sp.issparse(X) else np.asarray(X)
        if X.ndim != 2 or X.dtype.kind not in "fiub":
            raise ValueError(f"{type(self.transformer).__name__} must make a table of numbers of a block of {self.source}.")
        return checked_matrix(X if X.dtype in FLOATS else X.astype(np.float64))


def learned(transformer: Any, source: Any) -> Any:
    """The transformer as it is where it needs no fit or has one; else a copy, fitted by `partial_fit` along a pass."""
    if not is_unfitted(transformer):
        return transformer
    if not hasattr(transformer, "partial_fit"):
        raise TypeError(
            f"{type(transformer).__name__} has no partial_fit, so that it cannot learn from a source, which is read in blocks. "
            "Fit it to rows in memory first, or take one that has (StandardScaler, MaxAbsScaler, IncrementalPCA)."
        )
    found = clone(transformer)
    with closing(source.blocks()) as blocks:
        for block in blocks:
            found.partial_fit(block.X)
    return found


def is_unfitted(transformer: Any) -> bool:
    try:
        check_is_fitted(transformer)  # knows transformers without state, too
    except NotFittedError:
        return True
    return False
