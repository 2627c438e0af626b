"""Lines cut into labelled segments of known widths, as number plates into characters (a semi-Markov model)."""

from collections.abc import Iterator, Mapping
from numbers import Integral

import numpy as np
import scipy.sparse as sp

from ..data.mistakes import quoted, shown
from ..data.rows import SPARSE_BELOW, rows
from ..jit import vectors
from .compiled import Compiled
from .encoded.segment_marginals import Segments  # with its marginals
from .encoded.statistics import starts
from .reading import check_finite, check_lists, checked_cost, is_count, label_array, numeric, stacked_nodes


class Segmentation(Compiled):
    """A line cut into labelled segments, one after another without gaps: Uřičář and Franc (2012) read number plates so.

    A sample x is an array or CSR matrix (length, features), a row for each position of the line (the columns of an image, say);
    y is the list of its segments from left to right, each a pair (label, width), whose widths add up to the length.

    Each label has a template: a vector of features for each of its columns. A segment scores the sum over its positions of
    <features, template column>; where a label has several widths, the template is stretched, position j of a segment of width
    u meeting column floor(j * columns / u). Weights: the templates, a bias for each label and width, and, with
    `transitions`, one for each pair of labels that follow each other.

    Parameters
    ----------
    widths : dict or sequence
        For each label how wide its segments are: an integer, or a pair (least, most), or a range. Keys of a dictionary are the
        labels; of a sequence they are 0, 1, ...
    columns : int, sequence or dict, optional
        How many columns a template has: by default as many as the widest segment of its label. With 1 all positions of a segment
        share one vector.
    transitions : bool, default=False
        Whether neighbouring labels have weights; the paper's plates do without.
    bias : bool, default=True
        Whether labels and widths have biases; the paper's plates do without.
    cost : array of shape (K, K) or dict of dicts, optional
        cost[a, b]: what it costs to say b at a position where a is true, in the order of the labels; or by name, cost[a][b]. 1
        for every wrong one by default, so that the loss is the number of positions with a wrong label, and for every pair that a
        dict leaves out.
    normalize_loss : bool, default=False
        Divide the loss by the length of the line.
    """

    _parameter_constraints = {
        "widths": [Mapping, "array-like"],
        "transitions": ["boolean"],
        "bias": ["boolean"],
        "normalize_loss": ["boolean"],
    }

    dtype_: np.dtype | None = None

    def __init__(self, widths, *, columns=None, transitions=False, bias=True, cost=None, normalize_loss=False):
        self.widths = widths
        self.columns = columns
        self.transitions = transitions
        self.bias = bias
        self.cost = cost
        self.normalize_loss = normalize_loss

    # ---- what is learned before the weights ---------------------------------------------------------------

    def size(self, X, y) -> int:
        self._validate_params()
        check_lists(X, y)
        if y is None:
            raise ValueError("y is needed: the true segments of each sample.")
        self._read_widths()
        self.cost_ = checked_cost(self.cost, self.labels_)
        self.__dict__.pop("n_features_", None)
        self.n_features_ = self._line(X[0], 0).shape[1]
        for i, x in enumerate(X):
            self._line(x, i)
        return self._count()

    def _count(self) -> int:
        K = len(self.labels_)
        count = self.n_columns_ * self.n_features_
        return count + int(bool(self.bias)) * len(self.pieces_) + int(bool(self.transitions)) * K * K

    def _read_widths(self) -> None:
        given = self.widths
        named = dict(given) if isinstance(given, Mapping) else dict(enumerate(given))
        if len(named) < 2:
            raise ValueError(f"widths must name at least two labels; got {len(named)}.")
        self.labels_ = label_array(list(named))
        self._index = {label: k for k, label in enumerate(named)}
        allowed = [_allowed(width, label) for label, width in named.items()]
        counts = self._template_columns(named, [max(widths) for widths in allowed])
        self.n_columns_, first = sum(counts), starts(counts)
        self._owner = np.repeat(np.arange(len(named)), counts)
        self.pieces_ = [(label, width) for label, widths in zip(named, allowed) for width in widths]
        self._number = {piece: q for q, piece in enumerate(self.pieces_)}
        self._known_composable = np.ones(1, np.uint8)
        self._columns = [first[k] + np.arange(width) * counts[k] // width for k, widths in enumerate(allowed) for width in widths]
        self._first = starts([len(widths) for widths in allowed])

    def _template_columns(self, named: dict, widest: list[int]) -> list[int]:
        given = self.columns
        if given is None:
            return widest
        if isinstance(given, Mapping):
            missing = next((label for label in named if label not in given), None)
            if missing is not None:
                raise ValueError(f"columns names no number for the label {quoted(missing)}.")
            given = [given[label] for label in named]
        counts = [given] * len(named) if isinstance(given, Integral) and not isinstance(given, bool) else given
        if not hasattr(counts, "__len__") or len(counts) != len(named):
            raise ValueError(f"columns must be an integer, or one for each of the {len(named)} labels; got {self.columns!r}.")
        for label, count in zip(named, counts):
            if not is_count(count):
                raise ValueError(f"columns must be integers of at least 1; the label {label!r} has {count!r}.")
        return [int(count) for count in counts]

    # ---- reading samples ----------------------------------------------------------------------------------

    def check(self, X, y) -> None:
        check_lists(X, y)

    def _line(self, x, i: int):
        """The checked features of a sample."""
        line = numeric(x, f"Sample {i} of X", sequence=True)
        if line.ndim != 2:
            raise ValueError(f"Sample {i} of X must have two dimensions, positions and features; got {line.ndim}.")
        if line.shape[0] == 0:
            raise ValueError(f"Sample {i} of X is empty: it has no positions.")
        if line.shape[1] != getattr(self, "n_features_", line.shape[1]):
            raise ValueError(f"Sample {i} of X has {line.shape[1]} features; {self.n_features_} are expected.")
        if not self._is_composable(line.shape[0]):
            raise ValueError(
                f"Sample {i} of X has {line.shape[0]} positions: no segments of the allowed widths "
                f"({', '.join(map(str, sorted({width for _, width in self.pieces_})))}) add up to that."
            )
        return line

    def _is_composable(self, length: int) -> bool:
        """Whether so many positions can be cut into segments; lengths up to the longest so far are known."""
        if length >= self._known_composable.size:
            self._known_composable = self._composable(length)
        return bool(self._known_composable[length])

    def _composable(self, most: int) -> np.ndarray:
        """Whether 0, ..., most positions can be cut into segments."""
        found = np.zeros(most + 1, np.uint8)
        found[0] = 1
        widths = sorted({width for _, width in self.pieces_})
        for t in range(1, most + 1):
            found[t] = any(found[t - width] for width in widths if width <= t)
        return found

    def _segments(self, y, i: int, length: int | None = None) -> list[int]:
        """The pieces of an output, by their numbers."""
        if isinstance(y, str) or not hasattr(y, "__len__"):
            raise ValueError(f"Sample {i} of y must be a list of segments (label, width); got {quoted(y)}.")
        found = []
        for s, segment in enumerate(y):
            known = self._known_piece(segment)
            if known is not None:
                found.append(known)
                continue
            if isinstance(segment, str) or not hasattr(segment, "__len__") or len(segment) != 2:
                raise ValueError(f"Sample {i} of y must be a list of segments (label, width); entry {s} is {quoted(segment)}.")
            label, width = (part.item() if isinstance(part, np.generic) else part for part in segment)
            found.append(self._piece(label, width, f"Segment {s} of sample {i} of y"))
        total = sum(self.pieces_[q][1] for q in found)
        if length is not None and total != length:
            raise ValueError(f"Sample {i} has {length} positions in X, and segments of {total} in y.")
        return found

    def _known_piece(self, segment) -> int | None:
        """The number of a piece in the form that pieces mostly have; None for others, which are looked at closely."""
        if type(segment) is not tuple or len(segment) != 2 or type(segment[1]) is not int:
            return None
        try:
            return self._number.get(segment)
        except TypeError:  # a label that is not hashable
            return None

    def _piece(self, label, width, which: str) -> int:
        try:
            known = label in self._index
        except TypeError:
            raise ValueError(f"{which} has the label {quoted(label)}, which cannot be one: it is not hashable.") from None
        if not known:
            raise ValueError(f"{which} has the unknown label {quoted(label)}; known are {shown(self.labels_)}.")
        if not is_count(width) or (label, width) not in self._number:
            allowed = ", ".join(str(w) for name, w in self.pieces_ if name == label)
            raise ValueError(f"{which} has width {quoted(width)}; segments of {quoted(label)} are {allowed} wide.")
        return self._number[label, width]

    def _code(self, found: list[int]) -> np.ndarray:
        """The code of an output: the piece that starts at a position, or -1."""
        code = np.full(sum(self.pieces_[q][1] for q in found), -1, np.int32)
        code[starts([self.pieces_[q][1] for q in found])[:-1]] = found
        return code

    def _cut(self, code: np.ndarray) -> list[tuple]:
        """The output of a code."""
        return [self.pieces_[q] for q in code[code >= 0]]

    def _named(self, found: list[int]) -> np.ndarray:
        """The label, as a number, of each position."""
        widths = [self.pieces_[q][1] for q in found]
        return np.repeat([self._index[self.pieces_[q][0]] for q in found], widths).astype(np.int32)

    def encode(self, X, y) -> Segments:
        check_lists(X, y)
        lines, K = [self._line(x, i) for i, x in enumerate(X)], len(self.labels_)
        sizes = np.array([line.shape[0] for line in lines])
        start = starts(sizes)
        place = np.stack([np.full(start[-1], -1), np.full(start[-1], K)], axis=1).astype(np.int32)
        if y is not None:
            cuts = [self._segments(cut, i, int(size)) for i, (cut, size) in enumerate(zip(y, sizes))]
            place[:, 0] = np.concatenate([self._code(cut) for cut in cuts])
            place[:, 1] = np.concatenate([self._named(cut) for cut in cuts])
        matrix = stacked_nodes(lines, np.arange(start[-1]), start)
        check_finite(matrix, lambda row: _position_spot(start, row))
        matrix = matrix if self.dtype_ is None else matrix.astype(self.dtype_, copy=False)
        _check_norms(matrix, start)
        table = rows(matrix, 0.0, SPARSE_BELOW["row"])
        cost = np.vstack([self.cost_, np.zeros((1, K))])
        scale = 1.0 / sizes if self.normalize_loss else np.ones(sizes.size)
        at = starts([columns.size for columns in self._columns])
        named = [self._index[label] for label, _ in self.pieces_]
        piece = np.stack([named, [width for _, width in self.pieces_], at[:-1]], axis=1).astype(np.int64)
        shape = self.n_columns_, K if self.transitions else 1, self.n_features_ + 1, int(bool(self.bias))
        columns = np.concatenate(self._columns).astype(np.int64)
        return Segments(table, start, place, piece, self._first, columns, cost, scale, self._composable(int(sizes.max())), *shape)

    # ---- weights ------------------------------------------------------------------------------------------

    def flatten(self, W: np.ndarray) -> np.ndarray:
        """`w_`: templates (columns of all labels, features), then biases (pieces), then transitions (K, K)."""
        count = self._count() - self.n_columns_ * self.n_features_
        templates = vectors.unpack(W, self.n_columns_)[: self.n_features_].T
        return np.concatenate([templates.ravel(), W[self.n_features_ + 1 :].ravel()[:count]])

    def unflatten(self, w: np.ndarray) -> np.ndarray:
        """The lane array of `w_`."""
        w, d = np.asarray(w, dtype=np.float64), self.n_features_
        if w.shape != (self._count(),):
            raise ValueError(f"w must be a vector of {self._count()} weights; got an array of shape {w.shape}.")
        templates, tail = np.split(w, [self.n_columns_ * d])
        packed = vectors.pack(templates.reshape(self.n_columns_, d).T, np.float64)
        wide = packed.shape[1] * packed.shape[2]
        W = vectors.aligned((d + 1 - (-tail.size // wide), *packed.shape[1:]), np.float64)
        W[:d] = packed
        W[d + 1 :].reshape(-1)[: tail.size] = tail
        return W

    # ---- one sample at a time -----------------------------------------------------------------------------

    def joint_feature(self, x, y) -> np.ndarray:
        line = self._line(x, 0)
        found = self._segments(y, 0, line.shape[0])
        code, K = self._code(found), len(self.labels_)
        segment, pair = np.zeros((code.size, len(self.pieces_))), np.zeros((K, K))
        taken = np.flatnonzero(code >= 0)
        segment[taken, code[taken]] = 1.0
        named = [self._index[self.pieces_[q][0]] for q in found]
        np.add.at(pair, (named[:-1], named[1:]), 1.0)
        return self._expected(line, segment, pair)

    def _expected(self, line, segment: np.ndarray, pair: np.ndarray) -> np.ndarray:
        """phi of the mass of each segment (positions, pieces) and of transitions (K, K), in the order of `flatten`."""
        parts = [np.asarray(line.T @ self._by_columns(segment)).T]
        if self.bias:
            parts.append(segment.sum(axis=0))
        if self.transitions:
            parts.append(pair)
        return np.concatenate([part.ravel() for part in parts])

    def _by_columns(self, segment: np.ndarray) -> np.ndarray:
        """The mass of each template column at each position."""
        found = np.zeros((len(segment), self.n_columns_))
        for q, columns in enumerate(self._columns):
            for j, column in enumerate(columns[: len(segment)]):
                found[j:, column] += segment[: len(segment) - j, q]
        return found

    def loss(self, y_true, y) -> float:
        true, guess = (self._named(self._segments(cut, 0)) for cut in (y_true, y))
        if true.size != guess.size:
            raise ValueError(f"The outputs cover {true.size} and {guess.size} positions.")
        total = float(self.cost_[true, guess].sum())
        return total / true.size if self.normalize_loss else total

    def score_outputs(self, y_true, y_pred, sample_weight=None) -> float:
        """The share of positions with the right label."""
        right, count = [], []
        for i, both in enumerate(zip(y_true, y_pred, strict=True)):
            true, guess = (self._named(self._segments(cut, i)) for cut in both)
            if true.size != guess.size:
                raise ValueError(f"Sample {i} has {guess.size} positions in X, and segments of {true.size} in y.")
            right.append(int(np.sum(true == guess)))
            count.append(true.size)
        weight = np.ones(len(right)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return float(weight @ right) / float(weight @ count)

    def every_output(self, x, y, most):
        found: list[list[tuple]] = []
        for cut in self._cuts(sum(width for _, width in y)):
            if len(found) == most:
                return None
            found.append(cut)
        return found

    def _cuts(self, length: int) -> Iterator[list[tuple]]:
        """All segmentations of so many positions."""
        composable = self._composable(length)
        if length == 0:
            yield []
        for label, width in self.pieces_:
            if width <= length and composable[length - width]:
                for rest in self._cuts(length - width):
                    yield [(label, width), *rest]

    # ---- marginals ----------------------------------------------------------------------------------------

    def expect(self, x, y_true, m):
        line = self._line(x, 0)
        true = self._named(self._segments(y_true, 0, line.shape[0]))
        columns = self._by_columns(np.asarray(m["segment"]))
        loss = float((self.cost_[true][:, self._owner] * columns).sum())
        feature = self._expected(line, np.asarray(m["segment"]), np.asarray(m["pair"]).sum(axis=0))
        return feature, loss / true.size if self.normalize_loss else loss


def _allowed(width, label) -> list[int]:
    """The widths that a user allows a label."""
    if isinstance(width, range):
        widths: list = list(width)
    elif hasattr(width, "__len__") and not isinstance(width, str) and len(width) == 2:
        least, most = width
        widths = list(range(least, most + 1)) if is_count(least) and is_count(most) else [least, most]
    else:
        widths = [width]
    bad = next((each for each in widths if not is_count(each)), None)
    if bad is not None:
        raise ValueError(f"widths must be integers of at least 1; the label {label!r} has {bad!r}.")
    if not widths:
        raise ValueError(f"The label {label!r} is given no width: {width!r} is empty.")
    return sorted({int(each) for each in widths})


def _check_norms(matrix, start: np.ndarray) -> None:
    """Refuse features whose inner products overflow."""
    values = matrix.data if sp.issparse(matrix) else matrix
    largest = float(np.abs(values).max(initial=0.0))
    longest = int(np.diff(start).max())
    if largest * largest * longest * longest * max(matrix.shape[1], 1) < np.finfo(np.float64).max:
        return
    sums = np.asarray(abs(matrix).max(axis=1).todense()).ravel() if sp.issparse(matrix) else np.abs(matrix).max(axis=1)
    i = int(np.searchsorted(start, int(np.argmax(sums)), side="right") - 1)
    raise ValueError(f"Sample {i} of X is too large: the squared norm of its features overflows float64; scale them down.")


def _position_spot(start: np.ndarray, row: int) -> str:
    i = int(np.searchsorted(start, row, side="right") - 1)
    return f"Sample {i} of X holds, in the features of position {row - start[i]},"
