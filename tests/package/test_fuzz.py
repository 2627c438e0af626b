"""Random problems of `make fuzz`, six rounds of all kinds in turn, with few types and few passes."""

import pytest
from fuzz.order import ORDER
from fuzz.problems import solved

SEED = 13
ROUNDS = 6


@pytest.mark.compiled
@pytest.mark.parametrize("place", range(len(ORDER)), ids=[f"{kind} {place}" for place, kind in enumerate(ORDER)])
def test_nothing_is_found(place):
    found = {}
    for number in range(place, ROUNDS * len(ORDER), len(ORDER)):
        outcome = solved(SEED, number, quick=True)
        if outcome.findings:
            found[f"--quick --only {SEED}:{number}"] = outcome.findings
    assert not found


@pytest.mark.compiled
@pytest.mark.parametrize("part", range(4))
def test_fine_targets_are_met(part):
    """A hundred of the kind "tight": certified soon, or at the limit of float64."""
    found = {}
    for number in range(part, 100, 4):
        outcome = solved(SEED, number, quick=True, kind="tight")
        if outcome.findings:
            found[f"--quick --kind tight --only {SEED}:{number}"] = outcome.findings
    assert not found


@pytest.mark.compiled
@pytest.mark.parametrize("number", [1466, 1645, 2392, 3425, 4400])
def test_fine_targets_that_were_once_missed(number):
    assert not solved(103, number, kind="tight").findings
