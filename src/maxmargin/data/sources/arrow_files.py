"""Parquet and Arrow files. Parquet is read from row group to row group and Arrow from record batch to record batch, in blocks of
bounded size."""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from .column_kinds import arrow
from .encoding import Encoding, Place
from .one_file import FileSource
from .options import SourceOptions
from .tables import TableSource, placed, readable

BUFFER = 1 << 16  # bytes read at a time from each column of a row group


def open_file(path: Path, options: SourceOptions) -> FileSource:
    arrow()
    options.refuse(path, zero_based="its indices start at 0 always", cache="it is binary already")
    return ParquetSource(path, options) if path.suffix.lower() == ".parquet" else ArrowSource(path, options)


class ArrowFile(TableSource):
    """A file of one of the two formats."""

    def __init__(self, path: Path, options: SourceOptions):
        self.path = path
        super().__init__(str(path), [path], options)

    def _again(self, encoding: Encoding) -> "ArrowFile":
        return type(self)(self.path, replace(self.options, categorical=encoding))

    def _stored(self, columns: list[str]) -> list[str]:
        """Without those that stand in the names of folders."""
        elsewhere = dict(self.options.partitions)
        return [name for name in columns if name not in elsewhere]


class ParquetSource(ArrowFile):
    """Row groups come in any order, the blocks of one row group in the order of the file. Small row groups are read together."""

    def _schema(self):
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path) as file:
            self.metadata_rows = file.metadata.num_rows
            groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
            self.sizes = [(group.num_rows, group.total_byte_size) for group in groups]
            return file.schema_arrow

    def _grouped(self) -> tuple[int, list[list[int]]]:
        """Rows in a block, and the row groups that are read together."""
        step = self._step(self.metadata_rows, sum(size for _, size in self.sizes))
        groups: list[list[int]] = []
        rows = step
        for k, (count, _) in enumerate(self.sizes):
            if not count:
                continue
            if rows + count > step:
                groups.append([])
                rows = 0
            groups[-1].append(k)
            rows += count
        return step, groups

    def _said_rows(self) -> int:
        return self.metadata_rows

    def _cuts(self) -> Iterable[int]:
        return self.starts

    def _tables(self, first: int, stop: int | None, columns: list[str]) -> Generator[tuple[Any, Place]]:
        import pyarrow.parquet as pq

        if stop is None:
            self.starts: list[int] = []  # the first block of each run of row groups
        count, row = 0, self._first_rows[first]
        step, together = self._grouped()
        names = self._stored(columns)
        with readable(str(self)), pq.ParquetFile(self.path, buffer_size=BUFFER, pre_buffer=False) as file:
            for groups in together if stop is None else [together[self.starts.index(first)]]:
                start = count
                for batch in file.iter_batches(step, row_groups=groups, columns=names, use_threads=False):
                    if batch.num_rows:
                        rows = batch.num_rows
                        yield batch, placed(row)
                        count, row = count + 1, row + rows
                    del batch
                if stop is None and count > start:
                    self.starts.append(start)


class ArrowSource(ArrowFile):
    """Record batches come in any order, and so do the blocks of a large one; those of a compressed one come in the order of the
    file, for it has to be unpacked whole."""

    def _schema(self):
        pa = arrow()
        with pa.memory_map(str(self.path)) as file, pa.ipc.open_file(file) as reader:
            self.batches = reader.num_record_batches
            self.cuts: list[
                tuple[int, int, int, bool]
            ] = []  # of each block: record batch, first row, one beyond the last, mapped
            return reader.schema

    def _batch(self, k: int) -> tuple[Any, bool]:
        """A record batch, and whether it is a view of the file. A new map each time: pages of an old one are memory in use."""
        pa = arrow()
        with pa.memory_map(str(self.path)) as file:
            whole = file.read_buffer()
        batch = pa.ipc.open_file(whole).get_batch(k)
        buffers = [buffer for column in batch.columns for buffer in column.buffers() if buffer is not None and buffer.size]
        return batch, all(whole.address <= buffer.address < whole.address + whole.size for buffer in buffers)

    def _cut(self) -> Iterator[tuple[int, int, int, bool]]:
        self.cuts = []
        for k in range(self.batches):
            batch, mapped = self._batch(k)
            rows, step = batch.num_rows, self._step(batch.num_rows, batch.get_total_buffer_size())
            del batch
            for row in range(0, rows, step):
                self.cuts.append((k, row, min(row + step, rows), mapped))
                yield self.cuts[-1]

    def _cuts(self) -> Iterable[int]:
        return [block for block, (_, row, _, mapped) in enumerate(self.cuts) if mapped or row == 0]

    def _tables(self, first: int, stop: int | None, columns: list[str]) -> Generator[tuple[Any, Place]]:
        batch: Any = None
        row, held, names = self._first_rows[first], None, self._stored(columns)
        with readable(str(self)):
            for k, start, end, mapped in self._cut() if stop is None else self.cuts[first:stop]:
                if mapped:  # nothing here holds on to the map while its rows are used
                    yield self._batch(k)[0].select(names).slice(start, end - start), placed(row)
                else:
                    if held != k:
                        batch, held = self._batch(k)[0].select(names), k
                    yield batch.slice(start, end - start), placed(row)
                row += end - start
