"""Errors that are one sentence."""

from collections.abc import Callable
from typing import Any

import pytest


def refuse(call: Callable[[], Any], error: type[Exception], *words: str) -> None:
    """The call fails in one line that has these words."""
    with pytest.raises(error) as caught:
        call()
    sentence = str(caught.value)
    assert len(sentence.splitlines()) == 1
    for word in words:
        assert word in sentence, f"{word!r} is not in {sentence!r}"
