"""What a run holds as named arrays and numbers, and back."""

from collections.abc import Mapping
from numbers import Number
from typing import Any

import numpy as np

RunState = dict[str, Any]  # arrays, numbers and short texts
WORDS = np.uint64(2**64 - 1)


def taken_apart(name: str, value: Any) -> RunState:
    """Copies of what `value` holds, by name: an array, a number, a tuple of such things, a generator of random numbers."""
    if value is None:
        return {}
    if isinstance(value, np.ndarray):
        return {name: value.copy()}
    if isinstance(value, Number | str | np.generic):
        return {name: value}
    if isinstance(value, tuple):
        found: RunState = {}
        for field, part in zip(fields(value), value, strict=True):
            found |= taken_apart(f"{name}.{field}", part)
        return found
    if isinstance(value, np.random.Generator):
        return {name: words(value)}
    raise TypeError(f"{name} is a {type(value).__name__}, which is not made of arrays and numbers.")


def put_together(name: str, like: Any, state: Mapping[str, Any], within: bool = False) -> Any:
    """What `taken_apart` has made, put together like `like`. Arrays of a tuple may be views of one memory: where shape and dtype
    are the same, that is used again."""
    if isinstance(like, tuple):
        parts = [put_together(f"{name}.{field}", part, state, True) for field, part in zip(fields(like), like, strict=True)]
        return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)
    if isinstance(like, np.random.Generator):
        return generator(state[name])
    found = state.get(name)
    if not isinstance(found, np.ndarray):
        return found
    if within and isinstance(like, np.ndarray) and (like.shape, like.dtype) == (found.shape, found.dtype):
        like[...] = found
        return like
    return found.copy()


def fields(value: tuple) -> list[str]:
    return list(getattr(value, "_fields", map(str, range(len(value)))))


def words(random: np.random.Generator) -> np.ndarray:
    """The state of NumPy's default generator: two numbers of 128 bits and two small ones."""
    whole = random.bit_generator.state
    large = [whole["state"]["state"], whole["state"]["inc"]]
    halves = [part for number in large for part in (number >> 64, number & int(WORDS))]
    return np.array([*halves, whole["has_uint32"], whole["uinteger"]], np.uint64)


def generator(found: np.ndarray) -> np.random.Generator:
    a, b, c, d, has, left = (int(word) for word in found)
    source = np.random.PCG64()
    state: Any = {"state": a << 64 | b, "inc": c << 64 | d}
    source.state = {"bit_generator": "PCG64", "state": state, "has_uint32": has, "uinteger": left}
    return np.random.Generator(source)
