"""Small structured problems, a few of each kind of structure."""

import numpy as np

from maxmargin.structures import Parts, Segmentation, Structure

SEGMENTATIONS = {
    "fixed widths": Segmentation([1, 2, 3]),
    "as in the paper": Segmentation({"a": 2, "b": 1, "c": 3}, bias=False),
    "ranges and transitions": Segmentation({"a": 2, "b": (1, 3), None: range(3, 5)}, transitions=True),
    "one vector for each label": Segmentation([(1, 3), 2], columns=1, transitions=True, bias=False, normalize_loss=True),
    "templates narrower and wider than segments": Segmentation([(2, 4), 1, 2], columns=[3, 2, 2]),
    "costs": Segmentation([1, (1, 2)], cost=[[0.0, 2.0], [0.5, 0.0]], transitions=True),
    "many columns": Segmentation([7, 3, (2, 5)], transitions=True),
}
PARTS = {
    "two parts": (Parts([(0, 1)], window=3), [(3, 4), (4, 2), (1, 5)], 2),
    "a chain, its edges turned": (Parts([(2, 1), (1, 0)], window=(1, 2), unit=2.0), [(2, 3), (3, 2)], 1),
    "a star, by the eyes": (Parts([(0, 2), (0, 1)], window=1, reference=(0, 1)), [(3, 4), (2, 5)], 2),
    "one part": (Parts([], window=(3, 2)), [(5, 5), (1, 1)], 1),
    "window larger than the grid": (Parts([(0, 1)], window=(6, 5)), [(2, 3), (3, 3)], 1),
}


def lines(structure, lengths=(5, 7, 3, 6), d=2, seed=0):
    """Random features with a random cut of each line."""
    rng = np.random.default_rng(seed)
    every = [cuts(structure.widths, length) for length in lengths]
    return [rng.normal(size=(length, d)) for length in lengths], [found[rng.integers(len(found))] for found in every]


def cuts(widths, length):
    """All segmentations of so many positions; widths as `Segmentation` takes them."""
    pieces = [
        (label, width)
        for label, given in dict(widths if isinstance(widths, dict) else enumerate(widths)).items()
        for width in ([given] if isinstance(given, int) else range(given[0], given[1] + 1) if isinstance(given, tuple) else given)
    ]
    found = [[[]]]
    for end in range(1, length + 1):
        found.append([[piece, *rest] for piece in pieces if piece[1] <= end for rest in found[end - piece[1]]])
    return found[length]


def images(name, seed=0):
    """Random features, and random places of the parts."""
    structure, shapes, d = PARTS[name]
    rng, count = np.random.default_rng(seed), len(structure.edges) + 1
    X = [rng.normal(size=(*shape, d)) for shape in shapes]
    y = [np.stack([rng.integers(0, side, count) for side in shape], axis=1) for shape in shapes]
    for places, shape in zip(y, shapes, strict=True):
        if structure.reference is not None:
            places[1] = (places[0] + 1) % shape
    return structure, X, y


def words(seed=0, count=14):
    rng = np.random.default_rng(seed)
    y = [rng.integers(0, 3, rng.integers(1, 5)) for _ in range(count)]
    y[0] = np.array([0, 1, 2])
    return [rng.normal(size=(len(labels), 3)) + np.eye(3)[labels] for labels in y], y


class ThreeClasses(Structure):
    """A vector and one of three classes, in plain Python."""

    def size(self, X, y):
        return 3 * len(X[0])

    def joint_feature(self, x, y):
        return np.kron(np.eye(3)[y], x)

    def loss(self, y_true, y):
        return float(y_true != y)

    def scores(self, w, x):
        return w.reshape(3, -1) @ x

    def decode(self, w, x):
        return int(np.argmax(self.scores(w, x)))

    def loss_augmented_decode(self, w, x, y_true):
        return int(np.argmax(self.scores(w, x) + (np.arange(3) != y_true)))


class Brackets(Structure):
    """Two bits in plain Python."""

    def size(self, X, y):
        return 4

    def joint_feature(self, x, y):
        return np.array([y[0] * x[0], y[1] * x[1], y[0] * y[1], float(y[0] != y[1])])

    def loss(self, y_true, y):
        return float(y_true[0] != y[0]) + float(y_true[1] != y[1])

    def loss_augmented_decode(self, w, x, y_true):
        every = [(a, b) for a in (0, 1) for b in (0, 1)]
        return max(every, key=lambda y: w @ self.joint_feature(x, y) + (0.0 if y_true is None else self.loss(y_true, y)))

    def decode(self, w, x):
        return self.loss_augmented_decode(w, x, None)


def bits(seed=0, count=12):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 2))
    return list(X), [(int(x[0] > 0.2), int(x[1] + x[0] > 0.0)) for x in X]
