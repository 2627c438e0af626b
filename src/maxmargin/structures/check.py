"""`check_structure`: holds the methods of a structure against brute force."""

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from .base import Structure, check_object, fresh
from .encoded.met import numbers_in
from .latent import Completed, LatentStructure, completed

TEMPERATURES = (3.0, 1.0, 0.3)
RANDOM_OUTPUTS = 10  # of each decoder, where the outputs cannot be listed
RELATIVE = 1e-6  # what rounding may cost, relative to the largest number compared


class StructureError(ValueError):
    """A method of a structure does not do what its contract says."""


def check_structure(structure: Structure, X, y, *, w=None, outputs=None, random_state=0, max_outputs: int = 4096) -> None:
    """Test every method of a structure on these samples; a `StructureError` names the first that is wrong, and the sample.

    Where all outputs of a sample can be listed, decode, loss_augmented_decode, marginals and expect are compared with the
    list. Where they cannot, necessary conditions are tested: no output that is known (that of y and what both decoders find with
    random weights) may beat a decoded one.

    Parameters
    ----------
    structure : Structure or LatentStructure
        Stays as it is: a copy is tested. Of a latent structure, `impute` is tested too; its outputs are pairs (y, z).
    X, y : sequences of samples and their true outputs
        A few small ones.
    w : array of shape (size,), optional
        Weights to test at. By default random ones are drawn, and zero weights are tried too.
    outputs : list, or callable x -> list, optional
        All outputs, of every sample or of a given one. Not needed where the structure has `every_output` (and, if it is a latent
        one, `every_hidden`), as those of this package do.
    random_state : int, RandomState instance or None, default=0
    max_outputs : int, default=4096
        Samples with more outputs than this are not enumerated.
    """
    check_object(structure)
    if not isinstance(structure, Structure):
        raise TypeError(f"structure must be a maxmargin.Structure, got {structure!r}.")
    if sp.issparse(X):
        X = [X[[i]] for i in range(X.shape[0])]
    if len(X) != len(y):
        raise ValueError(f"X has {len(X)} samples, y has {len(y)}.")
    if len(X) == 0:
        raise ValueError("There are no samples: X is empty.")
    structure, random = fresh(structure), check_random_state(random_state)
    if isinstance(structure, LatentStructure):
        zero = np.zeros(_size(structure, X, y))
        y = [(output, structure.impute(zero, x, output)) for x, output in zip(X, y)]
        structure = completed(structure)
    dim = _size(structure, X, y)
    weights = [random.normal(size=dim), np.zeros(dim)] if w is None else [np.asarray(w, dtype=np.float64)]
    if weights[0].shape != (dim,):
        raise ValueError(f"w must have {dim} entries, as size(X, y) says; its shape is {weights[0].shape}.")
    for i in range(len(X)):
        try:
            _check_sample(structure, i, X, y, dim, weights, outputs, random, max_outputs)
        except Exception as error:  # raised again: the user's own error only lacks the number of the sample
            if not isinstance(error, StructureError):
                error.add_note(f"This was raised while sample {i} was checked.")
            raise


def _size(structure: Structure, X, y) -> int:
    dim = structure.size(X, y)
    if isinstance(dim, bool) or not isinstance(dim, int | np.integer) or dim < 1:
        raise StructureError(f"size(X, y) must return a positive integer, the number of weights; got {dim!r}.")
    return int(dim)


def _check_sample(structure, i: int, X, y, dim: int, weights: list, outputs, random, most: int) -> None:
    sample = _Sample(structure, i, X[i], y[i], dim)
    listed = _listed(structure, X[i], y[i], outputs, most)
    if listed is None:
        # An output of another sample need not be one of this.
        known, draws = [y[i]], [random.normal(size=dim) for _ in range(RANDOM_OUTPUTS)]
        for each in draws:
            known.append(sample.decoded("decode(w, x)", structure.decode(each, X[i])))
            known.append(sample.decoded("loss_augmented_decode(w, x, y_true)", structure.loss_augmented_decode(each, X[i], y[i])))
        if isinstance(structure, Completed):
            known += [(y[i][0], structure.latent.impute(each, X[i], y[i][0])) for each in draws]
        sample.know(known, complete=False)
    else:
        sample.know(listed, complete=True)
    for each in weights:
        sample.check_decoders(each)
        if isinstance(structure, Completed):
            sample.check_impute(structure.latent, each)
    if structure._has_marginals():
        sample.check_marginals(weights[0], 0.5 * random.normal(size=dim))


