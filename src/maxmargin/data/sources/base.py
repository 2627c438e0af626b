"""Data that are read in blocks of rows and never lie wholly in memory: text, Parquet and Arrow, NumPy files, Python iterables.

A *source* is read in passes. The first one, `scan`, finds out what the format does not say (rows, features, labels), checks
everything once and keeps a checksum of every block, 12 bytes or so; later passes compare what they read with it, so that a
file that changes while it is in use is an error and never a wrong answer. A format is one file beside this one: it derives
`FileSource`, tells where reading can begin (`_cuts`) and yields what it reads (`_raw_blocks`).
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import accumulate, pairwise
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ...utils.threads import read_ahead
from ..matrices import checked_matrix
from .blocks import (
    Block,
    LabelLists,
    RawBlock,
    Scan,
    SourceChangedError,
    checksum,
    indicator,
    no_array,
    shuffled,
    widened,
)
from .options import SourceOptions
from .scan import DISTINCT, Scanner

__all__ = ["Block", "FileSource", "Mapped", "Scan", "Several", "Source", "SourceChangedError", "learned"]

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
        a pass over this source. `transformer` of what is returned is the one in use: predictions for arrays need it as well.
        """
        return Mapped(self, learned(transformer, self))

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise SourceChangedError if a file has changed since it was opened."""

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


# ---- one file ------------------------------------------------------------------------------------------------


class FileSource(Source):
    """A source that is one file, or one Python object: what formats derive.

    `files` are watched for changes. `side_files` holds arrays in files of their own, with an entry for each row: "y", "weight".
    """

    def __init__(self, name: str, files: Sequence[Path], options: SourceOptions, side_files: dict[str, Any] | None = None):
        super().__init__()
        self.name, self.options, self._side_files = name, options, side_files or {}
        watched = [*files, *(array.path for array in self._side_files.values())]
        self._stamps = [(path, stamp(path)) for path in watched]
        self._first_rows = [0]  # of each block and one beyond
        self._sums: list[int] = []
        self._tally = Scanner(self.name, options, self._place)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def n_features(self) -> int:
        return self.options.n_features or self.scan().n_features

    @property
    def multilabel(self) -> bool:
        self.scan()
        return self._tally.multilabel

    @property
    def label_range(self) -> tuple[float, float] | None:
        self.scan()
        return self._tally.range

    @property
    def n_labels(self) -> int | None:
        self.scan()
        return self._tally.n_labels if self._tally.multilabel else None

    def check_unchanged(self) -> None:
        for path, before in self._stamps:
            if stamp(path) != before:
                raise SourceChangedError(
                    f"{path} has changed since it was opened (its size or its time is another); open the source again."
                )

    @abstractmethod
    def _raw_blocks(self, first: int, stop: int | None) -> Generator[RawBlock]:
        """Blocks first ... stop - 1 of the file; in the scan all, (0, None). The cuts are the same every time."""

    def _cuts(self) -> Iterable[int]:
        """After the scan: the numbers of the blocks at which reading can begin, 0 among them."""
        return range(len(self._sums))

    def _place(self, block: int, row: int) -> str:
        """Where a row of a block stands, for messages."""
        return f"row {self._first_rows[block] + row}"

    def _scan(self) -> Scan:
        self._first_rows, self._sums, self._tally = [0], [], Scanner(self.name, self.options, self._place)
        with closing(read_ahead(self._raw_blocks(0, None))) as raw_blocks:
            for raw in raw_blocks:
                raw = self._with_side_files(raw)
                self._tally.add(len(self._sums), raw)
                self._first_rows.append(self._first_rows[-1] + raw.X.shape[0])
                self._sums.append(checksum(raw))
                del raw
        for array in self._side_files.values():
            array.check_length(self._first_rows[-1])
        return self._tally.finish(self._first_rows[-1])

    def _runs(self) -> list[Callable[[], Iterator[Block]]]:
        return [partial(self._run, first, stop) for first, stop in pairwise([*self._cuts(), len(self._sums)])]

    def _run(self, first: int, stop: int) -> Generator[Block]:
        k = first
        try:
            for raw in self._raw_blocks(first, stop):
                if k == stop:
                    raise self._differs(k)
                raw = self._with_side_files(raw, k)
                if not self._same(k, raw):
                    raise self._differs(k)
                yield self._block(k, raw)
                k += 1
                del raw
        except SourceChangedError:
            raise
        except OSError:
            self.check_unchanged()  # the likely reason, if it holds
            raise
        except ValueError as error:  # what the scan has read without one
            self.check_unchanged()
            raise SourceChangedError(f"{self} was fine in its first pass and is not now: {error}") from error
        if k < stop:
            raise self._differs(k)

    def _same(self, k: int, raw: RawBlock) -> bool:
        """Whether block k is what it was in the scan."""
        return checksum(raw) == self._sums[k]

    def _differs(self, k: int) -> SourceChangedError:
        return SourceChangedError(
            f"{self} gives other data than in its first pass, from row {self._first_rows[k]} on; open the source again."
        )

    def _with_side_files(self, raw: RawBlock, block: int | None = None) -> RawBlock:
        """A raw with the labels and weights that lie in files of their own."""
        if not self._side_files:
            return raw
        first = self._first_rows[-1 if block is None else block]
        last = first + raw.X.shape[0]
        return raw._replace(**{field: array.part(first, last) for field, array in self._side_files.items()})

    def _block(self, k: int, raw: RawBlock) -> Block:
        y = raw.y
        if self._tally.multilabel:
            y = indicator(y, self._tally.n_labels)
        elif isinstance(y, LabelLists):
            y = y.values
        rows = np.arange(self._first_rows[k], self._first_rows[k + 1])
        return Block(rows, widened(raw.X, self.n_features), y, raw.weight)


def stamp(path: Path) -> tuple[int, int]:
    """The size and the time of a file."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise SourceChangedError(f"{path} cannot be opened any more: {error.strerror}.") from None
    return found.st_size, found.st_mtime_ns


