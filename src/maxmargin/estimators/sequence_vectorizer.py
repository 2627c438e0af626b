"""`SequenceVectorizer`: sentences of tokens or dicts of features as CSR matrices, for `StructuredSVM("chain")`."""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import chain, repeat
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction import FeatureHasher
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from ..data.mistakes import quoted
from ..jit import vectors
from ..structures.reading import GATHERED
from ..utils.parameters import at_least

FIELD = re.compile(r"%x\[(-?\d+),(\d+)\]")


class SequenceVectorizer(TransformerMixin, BaseEstimator):
    """Lists of sentences to lists of CSR matrices, a row for each position: what `StructuredSVM("chain")` takes.

    A position is described by a dict of features, as CRFsuite users have it, or by a list of names of features that it has.
    In a dict a text stands for an indicator "name=text", True and False and numbers for the value of "name", a list of texts for
    an indicator each, and a dict for features "name:inner". With `templates` a position is a token instead: a text, or a
    tuple of columns such as (word, part of speech).

    Parameters
    ----------
    templates : list of str or callable, optional
        What to make of tokens. A text is a template as those of CRF++: "%x[row,column]" stands for that column of the token so
        many positions away, "_B-1", "_B+1" and so on beyond the ends, so that "%x[-1,0]/%x[0,0]" is an indicator for each pair of
        words; a token that is a text has one column. A function takes a sentence and a position and returns a dict or a list as
        above. Features of different templates are told apart by the text of the template.
    n_features : int, optional
        Hash the names of features into so many columns, without a vocabulary: nothing is learned, and nothing is unknown. By
        default a vocabulary is learned in `fit`, in the order of the names.
    min_count : int, default=1
        Features that fewer positions have in `fit` are left out of the vocabulary.
    unknown : {"ignore", "error"}, default="ignore"
        What to do in `transform` with a feature that `fit` has never met: leave it out, or raise a ValueError that names it.
    dtype : dtype, default=numpy.float64
        Of the matrices: float32 or float64.

    Attributes
    ----------
    vocabulary_ : dict
        The column of each feature, without `n_features`.

    Notes
    -----
    The matrices lie in one memory, so that a model can learn from them without a copy. Where all values are 1, as those of
    indicators are, all matrices share these: `data` is then read-only, and that of `x.copy()` is not.

    Examples
    --------
    >>> import maxmargin as mm
    >>> vectorizer = mm.SequenceVectorizer()
    >>> X = vectorizer.fit_transform([[{"word": "the"}, {"word": "cat", "capital": False}], []])
    >>> [x.shape for x in X]
    [(2, 3), (0, 3)]
    >>> vectorizer.get_feature_names_out().tolist()
    ['capital', 'word=cat', 'word=the']
    >>> pairs = mm.SequenceVectorizer(["w=%x[0,0]", "%x[-1,0]/%x[0,0]"]).fit([["the", "cat"]])
    >>> pairs.get_feature_names_out().tolist()
    ['%x[-1,0]/%x[0,0]=_B-1/the', '%x[-1,0]/%x[0,0]=the/cat', 'w=cat', 'w=the']
    """

    _parameter_constraints: dict[str, Any] = {
        "templates": [list, tuple, None],
        "n_features": [at_least(1), None],
        "min_count": [at_least(1)],
        "unknown": [StrOptions({"ignore", "error"})],
    }

    def __init__(self, templates=None, *, n_features=None, min_count=1, unknown="ignore", dtype=np.float64):
        self.templates = templates
        self.n_features = n_features
        self.min_count = min_count
        self.unknown = unknown
        self.dtype = dtype

    def fit(self, X, y=None):
        """Learn the vocabulary; `y` is not read."""
        self._fit(X)
        return self

    def fit_transform(self, X, y=None):
        """As `fit` and then `transform`, reading the sentences once."""
        return self._split(*self._fit(X))

    def transform(self, X) -> list[sp.csr_array]:
        """A CSR matrix (length, features) for each sentence."""
        self._check_parameters()
        if self.n_features is not None:
            return self._split(*self._hashed(X))
        check_is_fitted(self)
        return self._split(*self._looked_up(X))

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """The names of the columns."""
        if self.n_features is not None:
            raise ValueError("Hashed features have no names; leave out n_features for a vocabulary.")
        check_is_fitted(self)
        return np.array(list(self.vocabulary_), dtype=object)

    # ---- how ----------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        self._validate_params()
        if np.dtype(self.dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64; got {self.dtype!r}.")

    def _fit(self, X) -> tuple[sp.csr_array, np.ndarray]:
        """Learn, and return all rows with the lengths of the sentences."""
        self._check_parameters()
        if self.n_features is not None:
            return self._hashed(X)  # nothing to learn; what `transform` would refuse is refused
        number = Numbering()
        lengths, rows = self._collected(X, number, grow=True)
        if not number:
            raise ValueError("There are no features: X has no positions, or positions without features.")
        names = list(number)
        number.clear()
        order = sorted(range(len(names)), key=names.__getitem__)
        rows, often = _sorted_rows(rows), np.zeros(len(names), np.int64)
        for part in _parts(rows.nnz):
            often += np.bincount(rows.indices[part], minlength=len(names))
        often = often >= self.min_count
        kept = [k for k in order if often[k]]
        if not kept:
            raise ValueError(f"There are no features: none is at {self.min_count} positions, as min_count asks.")
        self.vocabulary_ = {names[k]: j for j, k in enumerate(kept)}
        self._rare = {names[k] for k in order if not often[k]} if self.unknown == "error" else set()
        return _sorted_rows(_renumbered(rows, kept)), lengths

    def _looked_up(self, X) -> tuple[sp.csr_array, np.ndarray]:
        lengths, rows = self._collected(X, self.vocabulary_, grow=False)
        return _sorted_rows(rows), lengths

    def _collected(self, X, number: dict[str, int], grow: bool) -> tuple[np.ndarray, sp.csr_array]:
        """The lengths of sentences, and the rows of all positions. With `grow` a feature that has no number gets the next one.
        Columns are collected in the memory of the matrix to be, where lists would take as much again, and of values those that
        are not 1, with their places: mostly there are none."""
        lengths, ends, columns = array("q"), array("q", [0]), Collected()
        places, values = array("q"), array("d")
        strict = self.unknown == "error" and not grow
        for i, sentence in self._sentences(X):
            lengths.append(len(sentence))
            names = None if strict or self.templates is not None else _plain_names(sentence)
            if names is not None:  # many at a time
                numbers = map(number.__getitem__, names) if grow else map(number.get, names, repeat(-1))
                found = np.fromiter(numbers, np.int32, len(names))
                kept = _ends(found >= 0)[np.cumsum([len(position) for position in sentence], dtype=np.int64)]
                ends.extend((kept + len(columns)).tolist())
                columns.extend(found[found >= 0])
                continue
            for t, features in self._positions(i, sentence):
                for name, value in features:
                    k = number[name] if grow else number.get(name, -1)
                    if k >= 0:
                        if value != 1.0:
                            places.append(len(columns))
                            values.append(value)
                        columns.append(k)
                    elif strict and name not in self._rare:
                        raise ValueError(f"Sentence {i} has at position {t} the feature {name!r}, which fit has not met.")
                ends.append(len(columns))
        data = vectors.aligned((len(columns),), self.dtype if values else np.int8)
        data[...] = 1
        data[np.asarray(places)] = np.asarray(values)
        rows = sp.csr_array((data, columns.joined(), np.asarray(ends)), shape=(len(ends) - 1, len(number)))
        return np.array(lengths), rows

    def _hashed(self, X) -> tuple[sp.csr_array, np.ndarray]:
        lengths, found = array("q"), []
        for i, sentence in self._sentences(X):
            lengths.append(len(sentence))
            found += [list(features) for _, features in self._positions(i, sentence)]
        hasher = FeatureHasher(self.n_features, input_type="pair", dtype=self.dtype)
        rows = hasher.transform(found) if found else sp.csr_array((0, self.n_features), dtype=self.dtype)
        return _sorted_rows(sp.csr_array(rows)), np.array(lengths)

    def _sentences(self, X) -> Iterator[tuple[int, Sequence]]:
        _checked_sentences(X)
        for i, sentence in enumerate(X):
            sentence = sentence.tolist() if isinstance(sentence, np.ndarray) else sentence
            if isinstance(sentence, str | Mapping) or not isinstance(sentence, Sequence):
                raise ValueError(f"Sentence {i} must be a list of positions; got {quoted(sentence)}.")
            yield i, sentence

    def _positions(self, i: int, sentence: Sequence) -> Iterator[tuple[int, Iterable[tuple[str, float]]]]:
        """Each position, and the pairs (name, value) of its features."""
        readers = None if self.templates is None else [_reader(template) for template in self.templates]
        for t in range(len(sentence)):
            which = f"Sentence {i}, position {t},"
            if readers is None:
                yield t, _pairs_of(sentence[t], which)
            else:
                yield t, chain.from_iterable(read(sentence, t, which) for read in readers)

    def _split(self, rows: sp.csr_array, lengths: np.ndarray) -> list[sp.csr_array]:
        """The rows of each sentence, in the memory of those of all. Where all values are 1, sentences share a few of them."""
        ends, data = np.cumsum(lengths), rows.data
        begins, stops = rows.indptr[ends - lengths].tolist(), rows.indptr[ends].tolist()
        shared = bool((data == 1).all())
        if shared:
            data = np.ones(int(np.max(np.subtract(stops, begins), initial=0)), self.dtype)
            data.flags.writeable = False
        data, found = data.astype(self.dtype, copy=False), []
        empty = {length: sp.csr_array((length, rows.shape[1]), dtype=self.dtype) for length in set(lengths.tolist())}
        for last, length, begin, end in zip(ends.tolist(), lengths.tolist(), begins, stops, strict=True):
            part = copy(empty[length])  # a tenth of the time that a new one takes
            part.data = data[: end - begin] if shared else data[begin:end]
            part.indices = rows.indices[begin:end]  # SciPy would copy what it is given here
            part.indptr = rows.indptr[last - length : last + 1] - begin
            found.append(part)
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return self.n_features is not None or "vocabulary_" in vars(self)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.dict = True
        tags.requires_fit = self.n_features is None
        return tags


class Collected:
    """Numbers of columns, as many as come: in blocks, of which only the last has room to spare. Each goes back to the system when
    it is copied."""

    def __init__(self) -> None:
        self.blocks: list[np.ndarray] = []
        self.last, self.before = array("i"), 0

    def __len__(self) -> int:
        return self.before + len(self.last)

    def append(self, number: int) -> None:
        self.last.append(number)
        self._put_away()

    def extend(self, numbers: np.ndarray) -> None:
        self.last.frombytes(numbers.tobytes())
        self._put_away()

    def _put_away(self) -> None:
        if len(self.last) >= GATHERED:
            block = vectors.aligned((len(self.last),), np.int32)
            block[...] = np.asarray(self.last)
            self.blocks.append(block)
            self.before += block.size
            self.last = array("i")

    def joined(self) -> np.ndarray:
        """All of them; none are left here."""
        found, at = vectors.aligned((len(self),), np.int32), 0
        self.blocks.reverse()
        while self.blocks:
            block = self.blocks.pop()
            found[at : at + block.size] = block
            at += block.size
        found[at:] = np.asarray(self.last)
        return found


class Numbering(dict[str, int]):
    """Names with numbers: one that is looked up for the first time gets the next."""

    def __missing__(self, name: str) -> int:
        found = self[name] = len(self)
        return found


def _plain_names(sentence: Sequence) -> list[str] | None:
    """The names of all features, one position after another, where every position is a list of names; else None."""
    if not set(map(type, sentence)) <= {list}:
        return None
    names = list(chain.from_iterable(sentence))
    return names if set(map(type, names)) <= {str} else None


def _checked_sentences(X) -> None:
    if isinstance(X, str | Mapping) or not hasattr(X, "__len__") or not hasattr(X, "__iter__"):
        raise ValueError(f"X must be a list of sentences, each a list of positions; got {type(X).__name__}.")


def _ends(sizes: list[int] | np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, np.int64))])