def _listed(structure: Structure, x, y, outputs, most: int) -> list | None:
    if outputs is None:
        return structure.every_output(x, y, most)
    found = outputs(x) if callable(outputs) else outputs
    if found is None or len(found) > most:
        return None
    if len(found) == 0:
        raise ValueError("outputs must list at least one output for each sample.")
    return list(found)


class _Sample:
    """One sample with the features and losses of its known outputs."""

    def __init__(self, structure: Structure, i: int, x, y, dim: int):
        self.structure, self.i, self.x, self.y, self.dim = structure, i, x, y, dim
        if self._loss(y) != 0.0:
            self._wrong("loss(y_true, y)", f"it is {self._loss(y):g} for the true output itself, where it must be 0")
        change = np.abs(self._feature(y) - self._feature(y)).max()
        if change > 0.0:
            self._wrong("joint_feature(x, y)", f"two calls with the true output differ, by up to {change:g}")

    def know(self, outputs: list, *, complete: bool) -> None:
        """Take these outputs; `complete` says that there are no others."""
        self.known, self.complete = outputs, complete
        self.features = np.array([self._feature(output) for output in outputs])
        self.losses = np.array([self._loss(output) for output in outputs])

    def _wrong(self, method: str, why: str) -> None:
        name = type(self.structure.latent if isinstance(self.structure, Completed) else self.structure).__name__
        raise StructureError(f"{method} of {name} is wrong for sample {self.i}: {why}.")

    def _feature(self, output) -> np.ndarray:
        feature = np.asarray(self.structure.joint_feature(self.x, output))
        if feature.shape != (self.dim,):
            self._wrong("joint_feature(x, y)", f"it has shape {feature.shape}, where size(X, y) = {self.dim} says ({self.dim},)")
        if feature.dtype.kind not in "fiub" or not np.all(np.isfinite(feature)):
            self._wrong("joint_feature(x, y)", f"it holds something that is not a finite number, for the output {output!r}")
        return feature.astype(np.float64)

    def _loss(self, output) -> float:
        given = numbers_in(self.structure.loss(self.y, output))
        if given.dtype == object or given.size != 1:
            self._wrong("loss(y_true, y)", f"it returned {self.structure.loss(self.y, output)!r}, where a number is needed")
        loss = float(given.item())
        if not np.isfinite(loss) or loss < 0.0:
            self._wrong("loss(y_true, y)", f"it is {loss:g} for the output {output!r}; it must be finite and not negative")
        return loss

    # ---- the best output ----------------------------------------------------------------------------------

    def check_decoders(self, w: np.ndarray) -> None:
        scores = self.features @ w
        found = self.decoded("decode(w, x)", self.structure.decode(w, self.x))
        self._compare("decode(w, x)", "w . phi", found, float(self._feature(found) @ w), scores)
        found = self.decoded("loss_augmented_decode(w, x, y_true)", self.structure.loss_augmented_decode(w, self.x, self.y))
        value = float(self._feature(found) @ w) + self._loss(found)
        self._compare("loss_augmented_decode(w, x, y_true)", "w . phi + loss", found, value, scores + self.losses)

    def decoded(self, method: str, found: Any) -> Any:
        """What a decoder returned, if it can be an output."""
        if found is None:
            self._wrong(method, "it returned None")
        if isinstance(self.structure, Completed) and (not isinstance(found, tuple) or len(found) != 2):
            self._wrong(method, f"it returned {found!r}, where a pair (y, z) is needed")
        return found

    def _compare(self, method: str, what: str, found: Any, value: float, values: np.ndarray) -> None:
        best = int(values.argmax())
        slack = RELATIVE * (1.0 + np.abs(values).max())
        if value < values[best] - slack:
            self._wrong(method, f"{found!r} has {what} = {value:.9g}, but {self.known[best]!r} has {values[best]:.9g}")
        if self.complete and value > values[best] + slack:
            self._wrong(
                method, f"{found!r} has {what} = {value:.9g}, more than any listed output ({values[best]:.9g}): it is not one"
            )

    def check_impute(self, latent: LatentStructure, w: np.ndarray) -> None:
        """Against the hidden parts of the true output among the known outputs."""
        mine = [k for k, (output, _) in enumerate(self.known) if np.array_equal(output, self.y[0])]
        found = self.y[0], latent.impute(w, self.x, self.y[0])
        values = self.features[mine] @ w if mine else np.zeros(0)
        value = float(self._feature(found) @ w)
        if mine and value < values.max() - RELATIVE * (1.0 + np.abs(values).max()):
            best = self.known[mine[int(values.argmax())]]
            self._wrong("impute(w, x, y)", f"{found[1]!r} has w . phi = {value:.9g}, but {best[1]!r} has {values.max():.9g}")

    # ---- marginals ----------------------------------------------------------------------------------------

    def check_marginals(self, w: np.ndarray, other: np.ndarray) -> None:
        start = self.structure.marginals(other, self.x, self.y, 1.0)
        found = {}
        for base, name in ((None, "without base"), (start, "with base")):
            for temperature in (np.inf, *TEMPERATURES):
                m = self.structure.marginals(w, self.x, self.y, temperature, base)
                found[name, temperature] = m, *self._expect(m)
        if self.complete:
            first = self.features @ other + self.losses
            for (name, temperature), (_, feature, loss) in found.items():
                logs = (self.features @ w + self.losses) / temperature + (0.0 if name == "without base" else first)
                self._compare_expectations(logs, feature, loss, f"at temperature {temperature:g}, {name}")
        else:
            self._check_order(w, [found["without base", temperature][1:] for temperature in TEMPERATURES])
        self._check_mix(found["without base", 1.0], found["with base", 1.0])

    def _expect(self, m) -> tuple[np.ndarray, float]:
        feature, loss = self.structure.expect(self.x, self.y, m)
        feature = np.asarray(feature, dtype=np.float64)
        if feature.shape != (self.dim,):
            self._wrong("expect(x, y_true, m)", f"its feature has shape {feature.shape}, where ({self.dim},) is needed")
        if not np.all(np.isfinite(feature)) or not np.isfinite(loss):
            self._wrong("expect(x, y_true, m)", "it holds NaN or infinity")
        return feature, float(loss)

    def _compare_expectations(self, logs: np.ndarray, feature: np.ndarray, loss: float, when: str) -> None:
        p = np.exp(logs - logs.max())
        p /= p.sum()
        expected, slack = p @ self.features, RELATIVE * (1.0 + np.abs(self.features).max())
        k = int(np.abs(feature - expected).argmax())
        method = "marginals(w, x, y_true, temperature, base), or expect(x, y_true, m),"
        if abs(feature[k] - expected[k]) > slack:
            self._wrong(
                method,
                f"{when}, entry {k} of the expected feature is {feature[k]:.9g}; the Gibbs distribution has {expected[k]:.9g}",
            )
        if abs(loss - p @ self.losses) > RELATIVE * (1.0 + self.losses.max()):
            self._wrong(method, f"{when}, the expected loss is {loss:.9g}; the Gibbs distribution has {p @ self.losses:.9g}")

    def _check_order(self, w: np.ndarray, expectations: list[tuple[np.ndarray, float]]) -> None:
        """The colder, the larger is the expectation of w . phi + loss; and never larger than its maximum."""
        best = self.structure.loss_augmented_decode(w, self.x, self.y)
        values = [float(feature @ w) + loss for feature, loss in expectations]
        values.append(float(self._feature(best) @ w) + self._loss(best))
        slack = RELATIVE * (1.0 + np.abs(values).max())
        for warm, cold in pairwise(values):
            if cold < warm - slack:
                self._wrong(
                    "marginals(w, x, y_true, temperature, base), or expect(x, y_true, m),",
                    f"the expectation of w . phi + loss falls from {warm:.9g} to {cold:.9g} with the temperature",
                )

    def _check_mix(self, one: tuple, other: tuple, gamma: float = 0.25) -> None:
        feature, loss = self._expect(self.structure.mix(one[0], other[0], gamma))
        expected = (1.0 - gamma) * one[1] + gamma * other[1], (1.0 - gamma) * one[2] + gamma * other[2]
        error = max(np.abs(feature - expected[0]).max(), abs(loss - expected[1]))
        if error > RELATIVE * (1.0 + max(np.abs(expected[0]).max(), abs(expected[1]))):
            self._wrong(
                "mix(m, other, gamma), or expect(x, y_true, m),",
                f"the expectation of a mixture differs by {error:g} from the mixture of the expectations",
            )
