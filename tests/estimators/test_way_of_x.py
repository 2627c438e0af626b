"""The way of X from `fit` to the problem, traced: where it stays, and that nobody hands it back up."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.source_tree import PACKAGE

import maxmargin as mm
from maxmargin.data.table import Table
from maxmargin.problems.base import Problem

rng = np.random.default_rng(0)
X = rng.normal(size=(20, 3))
TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
MODELS = {
    "two classes": (mm.SVMClassifier(), (X[:, 0] > 0).astype(int)),
    "three classes": (mm.SVMClassifier(), np.arange(20) % 3),
    "regression": (mm.SVMRegressor(), X[:, 0]),
    "top-k": (mm.TopKSVMClassifier(k=2), np.arange(20) % 4),
    "labels": (mm.MultilabelSVMClassifier(), (X > 0).astype(int)),
}


class PosedError(Exception):
    """The problem is there."""


class Stop(mm.DualCoordinate):
    def serves(self, problem):
        assert isinstance(problem, Problem)
        raise PosedError


def holds(value) -> bool:
    """Whether it is X, or keeps it."""
    if isinstance(value, np.ndarray):
        return value.shape == X.shape and np.shares_memory(value, X)
    parts = value if isinstance(value, tuple) else vars(value).values() if isinstance(value, Table) else ()
    return any(holds(part) for part in parts)


def file_of(frame) -> str | None:
    """The file of the package that a frame belongs to."""
    name = "" if frame is None else frame.f_code.co_filename
    return Path(name).relative_to(PACKAGE).as_posix() if name.startswith(str(PACKAGE)) else None


def way(model, y) -> tuple[list[str], list[tuple[str, str]]]:
    """The stays of X, files whose functions take it and give it on, in order; and who called whom with it."""
    stays, calls = [], []

    def trace(frame, event, argument):
        file, above, code = file_of(frame), file_of(frame.f_back), frame.f_code
        if file is None or not any(holds(frame.f_locals.get(name)) for name in code.co_varnames[: code.co_argcount]):
            return
        if event == "call" and above is not None:
            calls.append((above, file))
        if event == "return" and holds(argument) and file not in stays:
            stays.append(file)

    sys.setprofile(trace)
    try:
        with pytest.raises(PosedError):
            model.set_params(solver=Stop()).fit(X, y)
    finally:
        sys.setprofile(None)
    return stays, calls


def listed() -> list[str]:
    part = TEXT[TEXT.index("## The way of X") :]
    lines = re.findall(r"^\d\. .*$", part[: part.index("\n## ", 1)], re.MULTILINE)
    assert len(lines) == 6
    return [file for line in lines for file in re.findall(r"`([\w/]+\.py)`", line)]


@pytest.mark.parametrize("name", MODELS)
def test_x_stays_where_the_list_says_and_is_not_handed_up(name):
    stays, calls = way(*MODELS[name])
    assert 4 <= len(stays) <= 6
    assert stays == [file for file in listed() if file in stays]
    for caller, callee in calls:
        assert caller.startswith("estimators/") or not callee.startswith("estimators/"), (caller, callee)
