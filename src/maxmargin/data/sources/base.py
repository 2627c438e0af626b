"""Data that are read in blocks of rows and never lie wholly in memory: text, Parquet and Arrow, NumPy files, Python iterables.

A *source* is read in passes. The first one, `scan`, finds out what the format does not say (rows, features, labels), checks
everything once and keeps a checksum of every block, 12 bytes or so; later passes compare what they read with it, so that a
file that changes while it is in use is an error and never a wrong answer. A format is one file beside this one: it derives
`FileSource` (`one_file.py`), tells where reading can begin (`_cuts`) and yields what it reads (`_raw_blocks`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ...utils.threads import read_ahead
from ..matrices import checked_matrix
from .blocks import Block, Scan, SourceChangedError, no_array, part_of, shuffled
from .dealt import shares_of_rows
from .encoding import Encoding

__all__ = ["Block", "Dealt", "Derived", "Mapped", "Scan", "Source", "SourceChangedError", "learned"]

REALS = (np.dtype(np.float32), np.dtype(np.float64))


# ---- the face ------------------------------------------------------------------------------------------------


class Source(ABC):
    """Rows that are read in blocks, pass by pass; made by `open_source`. Iterating over it is one pass in file order."""

    def __init__(self) -> None:
        self._found: Scan | None = None

    @property
    def n_rows(self) -> int | None:
        """None where neither the format says it nor a scan has been made."""
        return self._said_rows() if self._found is None else self._found.n_rows

    @property
    def n_features(self) -> int:
        """As given, else found by a scan."""
        return self.scan().n_features

    @property
    @abstractmethod
    def dtype(self) -> np.dtype:
        """float32 or float64: that of X in every block."""

    @property
    @abstractmethod
    def multilabel(self) -> bool:
        """Whether y is an indicator matrix."""

    @property
    @abstractmethod
    def label_range(self) -> tuple[float, float] | None:
        """The smallest and the largest label; None without labels or where they are not numbers."""

    @property
    @abstractmethod
    def n_labels(self) -> int | None:
        """Columns of the indicator matrix; None where the source is not multi-label."""

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the columns of X; None where the format has none."""
        return None

    @property
    def encoding(self) -> Encoding | None:
        """How columns of categories became features; None where there are none."""
        return None

    def encoded(self, encoding: Encoding) -> "Source":
        """The same rows with their categories as another source has them: what a model reads at predict. A source that is no
        table has features already, and is left as it is."""
        return self

    def __array__(self, dtype=None, copy=None):
        raise no_array(self)

    def scan(self) -> Scan:
        """Read everything once, check it and remember what was found; later calls return the same."""
        if self._found is None:
            self.check_unchanged()
            found = self._scan()
            self.check_unchanged()
            if found.n_rows == 0:
                raise ValueError(f"{self} holds no rows.")
            self._found = found
        return self._found

    def blocks(self, seed: int | None = None, *, shuffle_rows: bool = True) -> Iterator[Block]:
        """A full pass. None is file order; with a seed blocks come in a random order and so do the rows of each, which takes a
        copy of them. `shuffle_rows=False` leaves the rows of a block as they are.

        The next block is read in a thread while this one is used; closing the iterator early ends the thread.
        """
        if seed is not None and (not isinstance(seed, Integral) or isinstance(seed, bool) or int(seed) < 0):
            raise ValueError(f"seed must be None or an integer >= 0, got {seed!r}.")
        self.scan()
        self.check_unchanged()
        return read_ahead(self._pass(None if seed is None else int(seed), bool(shuffle_rows)))

    def __iter__(self) -> Iterator[Block]:
        return self.blocks()

    def map(self, transformer: Any) -> "Source":
        """The same rows with X through a transformer of scikit-learn's, block by block.

        One that has learned already, or needs not to, is used as it is; of another one a copy learns by its `partial_fit`, along
        a pass over this source; of a Pipeline, step by step. `transformer` of what is returned is the one in use: predictions for
        arrays need it as well.
        """
        return Mapped(self, learned(transformer, self))

    def train_test_split(self, test_size: float = 0.25, seed: int = 0) -> tuple["Source", "Source"]:
        """Two sources, to train and to test with: a hash of its number says to which side a row goes, so that it is the same one
        in every pass and with any size of blocks. `test_size` is the share of rows to test with, which is met in the mean."""
        if not isinstance(test_size, Real) or isinstance(test_size, bool) or not 0.0 < float(test_size) < 1.0:
            raise ValueError(f"test_size must be a share of the rows, a number between 0 and 1, got {test_size!r}.")
        if not isinstance(seed, Integral) or isinstance(seed, bool) or not 0 <= int(seed) < 2**32:
            raise ValueError(f"seed must be an integer from 0 to 2^32 - 1, got {seed!r}.")
        test = shares_of_rows(self.scan().n_rows, int(seed)) < float(test_size)
        if test.all() or not test.any():
            raise ValueError(
                f"{self} has {test.size} rows, of which test_size={test_size} with seed={seed} leaves a side empty; take another."
            )
        labels = labels_of_sides(self, test)
        return Dealt(self, np.flatnonzero(~test), labels[0]), Dealt(self, np.flatnonzero(test), labels[1])

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise SourceChangedError if a file has changed since it was opened."""

    @abstractmethod
    def _identity(self) -> Any:
        """What tells these data from others: checkpoints and `save(data=)` keep a hash of it."""

    def _pass(self, seed: int | None, shuffle_rows: bool) -> Generator[Block]:
        runs = self._runs()
        order = range(len(runs)) if seed is None else np.random.default_rng(seed).permutation(len(runs))
        for k in order:
            for block in runs[k]():
                yield block if seed is None or not shuffle_rows else shuffled(block, seed)
        self.check_unchanged()

    def _said_rows(self) -> int | None:
        """The number of rows if it is known without a scan."""
        return None

    @abstractmethod
    def _scan(self) -> Scan: ...

    @abstractmethod
    def _runs(self) -> list[Callable[[], Iterator[Block]]]:
        """After the scan: what can be read in any order. The blocks of one run come in the order of the file."""


# ---- made of another source ----------------------------------------------------------------------------------


class Derived(Source):
    """A source made of another: what is not said otherwise is that one's."""

    def __init__(self, source: Any):
        super().__init__()
        self.source = source

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    @property
    def encoding(self) -> Encoding | None:
        found: Encoding | None = self.source.encoding
        return found

    @property
    def multilabel(self) -> bool:
        return self.source.multilabel

    @property
    def label_range(self) -> tuple[float, float] | None:
        return self.source.label_range

    @property
    def n_labels(self) -> int | None:
        return self.source.n_labels

    def check_unchanged(self) -> None:
        self.source.check_unchanged()

    def _runs(self) -> list[Callable[[], Iterator[Block]]]:
        return [partial(self._run, run) for run in self.source._runs()]

    @abstractmethod
    def _run(self, run: Callable[[], Iterator[Block]]) -> Iterator[Block]:
        """What is made of the blocks of a run of that source."""


