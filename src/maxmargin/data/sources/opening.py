"""`open_source`: from what a user names to a source. A format is one file of this folder and one line in `FORMATS`."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from .base import Source
from .datasets import is_arrow_data, open_dataset
from .folders import files_of, is_pattern, partitions_of
from .iterables import IterableSource
from .lines import PACKED
from .one_file import FileSource
from .options import SourceOptions, checked_options, is_path
from .several import Several

FORMATS = {  # suffix -> the module of this package that opens it
    ".svm": "text",
    ".svmlight": "text",
    ".libsvm": "text",
    ".csv": "csv_files",
    ".tsv": "csv_files",
    ".parquet": "arrow_files",
    ".arrow": "arrow_files",
    ".feather": "arrow_files",
    ".npy": "numpy_files",
    ".npz": "numpy_files",
}
PACKABLE = ("text", "csv_files")  # which may be packed
WITH_COLUMNS = ("csv_files", "arrow_files")  # which have columns


def open_source(path_or_paths, *, label=None, weight=None, features=None, n_features=None, zero_based=False, multilabel=None,
    n_labels=None, dtype=None, cache=None, block_size=16.0, n_jobs=None, group=None, categorical=None, handle_unknown="error",
    delimiter=None, quote=None, header=None) -> Source:  # fmt: skip
    """Open data on disk, or any re-iterable Python object, as a source: read in blocks of rows, never wholly in memory.

    Parameters
    ----------
    path_or_paths : path, list of paths, pyarrow Dataset or Table, or an iterable of `(X_block, y_block[, weight_block])`
        The suffix tells the format: `.svm`, `.svmlight`, `.libsvm`, `.csv`, `.tsv` (each also with `.gz` or `.xz` behind it),
        `.parquet`, `.arrow`, `.feather`, `.npy`, `.npz` (arrays `X` and `y` as `numpy.savez` writes them, or a CSR matrix as
        `scipy.sparse.save_npz` does). A folder is all files in it and
        below, a pattern, `"part-*.csv"`, all that match; of folders called `key=value` the key is a column. Several files are
        one source, in the order given or of their names. An iterable must start anew at each `iter(...)`: a generator cannot.
    label, weight, group
        Where labels, sample weights and groups (`RankingSVM`) are. Tables: a column (`label` also a list of columns of zeros and
        ones, or a column of lists: multi-label). `.npy`: the number of a column, a field of a structured array, or the path of
        another `.npy` file with an entry (multi-label: a row) for each row. `.npz`: such a path or the name of an array in it,
        by default `y` and `sample_weight`. svmlight text has its labels and groups (`qid`) in it, its `weight` is such a path.
        For several files a list with one path for each.
    features
        Tables and structured `.npy`: the columns of X by name, by default all others; columns of lists of one length count as so
        many features, and `{"indices": column, "values": column}` names two columns of lists that hold sparse rows. Plain
        `.npy`: numbers of columns.
    n_features : int, optional
        The width of X; sparse formats find it in the scan if it is not given. A feature beyond it is an error, and so is one that
        the size of the file does not explain: beyond 2^24 and beyond four for each byte.
    zero_based : bool, default=False
        Whether the indices of text start at 0.
    multilabel, n_labels : bool and int, optional
        svmlight text: whether rows have lists of labels, `1,3,7 5:1`; by default they do if any row has several. Multi-label:
        columns of the indicator matrix, by default the largest label + 1.
    dtype : float32 or float64, optional
        Of X. By default that of the file; float64 for text.
    cache : True or a folder, optional
        svmlight text: keep what was parsed in a binary file, beside the text or in the folder, for later passes and sources.
    block_size : float, default=16
        Megabytes in a block, of text or of numbers. Reading needs the memory of a few blocks.
    n_jobs : int, optional
        Text: threads that parse a block, each a run of whole lines; -1 for all cores. What is read does not depend on it.
    categorical : {"onehot", "hash"}, dict or `source.encoding`, optional
        Tables: how columns of texts and categories become features. A dictionary says it by column, also of whole numbers, and
        takes a number of hashed features. One-hot categories are found by a pass of their own.
    handle_unknown : {"error", "ignore"}, default="error"
        What a model fitted to this source does with a category that this source has not.
    delimiter, quote, header
        CSV: `","` (`.tsv`: a tab), `'"'` (`""` for none), and whether the first line has the names (True), has not, or the names.
    """
    given = dict(label=label, weight=weight, group=group, features=features, n_features=n_features, zero_based=zero_based,
        multilabel=multilabel, n_labels=n_labels, dtype=dtype, cache=cache, block_size=block_size, n_jobs=n_jobs,
        categorical=categorical, handle_unknown=handle_unknown, delimiter=delimiter, quote=quote, header=header)  # fmt: skip
    return open_given(path_or_paths, checked_options(given))


def open_given(path_or_paths, options: SourceOptions) -> Source:
    """A file, several files, a folder, a pattern, what pyarrow holds, or an iterable."""
    if is_path(path_or_paths):
        path = Path(path_or_paths)
        return open_folder(path, options) if path.is_dir() or is_pattern(path) else open_file(path, options)
    if isinstance(path_or_paths, (list, tuple)):
        if not path_or_paths:
            raise ValueError("The list of paths is empty: there is nothing to open.")
        if all(map(is_path, path_or_paths)):
            return several(list(map(Path, path_or_paths)), options)
    if is_arrow_data(path_or_paths):
        return open_dataset(path_or_paths, options)
    return IterableSource(path_or_paths, options)


def format_of(path: Path) -> str:
    """The module that opens a file."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes.pop() if suffixes and suffixes[-1] in PACKED else None
    if not suffixes or suffixes[-1] not in FORMATS:
        raise ValueError(f"{path}: the format is told by the suffix, one of {', '.join(FORMATS)}; this one is not known.")
    found = FORMATS[suffixes[-1]]
    if packed and found not in PACKABLE:
        raise ValueError(f"{path}: only text can be read packed; unpack it first.")
    return found


