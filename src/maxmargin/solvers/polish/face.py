"""A face of the feasible duals, and the way to the highest point on it.

Duals that are neither at a bound nor alone in their sum are free. With all others fixed, the dual value is a quadratic of steps u

    <slope, u> - 1/2 u' H u        walls u + heights >= 0

whose optimum Newton's step finds at once, were it not for the walls: the bounds of the free duals. The way leads along the step
to the first wall; from there on the wall is held, so that the next step slides along it, and let go where the slope leads away
from it. To hold a wall costs one solution with the factor that is there: H^-1 times its normal. After some walls the face is
smaller, and its matrix is factored anew. Each step raises the dual value, by its exact amount.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..pace import never
from .curvature import Between, DenseCurvature, ThinCurvature
from .tuning import POLISH, PolishTuning

UNBOUNDED = 1e29  # a bound beyond this is none
TOP = 1e-13  # part of all that was gained, below which a step is the last
ROUNDED_RISE = 1e-15  # part of the sizes of its terms below which a rise is rounding
ROUNDED_PUSH = 1e-9  # part of the largest push of a wall below which it is rounding
NULL = 1e-10  # part of the largest singular value below which one is zero
PROJECTIONS = 5  # of a step onto the walls that are held, at the most
ALONG_WALLS = 1e-12  # part of its size by which a step may lead across a wall that is held
FREE_STEPS = 6  # in a row without a wall: the rest is rounding


class Ties(NamedTuple):
    """Top-k rows, alpha form: masses, what they leave of the cap, and the room of each below s / k, one row after another.

    sum of masses + rest = cap,      mass_j + room_j + rest / k = cap / k
    """

    starts: np.ndarray
    k: int

    def matrix(self, row: int) -> np.ndarray:
        """The equations of a row, times the changes of its entries: zero."""
        count = (int(self.starts[row + 1] - self.starts[row]) - 1) // 2
        matrix = np.zeros((count + 1, 2 * count + 1))
        matrix[0, : count + 1] = 1.0
        matrix[1:, :count], matrix[1:, count], matrix[1:, count + 1 :] = np.eye(count), 1.0 / self.k, np.eye(count)
        return matrix


NO_TIES = Ties(np.zeros(1, np.int64), 1)


class Face(NamedTuple):
    """Free duals, one entry each. What stands in the table of duals is base + sign * value, for sign 0 nothing does.

    group: entries of one group keep their sum; -1: each alone; -2: those of `ties`
    slope: of the dual value; soft: by how much it falls with the value alone, scores aside
    """

    example: np.ndarray
    label: np.ndarray
    base: np.ndarray
    sign: np.ndarray
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    slope: np.ndarray
    soft: np.ndarray
    group: np.ndarray
    ties: Ties = NO_TIES

    @property
    def size(self) -> int:
        return self.value.size

    @property
    def alone(self) -> bool:
        """Whether no dual is bound to others."""
        return bool(np.all(self.group == -1))

    def taken(self, some: np.ndarray) -> "Face":
        """Some of its entries, where these have no ties."""
        return self._replace(**{name: array[some] for name, array in self._asdict().items() if name != "ties"})


def basis_of(face: Face, value: np.ndarray) -> sp.csr_array:
    """(entries, steps): steps that entries strictly between their bounds can take together."""
    room = np.minimum(value - face.low, face.high - value)
    inside = room > 0.0
    alone = np.flatnonzero(inside & (face.group == -1))
    some = np.flatnonzero(inside & (face.group >= 0))
    order = some[np.lexsort((-room[some], face.group[some]))]
    first = np.diff(face.group[order], prepend=-1) > 0
    rest = order[~first]
    head = order[first][np.cumsum(first)[~first] - 1]  # the entry with the most room gives what the others take
    count = alone.size + rest.size
    steps = alone.size + np.arange(rest.size)
    rows, columns = [alone, rest, head], [np.arange(alone.size), steps, steps]
    numbers = [np.ones(count), -np.ones(rest.size)]
    for row, start in enumerate(face.ties.starts[:-1]):
        free = inside[start : face.ties.starts[row + 1]]
        if free.any():
            _, sizes, right = np.linalg.svd(face.ties.matrix(row)[:, free])
            vectors = right[np.count_nonzero(sizes > NULL * sizes[0]) :].T
            rows.append(np.repeat(start + np.flatnonzero(free), vectors.shape[1]))
            columns.append(np.tile(count + np.arange(vectors.shape[1]), vectors.shape[0]))
            numbers.append(vectors.ravel())
            count += vectors.shape[1]
    triples = np.concatenate(numbers), (np.concatenate(rows), np.concatenate(columns))
    return sp.csr_array(triples, shape=(face.size, count))


def highest(
    face: Face, between: Between, tuning: PolishTuning = POLISH, stop: Callable[[], bool] = never
) -> tuple[np.ndarray, float]:
    """Values of the entries at the top of the face, or on the way to it; and by how much the dual value rises. `stop` is asked
    after each step."""
    value, slope, gained = face.value.copy(), face.slope.copy(), 0.0
    for _ in range(max(tuning.factors, face.size // tuning.walls)):
        basis = basis_of(face, value)
        if basis.shape[1] == 0 or stop():
            break
        curvature = between.along(basis)
        if not curvature.sound:
            break
        reached, gain, more = by_walls(face, value, basis, np.asarray(basis.T @ slope), curvature, tuning, stop)
        slope -= between.product(reached - value)
        value, gained = reached, gained + gain
        if not more:
            break
    return value, gained


def by_walls(
    face: Face,
    value: np.ndarray,
    basis: Any,
    slope: np.ndarray,
    curvature: DenseCurvature | ThinCurvature,
    tuning: PolishTuning,
    stop: Callable[[], bool] = never,
) -> tuple[np.ndarray, float, bool]:
    """Values after steps to one bound after the other, the rise, and whether there is more to do than one factor should."""
    bounds = np.concatenate([value - face.low, face.high - value])
    walls = sp.vstack([basis, -basis], format="csr")
    near = (np.diff(walls.indptr) > 0) & (np.concatenate([face.low > -UNBOUNDED, face.high < UNBOUNDED]))
    kept = np.flatnonzero(near)
    way = climbed(curvature, slope, walls[kept], bounds[kept], tuning, stop)
    reached = np.clip(value + basis @ way.step, face.low, face.high)
    met = kept[way.held]
    down, up = met[met < face.size], met[met >= face.size] - face.size
    reached[down], reached[up] = face.low[down], face.high[up]
    return reached, way.gained, way.more


class Way(NamedTuple):
    """The step that was taken, the walls that are held, by how much the value rose; whether a smaller face has more to give."""

    step: np.ndarray
    held: np.ndarray
    gained: float
    more: bool


class Held:
    """The walls that steps slide along, with H^-1 times their normals."""

    def __init__(self, curvature: DenseCurvature | ThinCurvature, walls: Any, most: int):
        self.curvature, self.walls = curvature, walls
        self.which: list[int] = []
        self.normals, self.solved = np.zeros((most, curvature.size)), np.empty((most, curvature.size))
        self.matrix = np.empty((most, most))  # normals times H^-1 times normals

    def add(self, wall: int) -> None:
        k, walls = len(self.which), self.walls
        some = slice(walls.indptr[wall], walls.indptr[wall + 1])
        self.normals[k] = 0.0
        self.normals[k, walls.indices[some]] = walls.data[some]
        self.solved[k] = self.curvature.solve(self.normals[k])
        self.matrix[k, : k + 1] = self.matrix[: k + 1, k] = self.normals[: k + 1] @ self.solved[k]
        self.which.append(wall)

    def drop(self, place: int) -> None:
        kept = np.delete(np.arange(len(self.which)), place)
        for array in (self.normals, self.solved):
            array[: kept.size] = array[kept]
        self.matrix[: kept.size, : kept.size] = self.matrix[np.ix_(kept, kept)]
        del self.which[place]

    def ahead(self, left: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """Newton's step along all that are held; how much each of them is pulled away from, where those above zero had better not
        be held; and whether the step is more than rounding."""
        ahead, k = self.curvature.solve(left), len(self.which)
        pulls, normals, scale = np.zeros(k), self.normals[:k], self.curvature.scale
        allowed, sound = ALONG_WALLS * (np.abs(normals) @ scale), k == 0
        for _ in range(PROJECTIONS if k else 0):  # what the first leaves of a large step may be large
            off = normals @ ahead
            longest = np.max(np.divide(np.abs(ahead), scale, out=np.zeros_like(ahead), where=scale > 0.0))
            sound = bool(np.all(np.abs(off) <= allowed * longest))
            if sound:
                break
            more = pulls_of(self.matrix[:k, :k], off)
            pulls, ahead = pulls + more, ahead - more @ self.solved[:k]
        return ahead, pulls, sound


def pulls_of(matrix: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where walls say the same twice, the smallest."""
    try:
        return np.linalg.solve(matrix, wanted)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(matrix, wanted, rcond=None)[0]


