"""`SequenceVectorizer`: sentences of tokens or dicts of features as CSR matrices, for `StructuredSVM("chain")`."""

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import lru_cache
from itertools import chain, repeat
from math import isfinite
from numbers import Real
from operator import sub
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction import FeatureHasher
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from ..data.mistakes import quoted
from ..structures.reading import GATHERED
from ..utils.parameters import at_least

FIELD = re.compile(r"%x\[(-?\d+),(\d+)\]")
UNKNOWN, ZERO = -1, -2  # codes that are no columns: of a feature that is not known, and ZERO - k of column k with the value 0
NUMBERS = {float, int, bool}


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
    The matrices lie in one memory, so that a model can learn from them without a copy. Zeros are not stored. Where all other
    values are 1, as those of indicators and of True are, all matrices share these: `data` is then read-only, and that of
    `x.copy()` is not.

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
        return self._split(self._fit(X))

    def transform(self, X) -> list[sp.csr_array]:
        """A CSR matrix (length, features) for each sentence."""
        if self.n_features is not None:
            self._check_parameters()
            return self._split(self._hashed(X))
        if "vocabulary_" not in vars(self):  # to ask at greater length takes longer than a short sentence
            check_is_fitted(self)
        codes: Codes | None = vars(self).get("_codes")
        if codes is None or codes.columns is not self.vocabulary_:
            codes = self._codes = Codes(self.vocabulary_)
        return self._split(_in_order(self._collected(X, codes), len(self.vocabulary_)))

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

    def _fit(self, X) -> "Entries":
        """Learn, and return the entries of all rows."""
        self._check_parameters()
        if self.n_features is not None:
            return self._hashed(X)  # nothing to learn; what `transform` would refuse is refused
        number = Numbering()
        entries = self._collected(X, Codes(number))
        if not number:
            raise ValueError("There are no features: X has no positions, or positions without features.")
        names, often, codes = list(number), np.zeros(len(number), np.int64), entries.indices
        number.clear()
        for part in _parts(codes.size):
            often += np.bincount(np.maximum(codes[part], ZERO - codes[part]), minlength=len(names))
        order = sorted(range(len(names)), key=names.__getitem__)
        kept = [k for k in order if often[k] >= self.min_count]
        if not kept:
            raise ValueError(f"There are no features: none is at {self.min_count} positions, as min_count asks.")
        self.vocabulary_ = {names[k]: j for j, k in enumerate(kept)}
        self._rare = {names[k] for k in order if often[k] < self.min_count} if self.unknown == "error" else set()
        place = np.full(len(names), UNKNOWN, np.int32)
        place[kept] = np.arange(len(kept), dtype=np.int32)
        for part in _parts(codes.size):
            codes[part] = np.where(codes[part] < 0, UNKNOWN, place[np.maximum(codes[part], 0)])
        return _in_order(entries, len(kept))

    def _collected(self, X, coded: "Codes") -> "Entries":
        """The entries of all rows, with codes for columns."""
        strict, careful = self.unknown == "error" and not isinstance(coded.columns, Numbering), False
        lengths, sizes, codes, places, values = array("q"), array("q"), array("i"), array("q"), array("d")
        for i, sentence in self._sentences(X):
            lengths.append(len(sentence))
            positions = self._described(i, sentence)
            names = _plain_names(positions)
            if names is not None:
                found, counts = coded.of_names(names), list(map(len, positions))
            else:
                try:
                    pairs, counts = _pairs(i, positions, careful)
                    found, valued = coded.of_pairs(pairs)
                except TypeError:  # a value is no text and no number
                    pairs, counts = _pairs(i, positions, careful := True)
                    found, valued = coded.of_pairs(pairs)
                places.extend([len(codes) + at for at in valued])
                values.extend(valued.values())
            if strict and UNKNOWN in found:
                names = names or [_name(*pair) for pair in pairs]
                at = next((at for at, code in enumerate(found) if code == UNKNOWN and names[at] not in self._rare), None)
                if at is not None:
                    t = np.searchsorted(np.cumsum(counts), at, side="right")
                    raise ValueError(f"Sentence {i} has at position {t} the feature {names[at]!r}, which fit has not met.")
            codes.fromlist(found)
            sizes.extend(counts)
        data = np.ones(len(codes), self.dtype) if places else None
        if data is not None:
            data[np.asarray(places)] = np.asarray(values)
        return Entries(np.asarray(lengths), _ends(np.asarray(sizes)), np.asarray(codes), data, len(coded.columns))

    def _described(self, i: int, sentence: Sequence) -> Sequence:
        """What there is to know of each position: the sentence itself, or what templates make of it."""
        if self.templates is None:
            return sentence
        texts = [template for template in self.templates if not callable(template)]
        found = [list(zip(*_filled(i, sentence, texts), strict=True))] if texts else []
        found += [[template(sentence, t) for t in range(len(sentence))] for template in self.templates if callable(template)]
        return found[0] if len(found) == 1 else list(map(Several, zip(*found, strict=True)))

    def _hashed(self, X) -> "Entries":
        lengths, found = array("q"), []
        for i, sentence in self._sentences(X):
            lengths.append(len(sentence))
            found += [list(_pairs_of(position, i, t)) for t, position in enumerate(self._described(i, sentence))]
        hasher = FeatureHasher(self.n_features, input_type="pair", dtype=self.dtype)
        rows = hasher.transform(found) if found else sp.csr_array((0, self.n_features), dtype=self.dtype)
        return Entries(np.asarray(lengths), rows.indptr, rows.indices, rows.data, self.n_features)

    def _sentences(self, X) -> Iterator[tuple[int, Sequence]]:
        if isinstance(X, str | Mapping) or not hasattr(X, "__len__") or not hasattr(X, "__iter__"):
            raise ValueError(f"X must be a list of sentences, each a list of positions; got {type(X).__name__}.")
        for i, sentence in enumerate(X):
            sentence = sentence.tolist() if isinstance(sentence, np.ndarray) else sentence
            if isinstance(sentence, str | Mapping) or not isinstance(sentence, Sequence):
                raise ValueError(f"Sentence {i} must be a list of positions; got {quoted(sentence)}.")
            yield i, sentence

    def _split(self, entries: "Entries") -> list[sp.csr_array]:
        """The rows of each sentence, in the memory of those of all. Where all values are 1, sentences share a few of them."""
        lengths, indptr, indices, data, width = entries
        stops = np.cumsum(lengths).tolist()
        ends = indptr[[0, *stops]].tolist()
        if shared := data is None or bool((data == 1).all()):
            data = np.ones(max(map(sub, ends[1:], ends), default=0), self.dtype)
            data.flags.writeable = False
        found, first, begin = [], 0, 0
        for last, end in zip(stops, ends[1:], strict=True):
            part = copy(_blank(last - first, width, np.dtype(self.dtype)))  # a tenth of the time that a new one takes
            part.data = data[: end - begin] if shared else data[begin:end]
            part.indices = indices[begin:end]  # SciPy would copy what it is given here
            part.indptr = (indptr[first : last + 1] - begin).astype(np.int32)
            found.append(part)
            first, begin = last, end
        return found

    def __getstate__(self):
        return {name: value for name, value in super().__getstate__().items() if name != "_codes"}

    def __sklearn_is_fitted__(self) -> bool:
        return self.n_features is not None or "vocabulary_" in vars(self)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.dict = True
        tags.requires_fit = self.n_features is None
        return tags


