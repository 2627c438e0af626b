"""What all tests share: repeatable property tests and an answer to Ctrl-C."""

import signal

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "maxmargin", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("maxmargin")


@pytest.fixture
def default_handler():
    """Python's own answer to Ctrl-C, whatever runs the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)