def _renumbered(rows: sp.csr_array, kept: list[int]) -> sp.csr_array:
    """The columns `kept`, in that order."""
    place = np.full(rows.shape[1], -1, np.int32)
    place[kept] = np.arange(len(kept), dtype=np.int32)
    indptr, data, indices = rows.indptr, rows.data, rows.indices
    for part in _parts(indices.size):
        indices[part] = place[indices[part]]
    if len(kept) < rows.shape[1]:
        stays = indices >= 0
        indptr = _ends(np.add.reduceat(np.append(stays, False), rows.indptr[:-1]) * (np.diff(rows.indptr) > 0))
        data, indices = data[stays], indices[stays]
    return sp.csr_array((data, indices, indptr), shape=(rows.shape[0], len(kept)))


def _parts(size: int) -> Iterator[slice]:
    """So few entries at a time that what NumPy makes of them is small."""
    for first in range(0, size, GATHERED):
        yield slice(first, first + GATHERED)


def _sorted_rows(rows: sp.csr_array) -> sp.csr_array:
    """Each column once in a row, in order."""
    rows.sort_indices()
    if not rows.has_canonical_format:
        if rows.data.dtype == np.int8:
            rows.data = rows.data.astype(np.int32)  # room for a name that comes often
        rows.sum_duplicates()
    if rows.nnz <= np.iinfo(np.int32).max:
        rows.indices, rows.indptr = (part.astype(np.int32, copy=False) for part in (rows.indices, rows.indptr))
    return rows


