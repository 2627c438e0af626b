"""The public names and their signatures, as they were promised."""

import inspect
from pathlib import Path

import maxmargin as mm

NAMES = Path(__file__).with_name("public_names.txt")


def signature(thing) -> str:
    """The parameters with their defaults; what they are annotated with is not a promise."""
    parameters = inspect.signature(thing).parameters.values()
    return f"({', '.join(str(parameter.replace(annotation=parameter.empty)) for parameter in parameters)})"


def described(name: str, thing) -> list[str]:
    """A public name with its signature, and those of its public methods."""
    if inspect.ismodule(thing):
        return [line for sub in thing.__all__ for line in described(f"{name}.{sub}", getattr(thing, sub))]
    if not inspect.isclass(thing):
        return [name + signature(thing)]
    lines = [name if issubclass(thing, Exception) else name + signature(thing)]
    for member in dir(thing):
        method = getattr(thing, member)
        ours = inspect.isfunction(method) and inspect.unwrap(method).__module__.startswith("maxmargin")
        if ours and not member.startswith("_"):
            lines.append(f"{name}.{member}{signature(method)}")
    return lines


def described_all() -> list[str]:
    return [line for name in mm.__all__ for line in described(name, getattr(mm, name))]


def test_public_names_and_signatures_are_those_promised():
    """Written anew by `python tests/package/test_public_names.py`; a change of this file is a change of the API."""
    assert described_all() == NAMES.read_text().splitlines()


if __name__ == "__main__":
    NAMES.write_text("\n".join(described_all()) + "\n")
