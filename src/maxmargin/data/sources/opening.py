"""`open_source`: from what a user names to a source. A format is one file of this folder and one line in `FORMATS`."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from .base import FileSource, Several, Source
from .iterables import IterableSource
from .options import SourceOptions, checked_options, is_path

FORMATS = {  # suffix -> the module of this package that opens it
    ".svm": "text",
    ".svmlight": "text",
    ".libsvm": "text",
    ".parquet": "arrow_files",
    ".arrow": "arrow_files",
    ".feather": "arrow_files",
    ".npy": "numpy_files",
    ".npz": "numpy_files",
}
PACKED = (".gz", ".xz")


def open_source(
    path_or_paths,
    *,
    label=None,
    weight=None,
    features=None,
    n_features: int | None = None,
    zero_based: bool = False,
    multilabel: bool | None = None,
    n_labels: int | None = None,
    dtype=None,
    cache=None,
    block_size: float = 16.0,
    n_jobs: int | None = None,
) -> Source:
    """Open data on disk, or any re-iterable Python object, as a source: read in blocks of rows, never wholly in memory.

    Parameters
    ----------
    path_or_paths : path, list of paths, or an iterable of `(X_block, y_block[, weight_block])`
        The suffix tells the format: `.svm`, `.svmlight` or `.libsvm` (also with `.gz` or `.xz` behind it), `.parquet`, `.arrow`
        or `.feather`, `.npy`, `.npz` (as `scipy.sparse.save_npz` writes it). Several files are one source, in the order given.
        An iterable must start anew at each `iter(...)`: a generator cannot.
    label, weight
        Where labels and sample weights are. Parquet and Arrow: a column (`label` also a list of columns of zeros and ones, or
        a column of lists: multi-label). `.npy`: the number of a column, the name of a field of a structured array, or the path
        of another `.npy` file with an entry (multi-label: a row) for each row. `.npz`: such a path. Text has its labels in it;
        its `weight` is such a path. For several files a list with one path for each.
    features
        Parquet, Arrow and structured `.npy`: the columns of X by name, by default all others; columns of lists of one length
        count as so many features, and `{"indices": column, "values": column}` names two columns of lists that hold sparse
        rows. Plain `.npy`: numbers of columns.
    n_features : int, optional
        The width of X; sparse formats find it in the scan if it is not given. A feature beyond it is an error.
    zero_based : bool, default=False
        Whether the indices of text start at 0.
    multilabel : bool, optional
        Text: whether rows have lists of labels, `1,3,7 5:1`. By default they do if any row has several.
    n_labels : int, optional
        Multi-label: columns of the indicator matrix, by default the largest label + 1.
    dtype : float32 or float64, optional
        Of X. By default that of the file; float64 for text.
    cache : True or a folder, optional
        Text: keep what was parsed in a binary file, beside the text or in the folder. Later passes and later sources read that,
        after its size, time and checksum have been compared with those of the text.
    block_size : float, default=16
        Megabytes in a block, of text or of numbers. Reading needs the memory of a few blocks.
    n_jobs : int, optional
        Text: threads that parse a block, each a run of whole lines; -1 for all cores. What is read does not depend on it.

    Returns
    -------
    Source
        `n_rows`, `n_features`, `feature_names`, `dtype`, `multilabel`, `scan()`, `blocks(seed=None)` and `check_unchanged()`.
    """
    return open_given(
        path_or_paths,
        checked_options(label, weight, features, n_features, zero_based, multilabel, n_labels, dtype, cache, block_size, n_jobs),
    )


def open_given(path_or_paths, options: SourceOptions) -> Source:
    """A file, several files, or an iterable."""
    if is_path(path_or_paths):
        return open_file(Path(path_or_paths), options)
    if isinstance(path_or_paths, (list, tuple)):
        if not path_or_paths:
            raise ValueError("The list of paths is empty: there is nothing to open.")
        if all(map(is_path, path_or_paths)):
            return several(list(map(Path, path_or_paths)), options)
    return IterableSource(path_or_paths, options)


def open_file(path: Path, options: SourceOptions) -> FileSource:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes.pop() if suffixes and suffixes[-1] in PACKED else None
    if not suffixes or suffixes[-1] not in FORMATS:
        raise ValueError(f"{path}: the format is told by the suffix, one of {', '.join(FORMATS)}; this one is not known.")
    if packed and FORMATS[suffixes[-1]] != "text":
        raise ValueError(f"{path}: only text can be read packed; unpack it first.")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if not path.is_file():
        raise ValueError(f"{path} is not a file; give the files as a list.")
    return import_module(f".{FORMATS[suffixes[-1]]}", __package__).open_file(path, options)


def several(paths: list[Path], options: SourceOptions) -> Source:
    each = [dict[str, Any]() for _ in paths]
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
