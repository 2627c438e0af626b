"""Landmarks on an image grid: a tree of parts with templates and springs between them."""

from itertools import product
from numbers import Integral

import numpy as np
import scipy.sparse as sp

from ..data.matrices import checked_matrix
from ..data.rows import SPARSE_BELOW, rows
from ..jit import vectors
from ..utils.parameters import POSITIVE
from .compiled import Compiled
from .edges import check_edges, edge_arrays
from .encoded.grids import BENDS, Grids
from .encoded.statistics import starts
from .reading import check_finite, check_lists, floating, is_count, numeric


class Parts(Compiled):
    """Landmarks of an image: parts with templates, joined by springs to a tree. Uřičář and Franc (2012) find those of faces so.

    A sample x is an array (rows, columns) or (rows, columns, features), with a vector of features for each cell of a grid; or,
    where these are sparse, a pair (CSR matrix with a row for each cell, row by row, (rows, columns)). Grids of different samples
    may differ in size. y is an array (parts, 2) of integers: the row and the column of each part.

    A placement scores the correlation of each part's template with the window of cells around it (cells outside the grid count
    as zero), and for each part but the first, from the displacement (dr, dc) to its parent in the tree, l . (dr, dc) / unit -
    q . (dr^2, dc^2) / unit^2. The quadratic weights q are kept non-negative: a spring never pushes outwards. The loss is the mean
    distance of the parts from their true cells. The best placement is found exactly, in time linear in parts x cells. There
    are no marginals: FrankWolfe and DualCoordinate serve this structure.

    Parameters
    ----------
    edges : list of pairs of parts
        A tree over the parts 0, ..., n - 1, rooted at part 0. An empty list stands for a single part.
    window : int or (int, int), default=5
        Rows and columns of the templates, in cells; the part lies on cell window // 2. With 1 a part sees the features of its own
        cell only.
    unit : float, optional
        How many cells displacements are measured in. By default the length of the longest edge in the training samples, so
        that the features of springs are at most about 1.
    reference : (int, int), optional
        Divide the loss by the distance of these two parts in the true output (as that of the eyes), so that it does not depend on
        the size of what is seen. By default the loss is in cells.
    """

    _parameter_constraints = {"edges": ["array-like"], "unit": [POSITIVE, None]}

    dtype_: np.dtype | None = None

    def __init__(self, edges, window=5, *, unit=None, reference=None):
        self.edges = edges
        self.window = window
        self.unit = unit
        self.reference = reference

    # ---- what is learned before the weights ---------------------------------------------------------------

    def size(self, X, y) -> int:
        self._validate_params()
        check_lists(X, y)
        if y is None:
            raise ValueError("y is needed: the true places of the parts of each sample.")
        self._read_tree()
        self.window_ = self._checked_window()
        self._check_reference()
        self.__dict__.pop("n_features_", None)
        self.n_features_ = self._grid(X[0], 0)[0].shape[1]
        found = [self._places(given, i, self._grid(x, i)[1]) for i, (x, given) in enumerate(zip(X, y, strict=True))]
        self.unit_ = self._unit_of(np.array(found))
        return self._count()

    def _count(self) -> int:
        return self.n_parts_ * self._template() + BENDS * (self.n_parts_ - 1)

    def _template(self) -> int:
        """Numbers in a template."""
        return self.window_[0] * self.window_[1] * self.n_features_

    def _read_tree(self) -> None:
        """Parts in an order with parents first, and the parent of each."""
        given = self.edges
        self.n_parts_ = count = len(given) + 1
        pairs, _ = edge_arrays(given, None, "The structure")
        check_edges(count, pairs, "The structure")
        neighbours: list[list[int]] = [[] for _ in range(count)]
        for a, b in pairs.tolist():
            neighbours[a].append(b)
            neighbours[b].append(a)
        order, parent = [0], np.full(count, -1)
        for part in order:  # grows while it is read
            for other in neighbours[part]:
                if other != parent[part]:
                    if parent[other] >= 0 or other == 0:
                        raise ValueError(f"edges must form a tree; there is a cycle through part {other}.")
                    parent[other] = part
                    order.append(other)
        if len(order) < count:
            lost = next(part for part in range(count) if part not in order)
            raise ValueError(f"edges must form a tree of the parts 0 to {count - 1}; part {lost} is not joined to part 0.")
        self._tree = np.stack([order, parent], axis=1).astype(np.int64)

    def _checked_window(self) -> tuple[int, int]:
        given = self.window
        both = (given, given) if isinstance(given, Integral) else given
        fine = not isinstance(both, str) and hasattr(both, "__len__") and len(both) == 2
        if not fine or not all(is_count(side) for side in both):
            raise ValueError(f"window must be an integer of at least 1, or a pair of them; got {given!r}.")
        return int(both[0]), int(both[1])

    def _check_reference(self) -> None:
        given = self.reference
        if given is None:
            return
        fine = not isinstance(given, str) and hasattr(given, "__len__") and len(given) == 2
        if not fine or not all(is_count(part, 0) and part < self.n_parts_ for part in given):
            raise ValueError(f"reference must be a pair of parts, numbers from 0 to {self.n_parts_ - 1}; got {given!r}.")

    def _unit_of(self, places: np.ndarray) -> float:
        if self.unit is None:
            children = np.flatnonzero(self._tree[:, 1] >= 0)
            moves = places[:, children] - places[:, self._tree[children, 1]]
            longest = float(np.linalg.norm(moves, axis=2).max(initial=0.0))  # not a mean: repeated samples change nothing
            return longest if longest > 0 else 1.0
        return float(self.unit)

    def nonnegative(self) -> np.ndarray:
        edge = np.arange(BENDS * (self.n_parts_ - 1)).reshape(-1, BENDS)
        return self.n_parts_ * self._template() + edge[:, 2:].ravel()

    # ---- reading samples ----------------------------------------------------------------------------------

    def check(self, X, y) -> None:
        check_lists(X, y)

    def _grid(self, x, i: int):
        """The features of all cells, row by row, and the shape of the grid."""
        which = f"Sample {i} of X"
        if isinstance(x, tuple):
            cells, shape = self._sparse_grid(x, which)
        else:
            image = numeric(x, which)
            if sp.issparse(image) or image.ndim not in (2, 3):
                raise ValueError(
                    f"{which} must be an array (rows, columns) or (rows, columns, features), or a pair "
                    f"(CSR matrix of cells, (rows, columns)); it has {image.ndim} dimensions."
                )
            shape = image.shape[:2]
            cells = image.reshape(shape[0] * shape[1], image.shape[2] if image.ndim == 3 else 1)
        if cells.shape[0] == 0:
            raise ValueError(f"{which} is empty: its grid is {shape[0]} x {shape[1]}.")
        if cells.shape[1] != getattr(self, "n_features_", cells.shape[1]):
            raise ValueError(f"{which} has {cells.shape[1]} features for each cell; {self.n_features_} are expected.")
        return cells, shape

    @staticmethod
    def _sparse_grid(x, which: str):
        fine = len(x) == 2 and hasattr(x[1], "__len__") and len(x[1]) == 2
        if not fine or not all(is_count(side, 0) for side in x[1]):
            raise ValueError(f"{which} must be a pair (matrix of cells, (rows, columns)) where it is a tuple.")
        cells, shape = numeric(x[0], which), (int(x[1][0]), int(x[1][1]))
        if cells.ndim != 2 or cells.shape[0] != shape[0] * shape[1]:
            raise ValueError(
                f"{which} has features of shape {cells.shape}; a row for each of {shape[0]} x {shape[1]} cells is needed."
            )
        return cells, shape

    def _places(self, y, i: int, shape: tuple[int, int] | None) -> np.ndarray:
        """The places of a sample's parts, inside a grid of this shape where it is known."""
        which = f"Sample {i} of y"
        try:
            given = np.asarray(y)
        except ValueError:
            given = np.zeros(0)
        if given.shape != (self.n_parts_, 2) or given.dtype.kind not in "fiu":
            raise ValueError(f"{which} must be an array of numbers ({self.n_parts_}, 2), row and column of each part.")
        bad = np.flatnonzero(~(given == np.floor(given)).all(axis=1) | ~np.isfinite(given).all(axis=1))
        if bad.size:
            raise ValueError(
                f"{which} has part {bad[0]} at ({given[bad[0], 0]:g}, {given[bad[0], 1]:g}); cells have whole numbers."
            )
        if shape is not None:
            bad = np.flatnonzero(((given < 0) | (given >= shape)).any(axis=1))
            if bad.size:
                r, c = given[bad[0]].astype(int)
                raise ValueError(f"{which} has part {bad[0]} at ({r}, {c}), outside its grid of {shape[0]} x {shape[1]} cells.")
        return given.astype(np.int64)

    def _factor(self, places: np.ndarray, which: str) -> float:
        """What the sum of deviations is multiplied by."""
        if self.reference is None:
            return 1.0 / self.n_parts_
        a, b = self.reference
        distance = float(np.linalg.norm(places[a] - places[b]))
        if distance == 0.0:
            raise ValueError(f"{which} has the parts {a} and {b} on one cell; their distance is the reference of the loss.")
        return 1.0 / (self.n_parts_ * distance)

    def encode(self, X, y) -> Grids:
        check_lists(X, y)
        grids = [self._grid(x, i) for i, x in enumerate(X)]
        shapes = np.array([shape for _, shape in grids])
        start = starts(shapes.prod(axis=1))
        place, scale = np.full((len(grids), self.n_parts_), -1, np.int32), np.zeros(len(grids))
        if y is not None:
            for i, given in enumerate(y):
                places = self._places(given, i, tuple(shapes[i].tolist()))
                place[i] = places[:, 0] * shapes[i, 1] + places[:, 1]
                scale[i] = self._factor(places, f"Sample {i} of y")
        matrix = _stacked([cells for cells, _ in grids])
        check_finite(matrix, lambda row: _cell_spot(start, shapes, row))
        matrix = matrix if self.dtype_ is None else matrix.astype(self.dtype_, copy=False)
        _check_sizes(matrix, start, self._template())
        sample = np.column_stack([start, np.vstack([shapes, [[0, 0]]])]).astype(np.int64)
        high, wide = shapes.max(axis=0)
        distance = np.hypot(np.arange(high)[:, None], np.arange(wide)[None, :])
        window = np.array(self.window_, np.int64)
        return Grids(rows(matrix, 0.0, SPARSE_BELOW["row"]), sample, place, self._tree, window, distance, scale, self.unit_)

    # ---- weights ------------------------------------------------------------------------------------------

    def flatten(self, W: np.ndarray) -> np.ndarray:
        """`w_`: templates (parts, rows, columns, features), then for the parts from 1 on the weights of the edge to the parent:
        linear in rows and columns, quadratic in rows and columns."""
        table, count = vectors.unpack(W, self.n_parts_), self._template()
        return np.concatenate([table[:count].T.ravel(), table[count:, 1:].T.ravel()])

    def unflatten(self, w: np.ndarray) -> np.ndarray:
        """The lane array of `w_`."""
        w, P, count = np.asarray(w, dtype=np.float64), self.n_parts_, self._template()
        if w.shape != (self._count(),):
            raise ValueError(f"w must be a vector of {self._count()} weights; got an array of shape {w.shape}.")
        table = np.zeros((count + BENDS, P))
        table[:count] = w[: P * count].reshape(P, count).T
        table[count:, 1:] = w[P * count :].reshape(P - 1, BENDS).T
        return vectors.pack(table, np.float64)

    # ---- one sample at a time -----------------------------------------------------------------------------

    def joint_feature(self, x, y) -> np.ndarray:
        cells, shape = self._grid(x, 0)
        places = self._places(y, 0, shape)
        cells = np.asarray(cells.todense() if sp.issparse(cells) else cells, dtype=np.float64)
        (high, wide), d = self.window_, self.n_features_
        padded = np.pad(cells.reshape(*shape, d), ((high // 2, high), (wide // 2, wide), (0, 0)))
        windows = [padded[r : r + high, c : c + wide].ravel() for r, c in places]
        moves = (places[1:] - places[self._tree[1:, 1]]) / self.unit_
        return np.concatenate([*windows, np.concatenate([moves, -np.square(moves)], axis=1).ravel()])

    def loss(self, y_true, y) -> float:
        true, guess = (self._places(places, 0, None) for places in (y_true, y))
        return float(np.linalg.norm(true - guess, axis=1).sum()) * self._factor(true, "The true output")

    def every_output(self, x, y, most):
        _, shape = self._grid(x, 0)
        cells = list(product(*(range(side) for side in shape)))
        if len(cells) ** self.n_parts_ > most:
            return None
        return [np.array(places) for places in product(cells, repeat=self.n_parts_)]


def _stacked(cells: list):
    """The cells of all samples below each other."""
    dtype = floating(np.result_type(*{part.dtype for part in cells}))
    if not any(sp.issparse(part) for part in cells):
        return np.ascontiguousarray(np.concatenate(cells).astype(dtype, copy=False))
    sparse = [part if sp.issparse(part) else sp.csr_array(part) for part in cells]
    return checked_matrix(sp.vstack(sparse, format="csr", dtype=dtype))


def _check_sizes(matrix, start: np.ndarray, template: int) -> None:
    """Refuse features whose inner products overflow."""
    values = matrix.data if sp.issparse(matrix) else matrix
    largest = float(np.abs(values).max(initial=0.0))
    if largest * largest * template < np.finfo(np.float64).max / 1e6:
        return
    peaks = np.asarray(abs(matrix).max(axis=1).todense()).ravel() if sp.issparse(matrix) else np.abs(matrix).max(axis=1)
    i = int(np.searchsorted(start, int(np.argmax(peaks)), side="right") - 1)
    raise ValueError(f"Sample {i} of X is too large: the squared norm of its features overflows float64; scale them down.")


def _cell_spot(start: np.ndarray, shapes: np.ndarray, row: int) -> str:
    i = int(np.searchsorted(start, row, side="right") - 1)
    r, c = divmod(row - int(start[i]), int(shapes[i, 1]))
    return f"Sample {i} of X holds, in cell ({r}, {c}),"