class Entries(NamedTuple):
    """The rows of all positions, as those of a CSR matrix; no data where all of them are 1."""

    lengths: np.ndarray  # of the sentences
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray | None
    width: int


class Numbering(dict[str, int]):
    """Names with numbers: one that is looked up for the first time gets the next."""

    def __missing__(self, name: str) -> int:
        found = self[name] = len(self)
        return found


class Codes(dict[Any, dict[Any, int]]):
    """What stands for a feature: its column, UNKNOWN, or ZERO - its column. Those of known pairs (name, value) are kept as
    codes[name][value], so that most pairs need no text "name=value"."""

    def __init__(self, columns: dict[str, int]):
        super().__init__()
        self.columns = columns  # a `Numbering` has one for every feature

    def __missing__(self, name: Any) -> dict[Any, int]:
        return {}

    def of_names(self, names: list[str]) -> list[int]:
        if isinstance(self.columns, Numbering):
            return list(map(self.columns.__getitem__, names))
        return list(map(self.columns.get, names, repeat(UNKNOWN)))

    def of_pairs(self, pairs: list[tuple[Any, Any]]) -> tuple[list[int], dict[int, float]]:
        """And by place the values that are neither 0 nor 1. A TypeError where a value is no text and no number."""
        found: list[Any] = [self[name].get(value) for name, value in pairs]
        valued: dict[int, float] = {}
        columns, grow = self.columns, isinstance(self.columns, Numbering)
        for at in [at for at, code in enumerate(found) if code is None] if None in found else ():
            name, value = pairs[at]
            if not isinstance(value, str):
                if not (type(value) in NUMBERS or isinstance(value, Real | np.bool_)) or not isfinite(value):
                    raise TypeError
                value = float(value)
            feature = _name(name, value)
            code = columns[feature] if grow else columns.get(feature, UNKNOWN)
            found[at] = code
            if code == UNKNOWN:
                continue
            if value == 0.0:
                code = found[at] = ZERO - code
            if isinstance(value, float) and value not in (0.0, 1.0):
                valued[at] = value
            elif type(name) is str:  # texts, 0 and 1: there are about as many of them as features
                self.setdefault(name, {})[value] = code
        return found, valued


