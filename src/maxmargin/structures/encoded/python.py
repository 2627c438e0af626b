"""A user's own structure, in plain Python, seen through the generic functions that solvers use.

A code is one number: the place of an output in the list of those that its sample has met; 0 is the true one. Kernels that
get such samples run uncompiled: the user's methods take the time anyway.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...jit import Interpreted
from ...utils.state import RunState, put_together, read_back, spelled, taken_apart
from . import contract
from .met import STRAYED, Known, check_output, compact, dot_compact, expand, numbers_in, strayed
from .processes import checked_way, for_all_samples

DISAGREE = 1e-6  # by how much, relatively, an oracle's answer may be worse than the true output


class Custom(Interpreted):
    """Samples of a structure that is not compiled."""

    foreseen: tuple[str, np.ndarray, list] | None = None  # a method, weights and what it says of all samples there

    def __init__(self, structure: Any, X: list, y: list):
        self.structure, self.X, self.y = structure, X, y
        checked_way(structure)
        if len(X) != len(y):
            raise ValueError(f"X has {len(X)} samples, y has {len(y)}.")
        self.dim = 0
        self.known: list[dict[int, Known]] = []
        self.next = [1] * len(X)
        for i, (x, output) in enumerate(zip(X, y, strict=True)):
            loss = self.loss(i, output)
            if abs(loss) > 0.0:
                raise ValueError(f"loss(y, y) must be zero; for sample {i} {self.name} says {loss:g}.")
            feature = self.feature(i, x, output)
            if i == 0:
                self.dim = feature.size
            self.known.append({0: Known(output, feature, 0.0)})

    @property
    def name(self) -> str:
        return type(self.structure).__name__

    def threads(self, n_jobs: int) -> int:
        """How many may ask at the same time, of so many: one, unless the structure says that its methods may run on threads."""
        return n_jobs if checked_way(self.structure) == "threads" else 1

    @contextmanager
    def ahead(self, method: str, w: np.ndarray, n_jobs: int, more: list[tuple] | None = None) -> Iterator[None]:
        """Within it what a method says of all samples is known, where other processes can find it. `more`: what it takes besides
        of each sample."""
        if checked_way(self.structure) == "processes" and n_jobs > 1:
            samples = [(x, y, *rest) for x, y, rest in zip(self.X, self.y, more or repeat(()), strict=more is not None)]
            self.foreseen = method, w.copy(), for_all_samples(self.structure, method, w, samples, n_jobs)
        try:
            yield
        finally:
            self.foreseen = None

    def asked(self, method: str, i: int, w: np.ndarray, *more) -> Any:
        """What a method says of sample i."""
        if self.foreseen is not None and self.foreseen[0] == method and np.array_equal(self.foreseen[1], w):
            return self.foreseen[2][i]
        return getattr(self.structure, method)(w, self.X[i], self.y[i], *more)

    def feature(self, i: int, x, output, decoder: str | None = None) -> np.ndarray:
        """`decoder`: the method that the output comes from, where that is not y."""
        try:
            vector: Any = self.structure.joint_feature(x, output)
        except STRAYED as error:
            raise self.unfit(i, output, decoder, "joint_feature", error) from error
        vector = vector.toarray() if sp.issparse(vector) else vector
        return self.checked(i, vector, "joint_feature")

    def unfit(self, i: int, output, decoder: str | None, method: str, error: Exception) -> Exception:
        """What an error in a method of the user's says: where an oracle gave the output, that may be the wrong one."""
        if decoder is None:
            error.add_note(f"{self.name}.{method} raised this for sample {i}.")
            return error
        return strayed(self.name, decoder, i, output, method, error)

    def checked(self, i: int, vector, method: str) -> np.ndarray:
        result = numbers_in(vector).ravel()
        if result.dtype == object:
            raise ValueError(f"{self.name}.{method} must return a vector of numbers; for sample {i} it returned {vector!r}.")
        if self.dim and result.size != self.dim:
            raise ValueError(
                f"{self.name}.{method} returned {result.size} numbers for sample {i}; the model has {self.dim} weights."
            )
        if not np.all(np.isfinite(result)):
            raise ValueError(f"{self.name}.{method} returned NaN or infinity for sample {i}.")
        return result

    def loss(self, i: int, output, decoder: str | None = None) -> float:
        try:
            found = self.structure.loss(self.y[i], output)
        except STRAYED as error:
            raise self.unfit(i, output, decoder, "loss", error) from error
        return self.checked_loss(i, found, "loss")

    def checked_loss(self, i: int, found, method: str) -> float:
        given = numbers_in(found)
        if given.dtype == object or given.size != 1:
            raise ValueError(f"{self.name}.{method} must return a number for the loss; for sample {i} it returned {found!r}.")
        value = float(given.item())
        if not np.isfinite(value) or value < 0.0:
            raise ValueError(f"{self.name}.{method} must be finite and not negative; for sample {i} it returned {value:g}.")
        return value

    def expected(self, i: int, marginals) -> tuple[np.ndarray, float]:
        """What `expect` says of these marginals."""
        if marginals is None:
            raise ValueError(f"{self.name}.marginals returned None for sample {i}; marginals are needed.")
        found: Any = self.structure.expect(self.X[i], self.y[i], marginals)
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise ValueError(f"{self.name}.expect must return (feature, loss); for sample {i} it returned {found!r}.")
        return self.checked(i, found[0], "expect"), self.checked_loss(i, found[1], "expect")

    def check_decoded(self, i: int, output) -> None:
        """Refuse what no output can be."""
        check_output(self.name, "loss_augmented_decode", i, output)

    def code_of(self, i: int, output) -> int:
        """The number of this output; outputs with the same features and loss are one."""
        self.check_decoded(i, output)
        decoder = "loss_augmented_decode"
        known = Known(output, self.feature(i, self.X[i], output, decoder), self.loss(i, output, decoder))
        for code, other in self.known[i].items():
            if other.loss == known.loss and np.array_equal(expand(other.feature), expand(known.feature)):
                return code
        code = self.next[i]
        self.next[i] += 1
        self.known[i][code] = known
        return code


