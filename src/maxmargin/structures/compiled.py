"""The Python face of structures that are compiled: what follows from `encode`, `flatten` and `unflatten`."""

import numpy as np
import scipy.sparse as sp

from ..utils.threads import in_threads, spans
from .base import Structure
from .encoded import contract
from .encoded.statistics import starts
from .encoded.sweeps import reach_targets, worst_all


class Compiled(Structure):
    """A structure whose `encode` makes arrays that the verbs of `encoded/contract.py` are compiled for."""

    def decode(self, w, x):
        return self.decode_all(w, [x])[0]

    def decode_all(self, w, X, n_jobs: int = 1) -> list:
        """The best output of each sample."""
        return self.decode_packed(self.unflatten(w), X, n_jobs)

    def decode_packed(self, W, X, n_jobs: int = 1) -> list:
        return self._worst_all(W, X, None, n_jobs)[0]

    def decode_scored(self, W, X, n_jobs: int = 1) -> tuple[list, np.ndarray]:
        return self._worst_all(W, X, None, n_jobs)

    def loss_augmented_decode(self, w, x, y_true):
        return self._worst_all(self.unflatten(w), [x], [y_true])[0][0]

    def _worst_all(self, W, X, y, n_jobs: int = 1) -> tuple[list, np.ndarray]:
        """The best output of each sample, and w . phi of it, with the loss where y is given."""
        if no_samples(X):
            return [], np.zeros(0)
        data = self._decodable(X, y)
        assert W.shape == contract.weight_shape(data)
        start = starts(contract.truths(data)[1])
        codes, values = np.zeros(int(start[-1]), np.int32), np.zeros(start.size - 1)

        def work(part: tuple[int, int]) -> None:
            first, last = part
            own = codes[start[first] : start[last]], values[first:last]
            worst_all(data, W, contract.new_scratch(data), *own, first, last)

        in_threads(work, spans(start.size - 1, n_jobs), n_jobs)
        return self._decoded(data, codes, start), values

    def _decodable(self, X, y):
        """The samples encoded, as far as decoding needs."""
        return self.encode(X, y)

    def _decoded(self, data, codes: np.ndarray, start: np.ndarray) -> list:
        """The outputs of codes, one after another."""
        return [contract.output_of(data, self, i, code) for i, code in enumerate(np.split(codes, start[1:-1]))]

    def marginals(self, w, x, y_true, temperature, base=None):
        """For a structure that defines `expect`: marginals of its parts, as a dictionary of arrays."""
        data = self.encode([x], [y_true])
        points = contract.interior(data, 1.0) if base is None else contract.points_of(data, base)
        reach_targets(points, data, self.unflatten(w), contract.new_scratch(data), float(temperature), 0, 1)
        return contract.marginals_of(data, points)


def no_samples(X) -> bool:
    return hasattr(X, "__len__") and not sp.issparse(X) and len(X) == 0