class Several(tuple):
    """What several templates say of one position, each a dict or a list of names."""


def _plain_names(positions: Sequence) -> list[str] | None:
    """The names of all features, one position after another, where every position is a list of names; else None."""
    if not set(map(type, positions)) <= {list, tuple}:
        return None
    names = list(chain.from_iterable(positions))
    return names if set(map(type, names)) <= {str} else None


def _pairs(i: int, positions: Sequence, careful: bool) -> tuple[list[tuple[str, Any]], list[int]]:
    """The features of all positions as pairs (name, value), and how many each position has. `careful`: a value may be neither a
    text nor a number."""
    if not careful and set(map(type, positions)) <= {dict}:
        return list(chain.from_iterable(map(dict.items, positions))), list(map(len, positions))
    pairs: list[tuple[str, Any]] = []
    ends = []
    for t, position in enumerate(positions):
        for part in position if type(position) is Several else (position,):
            pairs += part.items() if type(part) is dict and not careful else _pairs_of(part, i, t)
        ends.append(len(pairs))
    return pairs, list(map(sub, ends, chain([0], ends)))


def _name(name: Any, value: Any) -> str:
    return f"{name}={value}" if isinstance(value, str) else str(name)


def _ends(sizes: np.ndarray) -> np.ndarray:
    found = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=found[1:])
    return found


def _parts(size: int) -> Iterator[slice]:
    """So few entries at a time that what NumPy makes of them is small."""
    for first in range(0, size, GATHERED):
        yield slice(first, first + GATHERED)


@lru_cache(maxsize=1024)
def _blank(length: int, width: int, dtype: np.dtype) -> sp.csr_array:
    return sp.csr_array((length, width), dtype=dtype)


def _in_order(entries: Entries, width: int) -> Entries:
    """The entries whose codes are columns, each column once in a row, in order."""
    lengths, indptr, indices, data, _ = entries
    if indices.min(initial=0) < 0:
        stays = indices >= 0
        indptr, indices, data = _ends(stays)[indptr], indices[stays], None if data is None else data[stays]
    first, repeated, rows = 0, False, indptr.size - 1
    while first < rows:
        last = rows  # one sentence is not worth a search
        if indices.size > GATHERED:
            last = max(int(np.searchsorted(indptr, indptr[first] + GATHERED, side="right")) - 1, first + 1)
        here = slice(int(indptr[first]), int(indptr[last]))
        base = np.repeat(np.arange(last - first) * width, indptr[first + 1 : last + 1] - indptr[first:last])
        keys = base + indices[here]
        if data is None:
            keys.sort()
        else:
            order = np.argsort(keys)
            keys, data[here] = keys[order], data[here][order]
        repeated = repeated or bool((keys[1:] == keys[:-1]).any())
        indices[here] = keys - base
        first = last
    if repeated:
        merged = sp.csr_array((np.ones(indices.size) if data is None else data, indices, indptr), shape=(rows, width))
        merged.sum_duplicates()
        indptr, indices, data = merged.indptr, merged.indices, merged.data
    return Entries(lengths, indptr, indices, data, width)


