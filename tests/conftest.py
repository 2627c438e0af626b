"""What all tests share: their order, repeatable property tests and an answer to Ctrl-C."""

import re
import signal
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("helpers")  # as if what is asserted there stood in the tests
settings.register_profile(
    "maxmargin", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("maxmargin")

# Those of tensors need the extra `gpu`, some gigabytes: `make test-tensors` installs it. Where it is missing they are left out.
TENSORS = ["data/test_tensors.py", "losses/test_tensor_losses.py", "solvers/test_device.py"]
collect_ignore = [] if find_spec("torch") else TENSORS

# Most of the time of a first run goes into compiling. These compile for types that their neighbours in the table come close to:
# they run with `make test-long`.
SLOWER = "away|plain|batch|partial linearization|cooled|batch linearization|exponentiated gradient"  # solvers
MODELS = r"(OfClasses|MultilabelSVMClassifier\[linear)"
LONG = re.compile(
    "|".join(
        (
            r"test_multilabel.py::test_(forms_of_features_give_the_same_optimum\[.*-dense|optimum_and_certificate\[negative-squared)",
            r"test_paths.py::test_\w+\[topk",
            r"test_latent.py::test_weights_are_those_of_the_duals\[partial linearization-3",
            r"test_losses_and_forms.py::test_pieces_and_sources\[multinomial",
            r"test_parted.py::test_rows_of_one_score\[hinge-prior",
            r"test_levels.py::test_fits_on_tied_rows_end\[data3",
            r"test_sequence_vectorizer.py::test_pipeline_and_grid_search",
            r"test_segmentation.py::test_every_method_agrees_with_the_list_of_all_cuts\[asarray",
            r"test_parts.py::test_(optimum_is|warm_start|weights_and_dual)",
            r"test_forms.py::test_predictions_read_every_form_of_the_same_numbers\[topk",
            r"test_topk.py::test_beta_is_the_larger",
            r"test_losses_and_forms.py::test_duals_paths_and_warm_starts\[multinomial",
            r"test_online.py::test_several_labels_from_a_source\[.*correlated",
            r"test_parts.py::test_weights_and_dual_value_follow_from_the_duals\[.*pairwise",
            r"test_snapshots.py::test_a_resumed_run_goes_on\[kernel rows",
            r"test_latent.py::test_weights_are_those_of_the_duals\[dual coordinate-3",
            r"test_skops.py::test_sentences",
            r"test_blocked.py::test_(single_precision_goes_on|snapshots\[coupled|values_by_products\[multinomial)",
            r"test_parts.py::test_(landmarks|the_dual_is_never|optimum_is_that_of_a_convex_solver\[.*pairwise)",
            r"test_parted.py::test_\w+\[labels coupled",
            r"test_newton_topk.py::test_\w+\[topk_beta",
            r"test_newton_coupled.py::test_every_pass",
            r"test_interior_point.py::test_labels_one_by_one\[log_loss",
            r"test_latent.py::test_convex_step_is_that_of_a_convex_solver\[exponentiated gradient-3",
            r"test_onnx.py::test_chains\[.*float32",
            r"test_structures.py::test_kinds_of_features\[csr_matrix",
            r"test_topk.py::test_\w+\[topk_beta",
            r"test_model_files.py::test_every_estimator_has_a_case",
            r"test_topk.py::test_row_step_is_the_best_row",
            r"test_contracts.py::test_every_certificate_holds_against_every_other\[\w+-TopKAlphaLoss\]",
            r"test_contracts.py::test_a_start_from_the_optimum_ends_at_once\[(kernel rows|TopK)",
            r"test_contracts.py::test_every_certificate_holds_against_every_other\[OnlineDual-Multilabel",
            r"test_online.py::test_\w+\[(correlated|hinge-correlated|.*plain Python)",
            r"test_online.py::test_one_piece_with_several_labels",
            r"test_sharp_places.py::test_guesses_at_equal_scores",
            r"test_multilabel.py::test_optimum_and_certificate\[dense R-squared",
            r"test_multilabel.py::test_forms_of_features_give_the_same_optimum\[(csr|dense-dense)",
            r"test_docs.py::test_code_runs_as_printed\[(extending|latent|multilabel).md",
            r"test_search_sources.py::test_the_same_as_in_memory\[(regression|scores|decisions)",
            r"test_kernels.py::test_\w+\[.*float32",
            r"test_warm.py::test_two_processes",
            r"test_losses_and_forms.py::test_certificates_of_one_against_the_rest\[(squared_error|\w+-(bundle|online))",
            r"test_losses_and_forms.py::test_(each_class_is_logistic|certificates_of_the_logistic_loss\[float64-many)",
            r"test_data_handling.py::test_(float32\[\w+-regression|float32\[csr|peak_memory\[float32|sparse_containers\w+\[(bin|reg))",
            r"test_data_handling.py::test_\w+\[(csr_matrix-binary-float32|binary-float32)",
            r"test_forms.py::test_predictions_read_every_form_of_the_same_numbers\[(chain|regression, rbf)",
            r"test_latent_classes.py::test_the_named_class",
            r"test_partial_fit.py::test_the_certificate_counts_samples_kept_frozen_and_forgotten\[top-k",
            r"test_newton_coupled.py::test_forms_of_data_and_other_solvers",
            r"test_parted.py::test_the_optimum_is_that_of_one_thread\[labels coupled",
            r"test_blocked.py::test_(every_loss\[(coupled|squared labels|multinomial)|single_precision\[crammer)",
            r"test_blocked.py::test_options\[options1",
            r"test_blocked.py::test_threads_that_look_ahead_take_the_steps_of_one\[\d+-coupled",
            r"test_blocks.py::test_rows\[(coupled|MultilabelSquaredH)",
            r"test_kernel_models.py::test_(warm_starts\w+\[ovr|regression_is_linear_svr\w*\[squared|precomputed\w+\[regression)",
            r"test_kernel_models.py::test_squared_loss",
            r"test_probability.py::test_(each_logistic|pickles_paths)",
            r"test_losses.py::test_\w+\[.*float32",
            r"test_latent.py::test_convex_step_is_that_of_a_convex_solver\[(pairwise|partial linearization)-3",
            r"test_structured.py::test_optimum_is_that_of_a_convex_solver\[(partial linearization|pairwise)-chain",
            r"test_interior_point.py::test_labels_one_by_one\[squared_error",
            r"test_certificate.py::test_dual_never_exceeds\w+\[(squared_hinge|epsilon_insensitive)\]",
            r"test_snapshots.py::test_a_resumed_run_goes_on\[coupled labels-newton",
            r"test_segmentation.py::test_every_method_agrees_with_the_list_of_all_cuts\[asarray-fixed",
            r"test_bundle.py::test_weights_that_must_not_be_negative\[a (chain|star)",
            r"test_certificate.py::test_certificate_of_float32\[crammer_singer-csr",
            r"test_device.py::test_(priors|each_class|a_certificate|an_integer|other_floats|a_path|a_run_goes)",
            r"test_device.py::test_the_optimum\w+\[(two|classes w|top-3|top-2,|regression\])",
            r"test_docs.py::test_code_runs_as_printed\[segmentation_and_parts.md",
            rf"test_latent.py::test_\w+\[((pairwise|{SLOWER})-2|(plain|batch)-3)\]",
            r"test_latent.py::test_weights_of_zero_are_told\[bags",
            r"test_blocked.py::test_threads_(and_sweeps\[\d+-(alpha|coupled)|in_single_precision\[coupled)",
            r"test_blocks.py::test_rows\[(TopK|Multinomial|MultilabelLog|MultilabelSquaredE)",
            r"test_contracts.py::test_every_certificate_holds_against_every_other\[\w+-(MultilabelLog|MultilabelSquaredE|Multinomial)",
            r"test_contracts.py::test_every_certificate_holds_against_every_other\[\w+-(Parts|Graph|TopKBetaLoss)\]",
            r"test_fuzz.py::test_nothing_is_found\[(forms|latent|topk|kernel, one target|search) ",
            r"test_fuzz.py::test_nothing_is_found\[(probability|multilabel|structured) ",
            r"test_forms.py::test_predictions_read_every_form_of_the_same_numbers\[(bags|multiclass_structure)",
            r"test_interior_point.py::test_forms_of_data_and_other_solvers\[.*(log_loss|squared_hinge)",
            r"test_kernel_models.py::test_\w+\[(all classes|log_loss|squared_error|.*(sparse|float32))\]",
            r"test_kernel_models.py::test_labels_have_all_losses",
            r"test_losses_and_forms.py::test_\w+\[.*(CSR|float32)|test_losses_and_forms.py::test_labels_with_smooth_losses",
            r"test_probability.py::test_(top_k|kernels_of_labels|labels_are_calibrated|rare_labels)",
            r"test_rounds.py::test_\w+\[(weights with signs|chains-(plain|linearization|exponentiated))",
            r"test_scaling.py::test_it_is_a_scaler_before_the_model\[(against|top-2|labels|three).*no intercept",
            r"test_search.py::test_\w+\[(structured|top-k|rbf|sparse labels)\]",
            r"test_sharp_places.py::test_\w+\[exponentiated_gradient",
            r"test_sharp_places.py::test_a_dual_value_that_little_of_a_large_cap_makes_up",
            r"test_sklearn.py::.*multi_class='ovr'.*-check_",
            r"test_smooth_rows.py",
            r"test_snapshots.py::.*\[(half-spaces|rows) in blocks|test_snapshots.py::.*python-(plain|bundle|linearization)",
            r"test_snapshots.py::.*\[(Multinomial|words in blocks|TopK)",
            r"test_structured_outputs.py::test_(marginals|scores)\w+\[(tree|graph|eight labels|parts|segments|names)",
            r"test_levels.py::test_fits_on_tied_rows_end\[data[01]",
            r"test_multilabel.py::test_forms_of_features_give_the_same_optimum\[.*float32",
            r"test_online.py::test_a_source_and_memory_have_the_same_optimum\[top-k, beta, smoothed",
            r"test_online.py::test_\w+\[top-k(-|\])",
            r"test_bundle.py::test_slopes_of_rows",
            r"test_data_handling.py::test_float32\[csr_matrix-multiclass",
            r"test_compiled_structure.py::test_optimum_is_that_of_a_convex_solver\[outputs",
            r"test_online.py::test_online_serves_arrays_too\[top-k, beta, smoothed",
            r"test_optimum.py::test_formats\[crammer_singer-csr float32",
            r"test_parts.py::test_planes_of_features_that_are_nearly_nothing",
            rf"test_parts.py::test_optimum_is_that_of_a_convex_solver\[.*-({SLOWER})\]",
            rf"test_(parts|segmentation).py::test_weights_and_dual_value_follow_from_the_duals\[.*-({SLOWER})\]",
            rf"test_(parts|segmentation).py::test_warm_start\[({SLOWER})\]",
            r"test_segmentation.py::test_every_method_agrees_with_the_list_of_all_cuts\[csr_array",
            rf"test_segmentation.py::test_optimum_is_that_of_a_convex_solver\[.*-({SLOWER})\]",
            r"test_sklearn.py::.*(loss='(log_loss|squared_error)'|CV\().*-check_",
            r"test_sklearn_checks.py.*(CV\[|AllAtOnce|SVM\w+\[rbf|TwoGuesses|BySignature|OfRows|OfStructures|\[rbf)",
            r"test_search_sources.py::test_the_same_as_in_memory\[(four|top-k|.*-weighted)",
            rf"test_sklearn_checks.py.*{MODELS}.*-(check_estimator_sparse|check_estimators_dtypes)",
            rf"test_sklearn_checks.py.*{MODELS}.*-check_.*(on_sparse_data|X_dtype=float32)",
            rf"test_structured.py::test_optimum_is_that_of_a_convex_solver\[({SLOWER})-(graph|tree)\]",
            r"test_structured.py::test_\w+\[batch linearization-",
            rf"test_structured.py::test_certificate_is_true\[({SLOWER})-(graph|tree)\]",
            r"test_structured.py::test_\w+\[[^\]]*\bgraph\]",
            r"test_topk.py::test_row_step_is_the_best_row\[topk_alpha-float32\]",
            r"test_topk.py::test_(formats_in_float32|rows_of_zeros\[topk_alpha)",
            r"test_newton_(coupled|topk).py::test_forms_of_data_and_other_solvers\[(definite-(log|squared)|topk_alpha|.*-[0-9.]*[1-9])",
            r"test_blocked.py::test_(single_precision|every_loss|values_by_products)\[(alpha|beta)",
            r"test_bundle.py::test_multilabel\[.*full\]",
            r"test_online.py::test_pieces_come_near_the_optimum_of_all_data\[top-k, beta",
            r"test_contracts.py::test_every_certificate_holds_against_every_other\[(\w+-Segmentation|\w+-kernel rows)\]",
            r"test_plugins.py::test_a_(table|solver)",
            r"test_structured.py::test_optimum_is_that_of_a_convex_solver\[(away|plain)-chain\]",
            r"test_latent.py::test_convex_step_is_that_of_a_convex_solver\[dual coordinate-3",
            r"test_returned_values.py::test_float32_data_with_any_intercept_scaling\[(online|bundle)",
            r"test_data_handling.py::test_dtype_parameter\[float32-multiclass",
            r"test_search_sources.py::test_the_same_as_in_memory\[labels",
            r"test_polish.py::test_\w+\[.*(alpha|beta|chain|rbf|kernel|coupled)",
            r"test_parted.py::test_\w+\[.*(alpha|labels\]|log|epsilon|squared|signs)",
            r"test_parted.py::test_(priors_of_classes|single_precision|sparse_rows)",
            r"test_newton_(coupled|topk).py::test_\w+\[.*(log_loss|squared_error|alpha)",
            r"test_bundle.py::test_multilabel",
            r"test_plugins.py::test_a_multiclass_loss",
            r"test_losses_and_forms.py::test_(priors_and_signs|many_classes)",
            r"test_fuzz.py::test_(nothing_is_found\[kernel |fine_targets_are_met\[[23])",
            r"test_contracts.py::test_every_certificate_holds_against_every_other\[\w+-(\w+ rows|MultilabelSquaredHinge\w*)\]",
            r"test_online.py::test_online_serves_arrays_too\[(costs|top-k)",
            r"test_structured_outputs.py::test_the_best_outputs_are_those_of_the_list\[names",
            r"test_checkpoints.py::test_a_killed_fit_\w+\[(newton, |bundle, |rbf, |top-2|labels by|coupled|chains, )",
            r"test_skops.py::test_models\[(top-2|bags|trees|search)",
            r"test_model_files.py::test_a_model_comes_back\w*\[(parts|graphs|trees|segments|hidden|chain|top-2|bags)",
            r"test_checkpoints.py::test_sigkill",
            r"test_rounds.py::test_certificates_on_several_threads\[chains-pairwise by gap",
            r"test_sharp_places.py::test_\w+\[partial_linearization",
            r"test_blocked.py::test_(single_precision\[coupled|threads_take_the_steps_of_one\[\d+-(alpha|beta|coupled)|every_loss\[smoothed)",
            r"test_blocked.py::test_threads_in_single_precision",
            r"test_parted.py::test_(fits_in_workers|rows_of_many_scores\[labels coupled)",
            r"test_fuzz.py::test_nothing_is_found\[zero-shot ",
            r"test_losses_and_forms.py::test_a_class_has_a_prior_of_its_own",
            r"test_fuzz.py::test_fine_targets_that_were_once_missed",
            r"test_ordinal.py::test_(rows_that_are|the_optimum_of_a_convex_solver\[csr_matrix-(newton|bundle))",
            r"test_sequences.py::test_(an_empty_sequence\w+\[True|the_optimum_under_rules\[False|primal_is_above|one_sequence)",
        )
    )
)
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
