"""Models as files: what is read is what was written, to the last bit, or one ModelFileError."""

import pytest
from helpers.models import CASES, fitted, identical

import maxmargin as mm


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mapped", [False, True], ids=["read", "mapped"])
def test_a_model_comes_back_to_the_last_bit(name, mapped, tmp_path):
    model, case = fitted(name), CASES[name]
    mm.save(model, tmp_path / "model.safetensors")
    found = mm.load(tmp_path / "model.safetensors", mmap=mapped, **case.given)
    identical(found, model)
    if case.samples is not None:
        identical(found.predict(case.samples), model.predict(case.samples))