# ---- features of a position ----------------------------------------------------------------------------------


def _pairs_of(position: Any, i: int, t: int) -> Iterator[tuple[str, Any]]:
    """What a dict or a list of names says: names with a text or a number each."""
    if isinstance(position, Mapping):
        for name, value in position.items():
            if isinstance(value, str):
                yield name, value
            else:
                yield from _numbers_of(str(name), value, i, t)
    elif isinstance(position, str):
        yield position, 1.0
    elif isinstance(position, Several):
        for part in position:
            yield from _pairs_of(part, i, t)
    elif isinstance(position, Iterable):
        for name in position:
            if not isinstance(name, str):
                way = "tokens with columns need templates"
                raise ValueError(f"Sentence {i}, position {t}, lists {name!r}, which is no name of a feature; {way}.")
            yield name, 1.0
    else:
        raise ValueError(f"Sentence {i}, position {t}, must be a dict of features or a list of their names; got {position!r}.")


def _numbers_of(name: str, value: Any, i: int, t: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Real | np.bool_):
        number = float(value)
        if not isfinite(number):
            raise ValueError(f"Sentence {i}, position {t}, has {name!r}: {value!r}; features must be finite.")
        yield name, number
    elif isinstance(value, Mapping):
        for inner, held in _pairs_of(value, i, t):
            yield f"{name}:{inner}", held
    elif isinstance(value, list | tuple | set | frozenset) and all(isinstance(part, str) for part in value):
        for part in value:
            yield name, part
    else:
        raise ValueError(
            f"Sentence {i}, position {t}, has {name!r}: {value!r}; a feature is a text, a number, a list of texts or a dict."
        )


# ---- templates -----------------------------------------------------------------------------------------------


def _filled(i: int, sentence: Sequence, templates: list) -> Iterator[list[str]]:
    """For each template the features that it makes of the positions."""
    for template in templates:
        if not isinstance(template, str):
            raise ValueError(f"A template is a text with %x[row,column] or a function; got {template!r}.")
    parsed = [_parsed(template) for template in templates]
    tokens = [(token,) if isinstance(token, str) else token for token in sentence]
    size, least = len(sentence), 1 + max(column for _, fields in parsed for _, column in fields)
    for t, token in enumerate(tokens):
        if isinstance(token, Mapping) or not isinstance(token, Sequence | np.ndarray):
            raise ValueError(f"Sentence {i} needs tokens, each a text or a tuple of columns; position {t} is {token!r}.")
        if len(token) < least:
            raise ValueError(f"Sentence {i} needs column {least - 1} of position {t}, which has {len(token)}.")
    columns: dict[tuple[int, int], list[str]] = {}
    for texts, fields in parsed:
        for row, column in fields:
            if (row, column) not in columns:
                held = [str(token[column]) for token in tokens[max(row, 0) : max(size + row, 0)]]
                before = [f"_B{t}" for t in range(row, min(row + size, 0))]
                after = [f"_B+{t + 1}" for t in range(max(row - size, 0), row)]
                columns[row, column] = before + held + after
        parts = [part for text, field in zip(texts[1:], fields, strict=True) for part in (columns[field], repeat(text))]
        yield list(map("".join, zip(repeat(texts[0]), *parts, strict=False)))


@lru_cache(maxsize=1024)
def _parsed(template: str) -> tuple[list[str], list[tuple[int, int]]]:
    """The texts around the fields of a template, in the names of its features, and its fields as (row, column)."""
    fields = [(int(row), int(column)) for row, column in FIELD.findall(template)]
    if not fields:
        raise ValueError(f"The template {template!r} has no %x[row,column] in it, as '%x[-1,0]' for the token before.")
    texts = FIELD.split(template)[::3]
    if "=" not in texts[0]:  # "w=%x[0,0]" says itself what its features are called
        texts[0] = f"{template}={texts[0]}"
    return texts, fields