def check_same_names(source, found: list[str], where: str, known: list[str]) -> None:
    """Refuse columns that are not those that are known already, in their order."""
    if found == known:
        return
    k = next((k for k, (one, other) in enumerate(zip(found, known)) if one != other), min(len(found), len(known)))
    one, other = (repr(names[k]) if k < len(names) else "none" for names in (found, known))
    raise ValueError(
        f"Column {k} of {source} is {one}; {where} {other}. Bring the columns into one order, that of a file with features=[...]."
    )


# ---- several files -------------------------------------------------------------------------------------------


class Several(Source):
    """Files as one source, their rows numbered on from file to file."""

    def __init__(self, sources: Sequence[FileSource]):
        super().__init__()
        self.sources = sources
        if len({source.dtype for source in sources}) > 1:
            raise ValueError("The files have different dtypes; give dtype=numpy.float32 or numpy.float64 for all of them.")

    def __str__(self) -> str:
        return f"{self.sources[0]} and {len(self.sources) - 1} more"

    def __repr__(self) -> str:
        return f"<Several {self}>"

    @property
    def dtype(self) -> np.dtype:
        return self.sources[0].dtype

    @property
    def feature_names(self) -> list[str] | None:
        return self.sources[0].feature_names

    @property
    def multilabel(self) -> bool:
        return any(source.multilabel for source in self.sources)

    @property
    def label_range(self) -> tuple[float, float] | None:
        ranges = [source.label_range for source in self.sources if source.label_range is not None]
        return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None

    @property
    def n_labels(self) -> int | None:
        return max(source._tally.n_labels for source in self.sources) if self.multilabel else None

    def check_unchanged(self) -> None:
        for source in self.sources:
            source.check_unchanged()

    def _said_rows(self) -> int | None:
        counts = [source.n_rows for source in self.sources]
        return None if None in counts else sum(n for n in counts if n is not None)

    def _scan(self) -> Scan:
        found = [source.scan() for source in self.sources]
        first, kind = self.sources[0], self.sources[0]._tally.kind
        for source, one in zip(self.sources, found):
            if source._tally.sparse != first._tally.sparse:
                raise ValueError(f"{source} and {first} cannot be one source: one is sparse and the other is dense.")
            if not first._tally.sparse and one.n_features != found[0].n_features:
                raise ValueError(f"{source} has {one.n_features} features, {first} has {found[0].n_features}.")
            if source.feature_names is not None and first.feature_names is not None:
                check_same_names(source, source.feature_names, f"in {first} it is", first.feature_names)
            if source._tally.kind != kind:
                raise ValueError(f"{source} and {first} cannot be one source: their labels are of different kinds.")
            if self.multilabel and not source.multilabel and source._tally.unfit is not None:
                raise ValueError(f"{source} has labels that are not whole numbers, but other files are multi-label.")
        labels: np.ndarray | None = None
        known = [one.labels for one in found if one.labels is not None]
        if known and not any(source._tally.many for source in self.sources):
            labels = np.unique(np.concatenate(known))
            labels = labels if labels.size <= DISTINCT else None
        return Scan(sum(one.n_rows for one in found), max(one.n_features for one in found), labels)

    def _runs(self) -> list[Callable[[], Iterator[Block]]]:
        counts = [source.scan().n_rows for source in self.sources]
        starts = accumulate(counts, initial=0)
        return [partial(self._moved, run, start) for source, start in zip(self.sources, starts) for run in source._runs()]

    def _moved(self, run: Callable[[], Iterator[Block]], start: int) -> Generator[Block]:
        for block in run():
            y = block.y
            if self.multilabel:
                y = indicator(y, self.n_labels or 0)
            yield Block(block.rows + start, widened(block.X, self.n_features), y, block.weight)
            del block, y


# ---- made of another source ----------------------------------------------------------------------------------


class Derived(Source):
    """A source made of another: what is not said otherwise is that one's."""

    def __init__(self, source: Any):
        super().__init__()
        self.source = source

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

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
    """The transformer as it is where it needs no fit or has one; else a copy, fitted by `partial_fit` along a pass."""
    if not hasattr(transformer, "transform"):
        raise TypeError(f"A source needs a transformer, not {transformer!r}: wrap a function in a FunctionTransformer.")
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