# ---- features of a position ----------------------------------------------------------------------------------


def _pairs_of(position: Any, which: str) -> Iterator[tuple[str, float]]:
    """What a dict or a list of names says."""
    if isinstance(position, Mapping):
        for name, value in position.items():
            if isinstance(value, str):
                yield f"{name}={value}", 1.0
            else:
                yield from _numbers_of(str(name), value, which)
    elif isinstance(position, str):
        yield position, 1.0
    elif isinstance(position, Iterable):
        for name in position:
            if not isinstance(name, str):
                raise ValueError(f"{which} lists {name!r}, which is no name of a feature; tokens with columns need templates.")
            yield name, 1.0
    else:
        raise ValueError(f"{which} must be a dict of features or a list of their names; got {position!r}.")


def _numbers_of(name: str, value: Any, which: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, Real | np.bool_):
        number = float(value)
        if not np.isfinite(number):
            raise ValueError(f"{which} has {name!r}: {value!r}; features must be finite.")
        yield name, number
    elif isinstance(value, Mapping):
        for inner, held in _pairs_of(value, which):
            yield f"{name}:{inner}", held
    elif isinstance(value, list | tuple | set | frozenset) and all(isinstance(part, str) for part in value):
        for part in value:
            yield f"{name}={part}", 1.0
    else:
        raise ValueError(f"{which} has {name!r}: {value!r}; a feature is a text, a number, a list of texts or a dict.")


