"""Files as one source."""

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import accumulate

import numpy as np

from .base import Source
from .blocks import Block, Scan, indicator, widened
from .column_names import check_same_names
from .encoding import Encoding, joined_encodings
from .one_file import FileSource
from .scan import DISTINCT


class Several(Source):
    """Files as one source, their rows numbered on from file to file."""

    def __init__(self, sources: Sequence[FileSource]):
        super().__init__()
        self.sources = self.opened = sources  # those opened stay as they were when categories are joined
        file_bytes = sum(source.file_bytes for source in sources)
        for source in sources[1:]:
            check_same_columns(source, sources[0])
        for source in sources:
            source.file_bytes = file_bytes
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
        self._settle()
        return self.sources[0].feature_names

    @property
    def encoding(self) -> Encoding | None:
        self._settle()
        return self.sources[0].encoding

    def encoded(self, encoding: Encoding) -> "Several":
        found = [source.encoded(encoding) for source in self.sources]
        same = all(one is source for one, source in zip(found, self.sources))
        return self if same else Several([source for source in found if isinstance(source, FileSource)])

    def _settle(self) -> None:
        """A category of any file is one of all, before any file is scanned."""
        found = [encoding for source in self.sources if (encoding := source.encoding) is not None]
        if any(one != found[0] for one in found):
            self.sources = self.encoded(joined_encodings(found)).sources

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

    def _identity(self) -> Sequence[FileSource]:
        return self.opened

    def _said_rows(self) -> int | None:
        counts = [source.n_rows for source in self.sources]
        return None if None in counts else sum(n for n in counts if n is not None)

    def _scan(self) -> Scan:
        self._settle()
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
            yield Block(block.rows + start, widened(block.X, self.n_features), y, block.weight, block.group)
            del block, y


def check_same_columns(source: FileSource, first: FileSource) -> None:
    """Refuse a file with other columns than the first, or with columns that are something else."""
    found, known = source.columns_of_x, first.columns_of_x
    if found is None or known is None:
        return
    check_same_names(source, list(found), f"in {first} it is", list(known))
    for name, kind in found.items():
        if kind != known[name]:
            raise ValueError(
                f"Column {name!r} of {source} is a {kind}, in {first} it is a {known[name]}; categorical={{{name!r}: 'onehot'}} "
                "makes categories of texts and of whole numbers."
            )
