"""Parameters of solvers and structures: what `_parameter_constraints` does not allow is refused in one sentence."""

import numpy as np
import pytest

import maxmargin as mm
from maxmargin import solvers
from maxmargin.structures import Chain, Graph, Multiclass, Parts, Segmentation, Structure, Tree
from maxmargin.utils.parameters import NOT_NEGATIVE, POSITIVE, Parameters, at_least

STRUCTURES = (Chain(), Graph(), Multiclass(), Parts([]), Segmentation([1, 2]), Tree())
SOLVERS = tuple(kind() for kind in solvers.ALL)


@pytest.mark.parametrize("value", [True, np.nan, np.inf, -np.inf, "1", None, np.ones(1)])
def test_what_is_no_number(value):
    assert not any(kind.is_satisfied_by(value) for kind in (POSITIVE, NOT_NEGATIVE, at_least(0)))


def test_where_intervals_begin():
    assert POSITIVE.is_satisfied_by(1e-300) and not POSITIVE.is_satisfied_by(0.0)
    assert NOT_NEGATIVE.is_satisfied_by(0) and not NOT_NEGATIVE.is_satisfied_by(-1e-300)
    assert at_least(2).is_satisfied_by(np.int32(2)) and not at_least(2).is_satisfied_by(1)
    assert not at_least(2).is_satisfied_by(2.0)


@pytest.mark.parametrize("given", [*SOLVERS, *STRUCTURES], ids=lambda given: type(given).__name__)
def test_defaults_are_allowed(given):
    given._validate_params()


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_every_parameter_of_a_solver_is_held(solver):
    """A misspelt constraint holds nothing, and nobody would notice."""
    for name in solver.get_params():
        with pytest.raises(
            ValueError, match=f"The '{name}' parameter of {type(solver).__name__} must be .* Got 'nonsense' instead"
        ):
            type(solver)(**{name: "nonsense"}).check()


@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda structure: type(structure).__name__)
def test_every_constraint_of_a_structure_is_met(structure):
    own = [name for name in structure._parameter_constraints if name in structure.get_params()]
    assert own
    for name in own:
        with pytest.raises(ValueError, match=f"The '{name}' parameter of {type(structure).__name__} must be"):
            structure.__class__(**structure.get_params() | {name: "nonsense"}).size([np.ones((1, 1))], [[0]])


def test_parameters_without_constraints():
    """Those of a structure or solver of one's own may be anything."""

    class Own(Parameters):
        def __init__(self, anything=None):
            self.anything = anything

    Own(object())._validate_params()

    class Signs(Structure):
        def __init__(self, scale=None):
            self.scale = scale

        def size(self, X, y):
            self._validate_params()
            return 1

        def joint_feature(self, x, y):
            return np.array([self.scale["factor"] * x * y])

        def loss(self, y_true, y):
            return float(y_true != y)

        def decode(self, w, x):
            return max((-1, 1), key=lambda y: w @ self.joint_feature(x, y))

        def loss_augmented_decode(self, w, x, y_true):
            return max((-1, 1), key=lambda y: w @ self.joint_feature(x, y) + self.loss(y_true, y))

    model = mm.StructuredSVM(Signs({"factor": 2.0})).fit([1.0, -1.0, 2.0], [1, -1, 1])
    assert model.certificate_.converged


def test_a_chain_of_ones_own_keeps_the_constraints_of_chain():
    class Named(Chain):
        def __init__(self, n_labels=None, name="anything"):
            super().__init__(n_labels)
            self.name = name

    X, y = [np.ones((2, 1))], [[0, 1]]
    assert Named(2, name=object()).size(X, y) == Chain(2).size(X, y)
    with pytest.raises(ValueError, match="The 'n_labels' parameter of Named must be an int in the range"):
        Named(1).size(X, y)
