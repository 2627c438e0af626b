"""Faces with landmarks: a constellation of points, each with its own look, that moves, turns and bends a little."""

import numpy as np
from sklearn.utils import check_random_state

from .arguments import amount, whole

# Where the landmarks of an upright face lie, (row, column) in units of half its height.
FACE = {
    "centre": (0.0, 0.0),
    "left eye, outer corner": (-0.35, -0.62),
    "left eye, inner corner": (-0.35, -0.22),
    "right eye, inner corner": (-0.35, 0.22),
    "right eye, outer corner": (-0.35, 0.62),
    "tip of the nose": (0.15, 0.0),
    "left corner of the mouth": (0.55, -0.32),
    "right corner of the mouth": (0.55, 0.32),
}
EDGES = [(0, 5), (0, 2), (0, 3), (2, 1), (3, 4), (5, 6), (5, 7)]  # a tree: the centre, then outwards
SIZES = 0.55, 0.7  # half the height of a face, relative to half the shorter side of the image
TURN = 0.15  # radians, standard deviation
LEAST = 16  # pixels: faces in smaller images have no eyes
ORIENTATIONS = 8


def make_landmarks(n_samples=100, *, shape=(40, 40), jitter=0.03, noise=0.2, features="intensity", random_state=None):
    """Faces for `structures.Parts`: images, and where eight landmarks lie in each.

    A face is an oval with eyes, nose and mouth, of another size, place, turn and light in each image; its landmarks are moved
    by `jitter`, and its background is a random one. The paper's faces (Uřičář and Franc 2012: 7,000 images of 40 x 40
    pixels, 8 landmarks) have these sizes; their descriptors are richer.

    Parameters
    ----------
    n_samples : int, default=100
    shape : (int, int), default=(40, 40)
        Rows and columns of the images, 16 at the least.
    jitter : float, default=0.03
        Standard deviation of each landmark's own deviation, relative to the height of the face.
    noise : float, default=0.2
        Mean standard deviation of the noise, relative to that of the image.
    features : {"intensity", "gradients"}, default="intensity"
        What an image holds: its intensities, with mean 0 and variance 1, or its gradients by eight orientations.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    X : list of arrays (rows, columns, channels)
        One channel, or eight.
    y : list of arrays (8, 2)
        Row and column of each landmark.
    edges : list of (int, int)
        A tree of the landmarks, from the centre outwards, as `Parts` wants it.

    Examples
    --------
    >>> from maxmargin.datasets import make_landmarks
    >>> X, y, edges = make_landmarks(1, random_state=0)
    >>> X[0].shape, y[0].shape, len(edges)
    ((40, 40, 1), (8, 2), 7)
    """
    count, jitter, noise = whole("n_samples", n_samples), amount("jitter", jitter), amount("noise", noise)
    if not hasattr(shape, "__len__") or len(shape) != 2:
        raise ValueError(f"shape must be a pair, rows and columns; got {shape!r}.")
    rows, columns = (whole("shape", side, LEAST) for side in shape)
    if features not in ("intensity", "gradients"):
        raise ValueError(f"features must be 'intensity' or 'gradients'; got {features!r}.")
    random = check_random_state(random_state)
    X, y = [], []
    for _ in range(count):
        points = _constellation(rows, columns, jitter, random)
        image = _drawn(points, rows, columns, random)
        image += noise * random.uniform(0.5, 1.5) * image.std() * random.normal(size=image.shape)
        image = (image - image.mean()) / image.std()
        X.append(image[:, :, None] if features == "intensity" else _gradients(image))
        y.append(np.rint(points).astype(np.int64))
    return X, y, list(EDGES)


def _constellation(rows: int, columns: int, jitter: float, random) -> np.ndarray:
    """The landmarks of a face somewhere in the image, all inside it."""
    size = random.uniform(*SIZES) * (min(rows, columns) - 1) / 2.0
    angle = TURN * np.clip(random.normal(), -2.0, 2.0)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    middle, last = (np.array([rows, columns]) - 1) / 2.0, np.array([rows, columns]) - 1
    place = middle + (middle - size) * random.uniform(-0.5, 0.5, size=2)
    points = place + size * (np.array(list(FACE.values())) + 2.0 * jitter * random.normal(size=(len(FACE), 2))) @ turn.T
    return np.clip(points, 0, last)


def _drawn(points: np.ndarray, rows: int, columns: int, random) -> np.ndarray:
    grid = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), axis=-1).astype(np.float64)
    centre, outer_left, inner_left, inner_right, outer_right, nose, mouth_left, mouth_right = points
    size = float(np.linalg.norm(outer_right - outer_left)) / 1.24
    wing = np.full(2, 0.1 * size)
    image = 0.3 * _clouds(rows, columns, random)
    oval = np.hypot((grid[..., 0] - centre[0]) / (1.15 * size), (grid[..., 1] - centre[1]) / (0.9 * size))
    image += 1.0 / (1.0 + np.exp(8.0 * (oval - 1.0)))
    for outer, inner in ((outer_left, inner_left), (outer_right, inner_right)):
        image -= 0.8 * _stroke(grid, outer, inner, 0.09 * size)
        image -= 0.7 * _stroke(grid, (outer + inner) / 2, (outer + inner) / 2, 0.11 * size)  # the iris
        image += 0.6 * _stroke(grid, inner, inner, 0.06 * size)  # the inner corner is bright
    image += 0.4 * _stroke(grid, centre, nose, 0.06 * size)
    image -= 0.6 * _stroke(grid, nose + wing * [1, -1], nose + wing, 0.06 * size)  # the shadow below
    image -= 0.9 * _stroke(grid, mouth_left, mouth_right, 0.07 * size)
    slope = random.normal(scale=0.2, size=2) / [rows, columns]
    return random.uniform(0.6, 1.4) * image + (grid @ slope)


def _stroke(grid: np.ndarray, start, end, thickness: float) -> np.ndarray:
    """A soft line between two points; a dot where they are one."""
    along = end - start
    square = float(along @ along)
    share = np.clip((grid - start) @ along / square, 0.0, 1.0) if square > 0 else np.zeros(grid.shape[:2])
    away = np.linalg.norm(grid - start - share[..., None] * along, axis=-1)
    return np.exp(-0.5 * (away / thickness) ** 2)


def _clouds(rows: int, columns: int, random) -> np.ndarray:
    """Smooth noise."""
    image = np.zeros((rows, columns))
    row, column = np.arange(rows)[:, None] / rows, np.arange(columns)[None, :] / columns
    for _ in range(6):
        waves, phase = random.uniform(-3.0, 3.0, size=2), random.uniform(0.0, 2.0 * np.pi)
        image += np.cos(2.0 * np.pi * (waves[0] * row + waves[1] * column) + phase)
    return image / np.sqrt(6.0)


def _gradients(image: np.ndarray) -> np.ndarray:
    """The length of each pixel's gradient, in the channel of its direction."""
    down, right = np.gradient(image)
    which = np.floor((np.arctan2(down, right) / (2.0 * np.pi) + 0.5) * ORIENTATIONS).astype(int) % ORIENTATIONS
    return np.where(which[..., None] == np.arange(ORIENTATIONS), np.hypot(down, right)[..., None], 0.0)
