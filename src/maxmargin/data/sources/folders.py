"""Folders and patterns of names: which files they are, and the columns that stand in the names of folders, `year=2026`."""

import re
from collections.abc import Iterable
from glob import glob, has_magic
from pathlib import Path
from urllib.parse import unquote

HIDDEN = ("_", ".")  # what names begin with that are no data: _SUCCESS, .crc
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
WHOLE_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})")
Partitions = tuple[tuple[str, str | int], ...]


def is_pattern(path: Path) -> bool:
    return has_magic(str(path)) and not path.exists()


def files_of(path: Path) -> tuple[list[Path], Path]:
    """The files of a folder and all below it, or those that a pattern matches, by name; and the folder that they are all in."""
    if is_pattern(path):
        parts = path.parts
        fixed = next(k for k, part in enumerate(parts) if has_magic(part))
        root = Path(*parts[:fixed])
        found = [Path(name) for name in sorted(glob(str(path), recursive=True)) if Path(name).is_file()]
        if not found:
            raise FileNotFoundError(f"No file matches {path}.")
        return found, root
    found = sorted(each for each in path.rglob("*") if each.is_file() and not is_hidden(each.relative_to(path)))
    if not found:
        raise FileNotFoundError(f"{path} is a folder without files in it.")
    return found, path


def is_hidden(path: Path) -> bool:
    return any(part.startswith(HIDDEN) and "=" not in part for part in path.parts)


def partitions_of(paths: Iterable[Path], root: Path) -> list[Partitions]:
    """The columns in the names of folders, for each file. A column is one of whole numbers if it is for all."""
    texts = [(path, {key: value for key, value in pairs(path.relative_to(root).parent)}) for path in paths]
    first, known = texts[0]
    for path, found in texts:
        if list(found) != list(known):
            raise ValueError(
                f"{path} is in folders that name the columns {list(found)}, {first} in ones that name {list(known)}: they "
                "cannot be one source."
            )
        if NO_VALUE in found.values():
            raise ValueError(f"{path} is in a folder without a value, {NO_VALUE}: a missing value is no feature.")
    numbers = {key for key in known if all(WHOLE_NUMBER.fullmatch(found[key]) for _, found in texts)}
    return [tuple((key, int(value) if key in numbers else value) for key, value in found.items()) for _, found in texts]


def pairs(folder: Path) -> list[tuple[str, str]]:
    named = [part.partition("=") for part in folder.parts if "=" in part]
    return [(unquote(key), unquote(value)) for key, _, value in named if key]