# ---- templates -----------------------------------------------------------------------------------------------


def _reader(template: Any) -> Callable[[Sequence, int, str], Iterable[tuple[str, float]]]:
    """What makes features of a position of a sentence."""
    if callable(template):
        return lambda sentence, t, which: _pairs_of(template(sentence, t), which)
    if not isinstance(template, str):
        raise ValueError(f"A template is a text with %x[row,column] or a function; got {template!r}.")
    texts, fields = FIELD.split(template)[::3], [(int(row), int(column)) for row, column in FIELD.findall(template)]
    if not fields:
        raise ValueError(f"The template {template!r} has no %x[row,column] in it, as '%x[-1,0]' for the token before.")
    named = "=" in texts[0]  # "w=%x[0,0]" says itself what its features are called

    def read(sentence: Sequence, t: int, which: str) -> list[tuple[str, float]]:
        filled = [texts[0]]
        for (row, column), text in zip(fields, texts[1:], strict=True):
            filled += [_column(sentence, t + row, column, which), text]
        found = "".join(filled)
        return [(found if named else f"{template}={found}", 1.0)]

    return read


def _column(sentence: Sequence, t: int, column: int, which: str) -> str:
    if t < 0 or t >= len(sentence):
        return f"_B{t}" if t < 0 else f"_B+{t - len(sentence) + 1}"
    token = (sentence[t],) if isinstance(sentence[t], str) else sentence[t]
    if isinstance(token, Mapping) or not isinstance(token, Sequence | np.ndarray):
        raise ValueError(f"{which} needs tokens, each a text or a tuple of columns; position {t} is {token!r}.")
    if column >= len(token):
        raise ValueError(f"{which} needs column {column} of position {t}, which has {len(token)}.")
    return str(token[column])