class Mapped(Derived):
    """What `source.map(transformer)` returns: the same rows, labels and weights, X transformed."""

    def __init__(self, source: Any, transformer: Any):
        super().__init__(source)
        self.transformer = transformer
        self._dtype: np.dtype | None = None

    def __str__(self) -> str:
        return f"{self.source} through {type(self.transformer).__name__}"

    @property
    def dtype(self) -> np.dtype:
        self.scan()
        assert self._dtype is not None
        return self._dtype

    @property
    def feature_names(self) -> list[str] | None:
        """As the transformer says, where the columns before it have names."""
        names = self.source.feature_names
        if names is None or not hasattr(self.transformer, "get_feature_names_out"):
            return None
        return [str(name) for name in self.transformer.get_feature_names_out(names)]

    def encoded(self, encoding: Encoding) -> Source:
        return Mapped(self.source.encoded(encoding), self.transformer)

    def _identity(self) -> Any:
        return self.source, self.transformer

    def _said_rows(self) -> int | None:
        return self.source.n_rows

    def _scan(self) -> Scan:
        """The first block says how wide X becomes."""
        found = self.source.scan()
        with closing(self.source.blocks()) as blocks:
            X = self._transformed(next(blocks).X)
        self._dtype = X.dtype
        return Scan(found.n_rows, X.shape[1], found.labels)

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
        return checked_matrix(X if X.dtype in REALS else X.astype(np.float64))