def open_file(path: Path, options: SourceOptions) -> FileSource:
    module = format_of(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if not path.is_file():
        raise ValueError(f"{path} is not a file; open a folder by itself, not in a list.")
    if module != "csv_files":
        options.refuse(path, delimiter="it is not CSV", quote="it is not CSV", header="it is not CSV")
    if module not in WITH_COLUMNS:
        options.refuse(path, categorical="its columns are numbers", group="it has no columns with names")
    return import_module(f".{module}", __package__).open_file(path, options)


def open_folder(path: Path, options: SourceOptions) -> Source:
    """Files of one format, with the columns that stand in the names of their folders."""
    files, root = files_of(path)
    modules = [format_of(each) for each in files]
    other = next((each for each, module in zip(files, modules) if module != modules[0]), None)
    if other is not None:
        raise ValueError(f"{other} and {files[0]} are of different formats: open one by a pattern, such as '*{files[0].suffix}'.")
    partitions = partitions_of(files, root) if modules[0] in WITH_COLUMNS else [()] * len(files)
    return several(files, options, [{"partitions": found} for found in partitions])


def several(paths: list[Path], options: SourceOptions, more: list[dict[str, Any]] | None = None) -> Source:
    """`more`: options of single files."""
    each = [dict(found) for found in more] if more else [dict[str, Any]() for _ in paths]
    for name in ("label", "weight"):
        given = getattr(options, name)
        in_files = isinstance(given, (list, tuple)) and all(is_path(one) and str(one).endswith(".npy") for one in given)
        if in_files and len(given) != len(paths):
            raise ValueError(f"{name} names {len(given)} files for {len(paths)} files of X.")
        if is_path(given) and str(given).endswith(".npy") and len(paths) > 1:
            raise ValueError(f"{name} must be a list with one file for each of the {len(paths)} files of X.")
        for k, changes in enumerate(each):
            changes[name] = given[k] if in_files else given
    sources = [open_file(path, replace(options, **changes)) for path, changes in zip(paths, each)]
    return sources[0] if len(sources) == 1 else Several(sources)
