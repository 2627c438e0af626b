"""Which samples, or rows of one table, belong together, as a user names it."""

import numpy as np


def named_groups(groups, samples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The names of the groups, in the order in which they sort; the first sample of each; the number of the group of each sample.
    Samples of a group may lie anywhere."""
    names = np.asarray(groups)
    if names.shape != (samples,):
        raise ValueError(f"groups has shape {names.shape}; {samples} entries are needed, the group of each sample.")
    if names.dtype.kind == "f" and not np.all(np.isfinite(names)):
        raise ValueError(
            f"groups must name the group of each sample; sample {int(np.argmin(np.isfinite(names)))} has NaN or infinity."
        )
    if names.dtype.kind == "O" and any(_missing(name) for name in names):
        raise ValueError("groups must name the group of each sample; it holds None or NaN.")
    try:
        return np.unique(names, return_index=True, return_inverse=True)
    except TypeError:
        raise ValueError("groups must be of one kind, all texts or all numbers.") from None


def _missing(name) -> bool:
    try:
        return bool(name is None or name != name)
    except TypeError:  # pandas' NA says of nothing whether it is the same
        return True
