"""Sequences of frames in which somebody makes a gesture at a time that is not told."""

import numpy as np
from sklearn.utils import check_random_state

from .arguments import amount, whole

RANK = 10  # directions in which ordinary movement varies
LINGER = 0.9  # how much of a frame's posture is still there in the next


def make_gestures(n_samples=594, *, n_classes=12, n_features=130, length=(20, 40), strength=0.7, noise=0.3, random_state=None):
    """Sequences for `LatentSVMClassifier`: bags of frames, one of which shows the gesture of the class.

    Ordinary frames are a slow random walk of postures in a few directions, the same for all classes; in one frame the posture of
    the class, a random direction of length `strength` * sqrt(n_features) / 4, is added. The sizes are those of the gesture
    experiment of Mohapatra et al. (2016): 594 sequences, 12 classes, 130 features a frame.

    Parameters
    ----------
    n_samples : int, default=594
    n_classes : int, default=12
        Classes take turns, in random order.
    n_features : int, default=130
    length : (int, int), default=(20, 40)
        The fewest and the most frames of a sequence.
    strength : float, default=0.7
        How much a gesture stands out.
    noise : float, default=0.3
        Standard deviation of each feature's own noise.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    X : list of arrays (frames, n_features)
    y : array of shape (n_samples,)
        The class of each sequence, 0 ... n_classes - 1.
    frames : array of shape (n_samples,)
        Where the gesture is: for checking only.

    Examples
    --------
    >>> from maxmargin.datasets import make_gestures
    >>> X, y, frames = make_gestures(24, random_state=0)
    >>> len(X), X[0].shape[1], len(set(y.tolist()))
    (24, 130, 12)
    """
    count, classes, features = (
        whole("n_samples", n_samples),
        whole("n_classes", n_classes, 2),
        whole("n_features", n_features),
    )
    strength, noise = amount("strength", strength), amount("noise", noise)
    if not hasattr(length, "__len__") or len(length) != 2:
        raise ValueError(f"length must be a pair, the fewest and the most frames; got {length!r}.")
    fewest = whole("length", length[0])
    most = whole("length", length[1], fewest)
    random = check_random_state(random_state)
    postures = random.normal(size=(classes, features))
    postures *= strength * np.sqrt(features) / (4.0 * np.linalg.norm(postures, axis=1, keepdims=True))
    ordinary = random.normal(size=(RANK, features)) / np.sqrt(RANK)
    y = random.permutation(np.arange(count) % classes)
    X, frames = [], np.zeros(count, np.int64)
    for i in range(count):
        size = random.randint(fewest, most + 1)
        frames[i] = random.randint(size)
        sequence = _walk(size, random) @ ordinary + noise * random.normal(size=(size, features))
        sequence[frames[i]] += postures[y[i]]
        X.append(sequence)
    return X, y, frames


def _walk(size: int, random) -> np.ndarray:
    """A slow random walk with standard deviation 1/2 at every frame."""
    steps = random.normal(size=(size, RANK))
    for t in range(1, size):
        steps[t] = LINGER * steps[t - 1] + np.sqrt(1.0 - LINGER**2) * steps[t]
    return 0.5 * steps
