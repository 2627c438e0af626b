"""What all tests share: their order, repeatable property tests and an answer to Ctrl-C."""

import re
import signal
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

pytest.register_assert_rewrite("helpers")  # as if what is asserted there stood in the tests
if find_spec("hypothesis"):  # tests on a GPU do without: a file that needs it says so itself
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "maxmargin", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("maxmargin")

# Those of tensors need the extra `gpu`, some gigabytes: `make test-tensors` installs it. Where it is missing they are left out.
TENSORS = ["data/test_streamed.py", "data/test_tensors.py", "data/test_tensor_targets.py", "data/test_device_sources.py"]
TENSORS += ["losses/test_tensor_losses.py", "solvers/test_device.py", "solvers/test_device_bundle.py"]
TENSORS += ["estimators/test_host_tensors.py"]
collect_ignore = [] if find_spec("torch") else TENSORS

# Those that compile for long, as the file says; a line is a regular expression.
LINES = (Path(__file__).parent / "long.txt").read_text(encoding="utf-8").splitlines()
LONG = re.compile("|".join(line for line in LINES if not line.startswith("#")))
# A file stays with one process: those that take longest begin, so that the processes end together.
FIRST = "test_fuzz.py", "test_sklearn_checks.py", "test_structured.py", "test_bundle.py", "test_segmentation.py", "test_online.py"
FIRST += "test_blocked.py", "test_multilabel.py", "test_package.py", "test_losses_and_forms.py", "test_data_handling.py"


def pytest_collection_modifyitems(items):
    for item in items:
        if LONG.search(item.nodeid):
            item.add_marker(pytest.mark.long)
    place = {name: k for k, name in enumerate(FIRST)}
    items.sort(key=lambda item: place.get(item.path.name, len(FIRST)))


@pytest.fixture(autouse=True)
def same_numbers_every_time():
    """A model without a seed draws one from NumPy's global generator: a test that passes once passes always."""
    np.random.seed(0)  # noqa: NPY002 - that generator is meant


@pytest.fixture
def default_handler():
    """Python's own answer to Ctrl-C, whatever runs the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)
