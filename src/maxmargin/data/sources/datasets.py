"""Datasets of pyarrow: files in one or more folders, tables in memory, with partitions and filters of their own."""

from collections.abc import Generator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from .blocks import WIDEST
from .column_kinds import arrow
from .encoding import Encoding, Place
from .options import SourceOptions
from .tables import TableSource, placed, readable

SAMPLE_ROWS = 1000  # rows by which the size of a row is told


def is_arrow_data(given: Any) -> bool:
    """Whether pyarrow made it; asked without importing that."""
    return type(given).__module__.split(".")[0] == "pyarrow" and hasattr(given, "schema")


def open_dataset(given: Any, options: SourceOptions) -> "DatasetSource":
    import pyarrow.dataset as ds

    name = type(given).__name__
    for option in ("zero_based", "cache", "delimiter", "header", "quote"):
        if getattr(options, option) not in (None, False):
            raise ValueError(f"{option} is for files that are opened here; a pyarrow {name} has its own.")
    if not isinstance(given, (ds.Dataset, arrow().Table)):
        raise TypeError(f"open_source takes a pyarrow Dataset or Table, got {name}, which can be read only once or not at all.")
    return DatasetSource(given, options)


class DatasetSource(TableSource):
    """Fragments, and the row groups of those that are larger than a block, come in any order; their blocks in that of the file. A
    filtered dataset is read from its beginning only."""

    told_by_files = False  # filters, partitions and tables in memory are the dataset's own

    def __init__(self, given: Any, options: SourceOptions):
        self.given = given  # a table can be sent to other processes, a dataset made of it cannot
        files = getattr(given, "files", []) if self._is_local(given) else []
        self.starts: list[int] = []
        super().__init__(f"The {type(given).__name__}", [Path(file) for file in files], options)
        if not files:  # a table in memory; of files elsewhere the size is not known
            self.file_bytes = getattr(given, "nbytes", WIDEST)

    @staticmethod
    def _is_local(given: Any) -> bool:
        return type(getattr(given, "filesystem", None)).__name__ == "LocalFileSystem"

    def _again(self, encoding: Encoding) -> "DatasetSource":
        return DatasetSource(self.given, replace(self.options, categorical=encoding))

    def _dataset(self) -> Any:
        import pyarrow.dataset as ds

        return self.given if isinstance(self.given, ds.Dataset) else ds.dataset(self.given)

    def _fragments(self) -> list[Any] | None:
        """What can be read by itself; None of a filtered dataset, which pyarrow does not take apart."""
        import pyarrow.dataset as ds

        try:
            found = list(self._dataset().get_fragments())
        except ValueError:
            return None
        parts: list[Any] = []
        for one in found:
            if isinstance(one, ds.ParquetFileFragment):
                one.ensure_complete_metadata()
                large = sum(group.total_byte_size for group in one.row_groups) > self.options.block_bytes
                parts += one.split_by_row_group() if large else [one]
            else:
                parts.append(one)
        return parts

    def _schema(self) -> Any:
        dataset = self._dataset()
        self._check_fragments(dataset)
        self.sample = dataset.head(SAMPLE_ROWS)
        return dataset.schema

    def _check_fragments(self, dataset: Any) -> None:
        """Refuse files with other columns than the dataset has: pyarrow would fill them up with nulls."""
        import pyarrow.dataset as ds

        for one in self._fragments() or []:
            known = {*one.physical_schema.names, *ds.get_partition_keys(one.partition_expression)}
            missing = [name for name in dataset.schema.names if name not in known]
            if missing:
                where = getattr(one, "path", "a fragment")
                raise ValueError(f"{where} has no column {missing[0]!r}, which other files of {self} have.")

    def _rows_of_a_block(self) -> int:
        return self._step(self.sample.num_rows, self.sample.nbytes)

    def _cuts(self) -> Iterable[int]:
        return self.starts

    def _tables(self, first: int, stop: int | None, columns: list[str]) -> Generator[tuple[Any, Place]]:
        dataset = self._dataset()
        step = self._rows_of_a_block()
        options: dict[str, Any] = {"columns": columns, "batch_size": step, "use_threads": False}
        options |= {"batch_readahead": 0, "fragment_readahead": 0}  # memory of a block, not of sixteen
        fragments = self._fragments()
        if stop is None:
            self.starts = []
        count, row = first, self._first_rows[first]
        with readable(str(self)):
            for k in range(len(fragments or [None])) if stop is None else [self.starts.index(first)]:
                start = count
                one = dataset.to_batches(**options) if fragments is None else fragments[k].to_batches(dataset.schema, **options)
                for batch in one:
                    for at in range(0, batch.num_rows, step):
                        part = batch.slice(at, step)
                        rows = part.num_rows
                        yield part, placed(row)
                        del part
                        count, row = count + 1, row + rows
                    del batch
                if stop is None:
                    self.starts.append(start if count > start else -1)  # -1: a fragment without rows
