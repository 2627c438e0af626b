"""What all tests share: their order, repeatable property tests and an answer to Ctrl-C."""

import signal

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "maxmargin", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("maxmargin")

# Most of the time of a first run goes into compiling. These compile for types that their neighbours in the table come close to:
# they run with `make test-long`.
LONG = (
    "test_multilabel.py::test_forms_of_features_give_the_same_optimum[csr float32",
    "test_online.py::test_a_source_and_memory_have_the_same_optimum[top-k, beta, smoothed",
    "test_online.py::test_online_serves_arrays_too[top-k, beta, smoothed]",
    "test_optimum.py::test_formats[crammer_singer-csr float32",
    "test_parts.py::test_optimum_is_that_of_a_convex_solver[two parts-plain]",
    "test_parts.py::test_optimum_is_that_of_a_convex_solver[two parts-away]",
    "test_segmentation.py::test_every_method_agrees_with_the_list_of_all_cuts[csr_array-fixed widths]",
    "test_segmentation.py::test_optimum_is_that_of_a_convex_solver[as in the paper-plain]",
    "test_segmentation.py::test_optimum_is_that_of_a_convex_solver[as in the paper-away]",
    "test_sklearn_checks.py::test_scikit_learns_checks[BySignature[linear]-check_classifiers_train(readonly_memmap=True,X_dtype",
    "test_sklearn_checks.py::test_scikit_learns_checks[BySignature[linear]-check_estimator_sparse",
    "test_sklearn_checks.py::test_scikit_learns_checks[BySignature[linear]-check_estimators_dtypes",
    "test_sklearn_checks.py::test_scikit_learns_checks[BySignature[linear]-check_sample_weight_equivalence_on_sparse_data",
    "test_sklearn_checks.py::test_scikit_learns_checks[OfClasses[linear]-check_estimators_dtypes",
    "test_sklearn_checks.py::test_scikit_learns_checks[TwoGuesses-check_classifiers_train(readonly_memmap=True,X_dtype",
    "test_sklearn_checks.py::test_scikit_learns_checks[TwoGuesses-check_estimator_sparse",
    "test_sklearn_checks.py::test_scikit_learns_checks[TwoGuesses-check_estimators_dtypes",
    "test_sklearn_checks.py::test_scikit_learns_checks[TwoGuesses-check_sample_weight_equivalence_on_sparse_data",
    "test_structured.py::test_optimum_is_that_of_a_convex_solver[away-graph]",
    "test_structured.py::test_optimum_is_that_of_a_convex_solver[partial linearization-graph]",
    "test_structured.py::test_optimum_is_that_of_a_convex_solver[plain-graph]",
    "test_topk.py::test_formats_in_float32[csr float32]",
)
# A file stays with one process: those that take longest begin, so that the processes end together.
FIRST = "test_fuzz.py", "test_sklearn_checks.py", "test_structured.py", "test_bundle.py", "test_segmentation.py", "test_online.py"


def pytest_collection_modifyitems(items):
    for item in items:
        if any(part in item.nodeid for part in LONG):
            item.add_marker(pytest.mark.long)
    place = {name: k for k, name in enumerate(FIRST)}
    items.sort(key=lambda item: place.get(item.path.name, len(FIRST)))


@pytest.fixture
def default_handler():
    """Python's own answer to Ctrl-C, whatever runs the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)
