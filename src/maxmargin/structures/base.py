"""What a structured model is: outputs, their joint features and their loss, and how the best output is found.

Two faces of one thing. `Structure` is what a user writes, in plain Python, one sample at a time. Solvers see *encoded samples*
instead (`encoded/contract.py`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, TypeVar

import numpy as np

from ..utils.parameters import Parameters
from .encoded.met import STRAYED, check_output, strayed
from .encoded.processes import for_all_samples
from .encoded.python import Custom


class Structure(Parameters):
    """Base class of structured models. Subclass it, and define at least the first five methods.

    Constructor parameters are those of scikit-learn estimators: stored as given, so that grids can reach them as
    `structure__name`. `maxmargin.check_structure` holds all methods against brute force.

    `parallel` says whether methods may run several times at once, with `n_jobs` threads: "threads" where they let go of the
    interpreter's lock (NumPy, compiled code) and change nothing that they share; "processes" where each process may have a copy
    of the structure and of the samples. By default they run one after another.
    """

    parallel: str | None = None

    def size(self, X, y) -> int:
        """The number of weights. Called once in `fit`, with all training samples, before any other method."""
        raise NotImplementedError(_needed(self, "size(X, y)"))

    def joint_feature(self, x, y) -> np.ndarray:
        """phi(x, y): a vector of `size` numbers."""
        raise NotImplementedError(_needed(self, "joint_feature(x, y)"))

    def _feature_count(self, X, y) -> int:
        """How many numbers phi has, of the first sample."""
        return int(np.size(self.joint_feature(X[0], y[0])))

    def loss(self, y_true, y) -> float:
        """Delta(y_true, y) >= 0, zero for y_true itself."""
        raise NotImplementedError(_needed(self, "loss(y_true, y)"))

    def decode(self, w, x) -> Any:
        """The output y with the largest w . phi(x, y)."""
        raise NotImplementedError(_needed(self, "decode(w, x)"))

    def loss_augmented_decode(self, w, x, y_true) -> Any:
        """The output y with the largest w . phi(x, y) + Delta(y_true, y)."""
        raise NotImplementedError(_needed(self, "loss_augmented_decode(w, x, y_true)"))

    # ---- optional: for partial linearization and exponentiated gradient ----------------------------------

    def marginals(self, w, x, y_true, temperature, base=None) -> Any:
        """What `expect` needs of the distribution p(y) ~ base(y) exp((w . phi(x, y) + Delta(y_true, y)) / temperature).

        `base` are earlier marginals (None: the uniform distribution). With temperature=inf and no base: those of the uniform
        distribution.
        """
        raise NotImplementedError(_needed(self, "marginals(w, x, y_true, temperature, base)"))

    def expect(self, x, y_true, m) -> tuple[np.ndarray, float]:
        """(expectation of phi(x, y), expectation of Delta(y_true, y)) under marginals m; linear in m."""
        raise NotImplementedError(_needed(self, "expect(x, y_true, m)"))

    def mix(self, m, other, gamma) -> Any:
        """(1 - gamma) m + gamma other. Arrays, and tuples, lists and dicts of them, need no definition of their own."""
        if isinstance(m, dict):
            return {key: Structure.mix(self, m[key], other[key], gamma) for key in m}
        if isinstance(m, tuple | list):
            return type(m)(Structure.mix(self, a, b, gamma) for a, b in zip(m, other, strict=True))
        return (1.0 - gamma) * m + gamma * other

    # ---- optional: what `check_structure` and the solvers may use ----------------------------------------

    def nonnegative(self) -> np.ndarray:
        """The numbers of the weights that must not be negative, known after `size`; none by default."""
        return np.zeros(0, np.int64)

    def every_output(self, x, y, most: int) -> list | None:
        """All outputs of the sample x whose true output is y; None if there are more than `most`, or nobody can list them."""
        return None

    # ---- what solvers see; a structure in plain Python need not define these ------------------------------

    def flatten(self, W: np.ndarray) -> np.ndarray:
        """`w_`, a vector, from the weights as solvers hold them."""
        return W.copy()

    def unflatten(self, w: np.ndarray) -> np.ndarray:
        """The weights as solvers hold them, from `w_`."""
        return w

    def decode_all(self, w, X, n_jobs: int = 1) -> list:
        """The best output of each sample; one after another, unless `parallel`. An output that has no joint features is
        refused."""
        samples = list(X)
        found = for_all_samples(self, "decode", w, [(x,) for x in samples], n_jobs)
        for i, (x, output) in enumerate(zip(samples, found, strict=True)):
            check_output(type(self).__name__, "decode", i, output)
            self._check_decoded(w, x, output, i)
        return found

    def _check_decoded(self, w, x, output, i: int) -> None:
        try:
            self.joint_feature(x, output)
        except STRAYED as error:
            raise strayed(type(self).__name__, "decode", i, output, "joint_feature", error) from error

    def decode_packed(self, W, X, n_jobs: int = 1) -> list:
        """As `decode_all`, for weights as solvers hold them; in plain Python these are `w_` itself."""
        return self.decode_all(W, X, n_jobs)

    def decode_scored(self, W, X, n_jobs: int = 1) -> tuple[list, np.ndarray]:
        """As `decode_packed`, and w . phi of each output."""
        found = self.decode_packed(W, X, n_jobs)
        return found, np.array([float(W @ self.joint_feature(x, output)) for x, output in zip(X, found, strict=True)])

    def node_marginals(self, W, X, n_jobs: int = 1) -> Any:
        """The probability of each label of each node under p(y) ~ exp(w . phi(x, y)), for weights as solvers hold them."""
        raise TypeError(
            f"Marginals of nodes are there for Multiclass, Chain, Tree and Graph; {type(self).__name__} gives no labels to nodes."
        )

    def n_best(self, W, X, count: int) -> list[list[tuple[Any, float]]]:
        """Up to `count` outputs of each sample with their w . phi, the best first, for weights as solvers hold them."""
        raise TypeError(
            f"The best outputs beside the first are there for Chain, Tree, Graph and Multiclass, not for {type(self).__name__}."
        )

    def named_weights(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Parts of `w_` by the names that a fitted model shows them under, as views."""
        raise AttributeError(f"{type(self).__name__} does not say what its weights are; they are all in w_.")

    def declare_labels(self, labels: Any) -> None:
        """All labels that will ever come; before `size`."""
        raise ValueError(f"classes is there for Multiclass, Chain, Tree and Graph; {type(self).__name__} has no such labels.")

    def weigh_labels(self, class_weight: Any, y, sample_weight: np.ndarray) -> None:
        """Multiply the losses of each true label by its factor; after `size`."""
        raise ValueError(
            f"class_weight is there for Multiclass, Chain, Tree and Graph; {type(self).__name__} has no such labels."
        )

    def as_predictions(self, found: list) -> Any:
        """Predictions as a user gets them."""
        return found

    def score_outputs(self, y_true, y_pred, sample_weight=None) -> float:
        """How good predictions are, larger is better: minus the mean loss."""
        losses = [self.loss(true, guess) for true, guess in zip(y_true, y_pred, strict=True)]
        return -float(np.average(losses, weights=sample_weight))

    def _has_marginals(self) -> bool:
        """Whether a subclass has defined them."""
        return type(self).marginals is not Structure.marginals and type(self).expect is not Structure.expect

    def encode(self, X, y):
        """The samples as solvers see them."""
        return Custom(self, list(X), list(y))

    @contextmanager
    def _reading_once(self) -> Iterator[None]:
        """Within it `size` and `encode` are given the same samples: what the first has read the second need not read again."""
        yield

    def check(self, X, y) -> None:
        """Refuse samples that this structure cannot read, in a sentence that names the sample."""


def _needed(structure, method: str) -> str:
    return f"{type(structure).__name__} does not define {method}."


def check_object(structure) -> None:
    """Refuse a class in the place of an object."""
    if isinstance(structure, type):
        raise TypeError(f"structure={structure.__name__} is a class: give an object of it, {structure.__name__}().")


S = TypeVar("S", bound=Structure)


def fresh(structure: S) -> S:
    """A copy that may learn labels and sizes: the user's own object stays as it was given."""
    return deepcopy(structure)