class CustomScratch(Interpreted):
    """Scratch: the weights in use, and the difference as a vector and a loss."""

    def __init__(self, data: Custom):
        self.code = np.zeros(1, np.int32)
        self.w = np.zeros(data.dim)
        self.other = np.zeros(data.dim)
        self.feature = np.zeros(data.dim)
        self.loss = 0.0
        self.target: Any = None


@contract.n_samples.register(Custom)
def _(data):
    return len(data.X)


@contract.truths.register(Custom)
def _(data):
    return np.zeros(len(data.X), np.int32), np.ones(len(data.X), np.int64)


@contract.weight_shape.register(Custom)
def _(data):
    return (data.dim,)


@contract.nonnegative.register(Custom)
def _(data):
    found = np.asarray(data.structure.nonnegative())
    if found.size == 0:
        return np.zeros(0, np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= data.dim:
        raise ValueError(f"{data.name}.nonnegative must return numbers of weights, from 0 to {data.dim - 1}; got {found!r}.")
    return np.unique(found).astype(np.int64)


@contract.same_shapes.register(Custom)
def _(data, other):
    return other is data  # outputs in plain Python are known to their own samples only


@contract.output_of.register(Custom)
def _(data, structure, i, code):
    return data.known[i][int(code[0])].output


def outputs_met(knowns: list[dict[int, Known]], following: list[int]) -> RunState:
    """The outputs that samples have met, and the next code of each."""
    found: RunState = {"met.next": np.array(following)}
    for i, known in enumerate(knowns):
        found[f"met.{i}.codes"] = codes = np.array([code for code in known if code != 0], np.int64)
        for code in codes:
            found |= spelled(known[int(code)].output, f"met.{i}.{code}")
    return found


@contract.met.register(Custom)
def _(data):
    return outputs_met(data.known, data.next)


@contract.meet.register(Custom)
def _(data, state):
    data.next = state["met.next"].tolist()
    for i, x in enumerate(data.X):
        data.known[i] = {0: data.known[i][0]}
        for code in state[f"met.{i}.codes"].tolist():
            output = read_back(f"met.{i}.{code}", state)
            data.known[i][code] = Known(output, data.feature(i, x, output), data.loss(i, output))


@contract.new_scratch.register(Custom)
def _(data):
    return CustomScratch(data)


@contract.length.register(Custom)
def _(data, i):
    return 1


@contract.truth.register(Custom)
def _(data, i, code):
    code[0] = 0


@contract.prepare.register(Custom)
def _(data, i, W, scratch):
    scratch.w[:] = W


@contract.worst.register(Custom)
def _(data, i, scratch, code):
    output = data.asked("loss_augmented_decode", i, scratch.w)
    code[0] = data.code_of(i, output)
    found, true = data.known[i][int(code[0])], data.known[i][0]
    value, least = dot_compact(found.feature, scratch.w) + found.loss, dot_compact(true.feature, scratch.w)
    if value < least - DISAGREE * (1.0 + abs(least)):
        raise ValueError(
            f"{data.name}.loss_augmented_decode is wrong for sample {i}: its answer is worth {value:g} (score plus loss), "
            f"the true output {least:g}. maxmargin.check_structure shows more."
        )
    return value


@contract.score_of.register(Custom)
def _(data, i, scratch, code):
    return dot_compact(data.known[i][int(code[0])].feature, scratch.w)


@contract.loss_of.register(Custom)
def _(data, i, code):
    return data.known[i][int(code[0])].loss


@contract.forget.register(Custom)
def _(data, i, code):
    if code[0] != 0:
        del data.known[i][int(code[0])]


@contract.diameter.register(Custom)
def _(data, i):
    raise ValueError(
        f"temperature='auto' needs a structure of this package; {data.name} does not say how far its outputs lie apart."
    )


@contract.against.register(Custom)
def _(data, i, scratch, code):
    scratch.other[:] = expand(data.known[i][int(code[0])].feature)


@contract.inner.register(Custom)
def _(data, i, scratch, code):
    return dot_compact(data.known[i][int(code[0])].feature, scratch.other)


@contract.clear.register(Custom)
def _(data, i, scratch):
    scratch.feature[:] = 0.0
    scratch.loss = 0.0


@contract.tally.register(Custom)
def _(data, i, t, code, scratch):
    known = data.known[i][int(code[0])]
    scratch.feature += t * expand(known.feature)
    scratch.loss += t * known.loss


@contract.push.register(Custom)
def _(data, i, t, scratch, W):
    W += t * scratch.feature


@contract.measure.register(Custom)
def _(data, i, scratch):
    return float(scratch.w @ scratch.feature) + scratch.loss, float(scratch.feature @ scratch.feature)


# ---- points ----------------------------------------------------------------------------------------------


class CustomMixtures(Interpreted):
    """The joint features and the loss of a mixture of outputs, for each sample."""

    def __init__(self, feature: list, loss: list[float]):
        self.feature, self.loss = feature, loss


class CustomMarginals(CustomMixtures):
    """Marginals as the structure defines them, with the features and the loss that they have."""

    def __init__(self, structure: Any, marginals: list, feature: list, loss: list[float]):
        super().__init__(feature, loss)
        self.structure, self.marginals = structure, marginals


@taken_apart.register
def _(value: CustomMixtures, name):
    rows = sp.csr_array(np.stack([expand(feature) for feature in value.feature]))
    parts = {"values": rows.data, "columns": rows.indices, "starts": rows.indptr, "losses": np.array(value.loss)}
    return {f"{name}.{part}": array for part, array in parts.items()}


@put_together.register
def _(like: CustomMixtures, name, state, within=False):
    values, columns, starts, losses = (state[f"{name}.{part}"] for part in ("values", "columns", "starts", "losses"))
    rows = sp.csr_array((values, columns, starts), shape=(len(losses), expand(like.feature[0]).size))
    return CustomMixtures([compact(row) for row in rows.toarray()], losses.tolist())


@taken_apart.register
def _(value: CustomMarginals, name):
    found = taken_apart.dispatch(CustomMixtures)(value, name)
    for i, marginals in enumerate(value.marginals):
        found |= spelled(marginals, f"{name}.marginals.{i}")
    return found


@put_together.register
def _(like: CustomMarginals, name, state, within=False):
    found = put_together.dispatch(CustomMixtures)(like, name, state)
    marginals = [read_back(f"{name}.marginals.{i}", state) for i in range(len(found.loss))]
    return CustomMarginals(like.structure, marginals, found.feature, found.loss)


@contract.kind_of.register(CustomMixtures)
def _(points):
    return "marginals" if isinstance(points, CustomMarginals) else "mixtures"


@contract.statistics_of.register(CustomMixtures)
def _(points, data, i, weight):
    if isinstance(points, CustomMarginals):
        return points.structure.mix(points.marginals[i], points.marginals[i], 0.0)
    return {"feature": points.feature[i], "loss": points.loss[i]}


@contract.vertices.register(Custom)
def _(data):
    return CustomMixtures([known[0].feature for known in data.known], [0.0] * len(data.X))


@contract.lacks_marginals.register(Custom)
def _(data):
    if data.structure._has_marginals():
        return None
    return (
        f"{data.name} defines no marginals and expect, which partial linearization and exponentiated gradient need; "
        "FrankWolfe and DualCoordinate do without."
    )


@contract.interior.register(Custom)
def _(data, spread):
    found = CustomMarginals(data.structure, [], [], [])
    for i, (x, y) in enumerate(zip(data.X, data.y, strict=True)):
        marginals = data.structure.marginals(np.zeros(data.dim), x, y, np.inf)
        feature, loss = data.expected(i, marginals)
        found.marginals.append(marginals)
        found.feature.append(compact(feature))
        found.loss.append(loss)
    return found


@contract.direct.register(CustomMixtures)
def _(points, data, i, scratch, temperature):
    contract.worst(data, i, scratch, scratch.code)
    contract.clear(data, i, scratch)
    contract.tally(data, i, 1.0, scratch.code, scratch)
    contract.withdraw(points, data, i, scratch)
    for code in [code for code in data.known[i] if code != 0]:  # a mixture remembers no outputs
        del data.known[i][code]


@contract.direct.register(CustomMarginals)
def _(points, data, i, scratch, temperature):
    scratch.target = data.asked("marginals", i, scratch.w.copy(), temperature, points.marginals[i])
    scratch.feature[:], scratch.loss = data.expected(i, scratch.target)
    contract.withdraw(points, data, i, scratch)


@contract.withdraw.register(CustomMixtures)
def _(points, data, i, scratch):
    scratch.feature -= expand(points.feature[i])
    scratch.loss -= points.loss[i]


@contract.step_towards.register(CustomMixtures)
def _(points, data, i, gamma, scratch):
    points.feature[i] = compact(expand(points.feature[i]) + gamma * scratch.feature)
    points.loss[i] += gamma * scratch.loss


@contract.step_towards.register(CustomMarginals)
def _(points, data, i, gamma, scratch):
    points.marginals[i] = data.structure.mix(points.marginals[i], scratch.target, gamma)
    points.feature[i] = compact(expand(points.feature[i]) + gamma * scratch.feature)
    points.loss[i] += gamma * scratch.loss


@contract.expected_loss.register(CustomMixtures)
def _(points, data, i):
    return points.loss[i]


@contract.copied.register(CustomMixtures)
def _(points):
    return CustomMixtures(list(points.feature), list(points.loss))


@contract.copied.register(CustomMarginals)
def _(points):
    return CustomMarginals(points.structure, list(points.marginals), list(points.feature), list(points.loss))


@contract.blend.register(CustomMixtures)
def _(points, others, gamma):
    for i, (mine, other) in enumerate(zip(points.feature, others.feature, strict=True)):
        points.feature[i] = compact((1.0 - gamma) * expand(mine) + gamma * expand(other))
        points.loss[i] = (1.0 - gamma) * points.loss[i] + gamma * others.loss[i]


@contract.blend.register(CustomMarginals)
def _(points, others, gamma):
    contract.blend.dispatch(CustomMixtures)(points, others, gamma)
    for i, (mine, other) in enumerate(zip(points.marginals, others.marginals, strict=True)):
        points.marginals[i] = points.structure.mix(mine, other, gamma)
