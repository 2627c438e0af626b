"""Weights some of which must not be negative: what is computed in memory that is there already."""

import numpy as np
import pytest

from maxmargin.solvers.polytope.signed import given_up, gone_on, space_of, unclipped_copy, unclipped_into


@pytest.mark.parametrize("bound", [[], [0, 5, 7]])
def test_extrapolation_in_place(bound):
    rng = np.random.default_rng(0)
    v, before = rng.normal(size=(2, 3, 4))
    space = space_of(v.copy(), np.array(bound, np.int64))
    np.testing.assert_array_equal(unclipped_copy(space), v)
    wanted, memory = v + 0.7 * (v - before), before.copy()
    found = gone_on(space, memory, 0.7)
    assert found is memory
    np.testing.assert_array_equal(found, wanted)
    assert unclipped_into(space, found) is memory
    np.testing.assert_array_equal(found, v)
    np.testing.assert_array_equal(given_up(space), v)
