"""cvxpy, imported when something of it is first asked for: tests on a GPU do without."""

from importlib import import_module


def __getattr__(name: str):
    return getattr(import_module("cvxpy"), name)
