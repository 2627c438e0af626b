"""Columns of a table as features: numbers as they are, categories one-hot or hashed.

A category is its text: the number 7 of a Parquet file and the "7" of a CSV file are the same one. One-hot categories are sorted,
as scikit-learn's OneHotEncoder has them. A hashed column needs no pass to find its categories and takes any that come later:
MurmurHash3 of the text, modulo the number of features, the same on every machine.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import murmurhash3_32

MOST_CATEGORIES = 1 << 20  # of a one-hot column: with more of them a column is an identifier, not a feature
HASHED_WIDTH = 1 << 14  # features of a hashed column where no number is given

Column = Any  # an array of Arrow's
Place = Callable[[int], str]  # where a row of a block stands, for messages


class ColumnCode(NamedTuple):
    """How a column becomes features: `kind` is "number", "list" (of numbers), "onehot" or "hash", `width` the number of features,
    `categories` the sorted texts of "onehot"."""

    name: str
    kind: str
    width: int
    categories: tuple[str, ...] = ()

    @property
    def feature_names(self) -> list[str]:
        if self.kind == "number":
            return [self.name]
        if self.kind == "onehot":
            return [f"{self.name}_{category}" for category in self.categories]
        return [f"{self.name}[{j}]" if self.kind == "list" else f"{self.name}#{j}" for j in range(self.width)]

    def entries(self, column: Column, ignore_unknown: bool, place: Place) -> tuple[np.ndarray, np.ndarray]:
        """Of each row, which features of the column are not zero, and their values: two matrices."""
        rows = len(column)
        if self.kind in ("number", "list"):
            values = (column.flatten() if self.kind == "list" else column).to_numpy(zero_copy_only=False)
            return np.tile(np.arange(self.width), (rows, 1)), values.reshape(rows, self.width)
        codes, texts = coded_texts(column)
        if self.kind == "hash":
            at = np.array([murmurhash3_32(text.encode(), positive=True) % self.width for text in texts], np.int64)
        else:
            at = np.array([self._number(text) for text in texts], np.int64)
            if not ignore_unknown and (at < 0).any():
                row = int(np.argmax(at[codes] < 0))
                raise ValueError(
                    f"{place(row)}: column {self.name!r} holds {texts[codes[row]]!r}, which is none of its {self.width} known "
                    "categories; handle_unknown='ignore', where the training data are opened, leaves such ones out."
                )
        found = at[codes] if rows else np.empty(0, np.int64)
        return np.maximum(found, 0)[:, None], (found >= 0)[:, None]

    def _number(self, text: str) -> int:
        k = bisect_left(self.categories, text)
        return k if k < len(self.categories) and self.categories[k] == text else -1


class Encoding(NamedTuple):
    """How the columns of a table became features; `handle_unknown` is what to do with categories first seen later: "error" or
    "ignore" (no feature of the column is set)."""

    columns: tuple[ColumnCode, ...]
    handle_unknown: str = "error"

    @property
    def names(self) -> list[str]:
        """Of the columns of the table."""
        return [column.name for column in self.columns]

    @property
    def feature_names(self) -> list[str]:
        """Of the features: `column_category` as scikit-learn's OneHotEncoder has it, `column#number` of hashed ones."""
        return [name for column in self.columns for name in column.feature_names]

    @property
    def n_features(self) -> int:
        return sum(column.width for column in self.columns)

    def matrix(self, columns: Mapping[str, Column], rows: int, dtype: np.dtype, place: Place) -> sp.csr_matrix:
        """The rows of some columns without nulls."""
        indices, values, first = [], [], 0
        for code in self.columns:
            at, value = code.entries(columns[code.name], self.handle_unknown == "ignore", place)
            indices.append(at + first)
            values.append(value.astype(dtype))
            first += code.width
        all_indices, all_values = np.concatenate(indices, axis=1).astype(np.int32), np.concatenate(values, axis=1)
        kept = all_values != 0
        indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(np.int32)
        X = sp.csr_matrix((all_values[kept], all_indices[kept], indptr), shape=(rows, first))
        X.has_sorted_indices = X.has_canonical_format = True
        return X


def coded_texts(column: Column) -> tuple[np.ndarray, list[str]]:
    """The number of the text of each row, and the texts; without nulls."""
    found = column.cast("string").dictionary_encode()
    return found.indices.to_numpy(zero_copy_only=False), found.dictionary.to_pylist()


class Categories:
    """Collects the categories of columns, block by block."""

    def __init__(self, source: str, names: Iterable[str]):
        self.source = source
        self.found: dict[str, set[str]] = {name: set() for name in names}

    def add(self, name: str, column: Column) -> None:
        known = self.found[name]
        known.update(coded_texts(column)[1])
        if len(known) > MOST_CATEGORIES:
            raise ValueError(
                f"{self.source}: column {name!r} has more than {MOST_CATEGORIES} categories; hash it, "
                f"categorical={{{name!r}: 'hash'}}, or leave it out with features=[...]."
            )

    def code(self, name: str) -> ColumnCode:
        categories = tuple(sorted(self.found[name]))
        return ColumnCode(name, "onehot", len(categories), categories)


def joined_encodings(encodings: list[Encoding]) -> Encoding:
    """The encoding of files together: a category of any file is one of all."""
    columns = []
    for codes in zip(*(encoding.columns for encoding in encodings)):
        if codes[0].kind == "onehot":
            categories = tuple(sorted(set().union(*(code.categories for code in codes))))
            columns.append(codes[0]._replace(categories=categories, width=len(categories)))
        else:
            columns.append(codes[0])
    return encodings[0]._replace(columns=tuple(columns))
