"""What all tests share: repeatable property tests, where the real data lie, and an answer to Ctrl-C."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "maxmargin", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("maxmargin")


@pytest.fixture(scope="session")
def data_dir():
    """A function from the name of a real data set to its folder; the test is skipped, with the name, where it is absent."""
    root = Path(os.environ.get("MAXMARGIN_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")

    def find(name: str) -> Path:
        if not (root / name).is_dir():
            pytest.skip(f"data set {name} is absent: set MAXMARGIN_DATA to the folder that holds it")
        return root / name

    return find


@pytest.fixture
def default_handler():
    """Python's own answer to Ctrl-C, whatever runs the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)