def learned(transformer: Any, source: Any) -> Any:
    """The transformer as it is where it needs no fit or has one; else a copy, fitted by `partial_fit` along a pass. Of a Pipeline
    each step, one after the other."""
    if isinstance(transformer, Pipeline):
        return learned_steps(transformer, source)
    if not hasattr(transformer, "transform"):
        raise TypeError(f"A source needs a transformer, not {transformer!r}: wrap a function in a FunctionTransformer.")
    if not is_unfitted(transformer):
        return transformer
    check_learns(transformer, type(transformer).__name__)
    found = clone(transformer)
    with closing(source.blocks()) as blocks:
        for block in blocks:
            found.partial_fit(block.X)
    return found


def learned_steps(pipeline: Pipeline, source: Any) -> Pipeline:
    """The pipeline as it is where every step has learned already, else one of steps that have. Nothing is read before it is known
    that all of them can."""
    check_steps(pipeline)
    steps, found = steps_of(pipeline), []
    for name, step in steps:
        found.append((name, learned(step, source)))
        source = Mapped(source, found[-1][1])
    same = all(own is given for (_, own), (_, given) in zip(found, steps, strict=True))
    return pipeline if same else Pipeline(found)


def steps_of(pipeline: Pipeline) -> list[tuple[str, Any]]:
    """Those that do something."""
    return [(name, step) for name, step in pipeline.steps if step is not None and step != "passthrough"]


def check_steps(pipeline: Pipeline) -> None:
    for name, step in steps_of(pipeline):
        called = f"The step {name!r} of the pipeline, {type(step).__name__},"
        if isinstance(step, Pipeline):
            check_steps(step)
        elif not hasattr(step, "transform"):
            raise TypeError(f"{called} is no transformer: map the source through those before it, and fit it to the result.")
        elif is_unfitted(step):
            check_learns(step, called)


def check_learns(transformer: Any, called: str) -> None:
    """Refuse one that learns from all rows at once."""
    if not hasattr(transformer, "partial_fit"):
        raise TypeError(
            f"{called} has no partial_fit, so that it cannot learn from a source, which is read in blocks. "
            "Fit it to rows in memory first, or take one that has (StandardScaler, MaxAbsScaler, IncrementalPCA)."
        )


def is_unfitted(transformer: Any) -> bool:
    try:
        check_is_fitted(transformer)  # knows transformers without state, too
    except NotFittedError:
        return True
    return False


class Dealt(Derived):
    """Some rows of a source, in their order, numbered anew from 0, as solvers need them; that takes eight bytes for each.
    `labels` are the different ones among them, as a scan finds them."""

    def __init__(self, source: Any, rows: np.ndarray, labels: np.ndarray | None):
        super().__init__(source)
        self.rows, self.labels = rows, labels

    def __str__(self) -> str:
        return f"{self.rows.size} rows of {self.source}"

    @property
    def dtype(self) -> np.dtype:
        found: np.dtype = self.source.dtype
        return found

    @property
    def feature_names(self) -> list[str] | None:
        found: list[str] | None = self.source.feature_names
        return found

    def encoded(self, encoding: Encoding) -> Source:
        return Dealt(self.source.encoded(encoding), self.rows, self.labels)

    def _identity(self) -> Any:
        return self.source, self.rows

    def _said_rows(self) -> int:
        return self.rows.size

    def _scan(self) -> Scan:
        return Scan(self.rows.size, self.source.scan().n_features, self.labels)

    def _run(self, run: Callable[[], Iterator[Block]]) -> Iterator[Block]:
        for block in run():
            place = np.minimum(np.searchsorted(self.rows, block.rows), self.rows.size - 1)
            kept = np.flatnonzero(self.rows[place] == block.rows)
            if kept.size:
                yield part_of(block, kept)._replace(rows=place[kept])


def labels_of_sides(source: Source, test: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The different labels of the rows to train and to test with, as a scan of each would find them, by a pass."""
    if (labels := source.scan().labels) is None:
        return None, None
    seen = np.zeros((2, labels.size), bool)
    for block in source.blocks():
        for side in (0, 1):
            y = block.y[test[block.rows] == side]
            found = np.unique(y.indices) if source.multilabel else np.unique(y)
            seen[side, np.searchsorted(labels, found)] = True
    return labels[seen[0]], labels[seen[1]]
