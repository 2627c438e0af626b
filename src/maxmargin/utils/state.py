"""What a run holds as named arrays and numbers, and back."""

from collections.abc import Mapping
from functools import singledispatch
from numbers import Number
from typing import Any

import numpy as np

RunState = dict[str, Any]  # arrays, numbers and short texts
WORDS = np.uint64(2**64 - 1)
SEQUENCES = {"list": list, "tuple": tuple}


@singledispatch
def taken_apart(value: Any, name: str) -> RunState:
    """Copies of what `value` holds, by name: an array, a number, a tuple of such things, a generator of random numbers."""
    if value is None:
        return {}
    if isinstance(value, Number | str | np.generic):
        return {name: value}
    raise TypeError(f"{name} is a {type(value).__name__}, which is not made of arrays and numbers.")


@taken_apart.register
def _(value: np.ndarray, name):
    return {name: value.copy()}


@taken_apart.register
def _(value: tuple, name):
    found: RunState = {}
    for field, part in zip(fields(value), value, strict=True):
        found |= taken_apart(part, f"{name}.{field}")
    return found


@taken_apart.register
def _(value: np.random.Generator, name):
    return {name: words(value)}


@singledispatch
def put_together(like: Any, name: str, state: Mapping[str, Any], within: bool = False) -> Any:
    """What `taken_apart` has made, put together like `like`. Arrays of a tuple may be views of one memory: where shape and dtype
    are the same, that is used again."""
    found = state.get(name)
    if not isinstance(found, np.ndarray):
        return found
    if within and isinstance(like, np.ndarray) and (like.shape, like.dtype) == (found.shape, found.dtype):
        like[...] = found
        return like
    return found.copy()


@put_together.register
def _(like: tuple, name, state, within=False):
    parts = [put_together(part, f"{name}.{field}", state, True) for field, part in zip(fields(like), like, strict=True)]
    return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)


@put_together.register
def _(like: np.random.Generator, name, state, within=False):
    return generator(state[name])


def fields(value: tuple) -> list[str]:
    return list(getattr(value, "_fields", map(str, range(len(value)))))


def beneath(state: Mapping[str, Any], name: str) -> RunState:
    """What there is under a name, without it."""
    return {key[len(name) + 1 :]: value for key, value in state.items() if key.startswith(f"{name}.")}


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


# ---- what a user's own structure returns: of any length and depth, so that nothing else says what it looks like ---------------


def spelled(value: Any, name: str) -> RunState:
    """An array, a number, a text, or lists and tuples of such things, by name."""
    kind = type(value).__name__
    if SEQUENCES.get(kind) is type(value):
        found: RunState = {f"{name}.{kind}": len(value)}
        for k, part in enumerate(value):
            found |= spelled(part, f"{name}.{k}")
        return found
    if value is None or (isinstance(value, np.ndarray) and value.dtype.hasobject):
        raise TypeError(f"{name} is {value!r}, which is not made of arrays and numbers.")
    return taken_apart(value, name)


def read_back(name: str, state: Mapping[str, Any]) -> Any:
    """What `spelled` has made."""
    for kind, make in SEQUENCES.items():
        if (count := state.get(f"{name}.{kind}")) is not None:
            return make(read_back(f"{name}.{k}", state) for k in range(count))
    found = state[name]
    return found.copy() if isinstance(found, np.ndarray) else found