def climbed(
    curvature: DenseCurvature | ThinCurvature,
    slope: np.ndarray,
    walls: Any,
    heights: np.ndarray,
    tuning: PolishTuning,
    stop: Callable[[], bool] = never,
) -> Way:
    """From u = 0 to the optimum between the walls, or until as many are held as one factor should serve."""
    step, left, room = np.zeros_like(slope), slope.copy(), np.maximum(heights, 0.0)
    held, gained, free, released, more = Held(curvature, walls, tuning.walls), 0.0, 0, 0, False
    for _ in range(4 * tuning.walls):
        if stop():
            more = False
            break
        ahead, pulls, sound = held.ahead(left)
        pushed = curvature.product(ahead)
        rise, bend = float(left @ ahead), float(ahead @ pushed)
        small = not rise > ROUNDED_RISE * float(np.abs(left) @ np.abs(ahead))
        more = not sound or len(held.which) == tuning.walls
        if more or not np.isfinite(rise):
            break
        if small or free >= FREE_STEPS:
            worst = int(np.argmax(pulls)) if pulls.size else 0
            if not pulls.size or released >= tuning.walls or not pulls[worst] > ROUNDED_PUSH * np.abs(pulls).max():
                break
            held.drop(worst)
            free, released = 0, released + 1
            continue
        along = walls @ ahead
        along[held.which] = 0.0
        near = np.flatnonzero(along < 0.0)
        first = near[np.argmin(room[near] / -along[near])] if near.size else -1
        far = rise / bend if bend > 0.0 else np.inf
        t = min(far, room[first] / -along[first]) if near.size else far
        if not np.isfinite(t):
            break
        gain = t * (rise - 0.5 * t * bend)
        step, left, room, gained = step + t * ahead, left - t * pushed, np.maximum(room + t * along, 0.0), gained + gain
        if t < far:
            room[first], free = 0.0, 0
            held.add(int(first))
        else:
            free = FREE_STEPS if gain <= TOP * gained else free + 1
    return Way(step, np.array(held.which, dtype=np.int64), gained, more and bool(held.which))
