"""The files of the package as modules, and which of them import which."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import maxmargin

PACKAGE = Path(maxmargin.__file__).parent


def modules() -> dict[str, Path]:
    return {path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", "."): path for path in PACKAGE.rglob("*.py")}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(known: dict[str, Path]) -> dict[str, set[str]]:
    """Which modules each module imports, wherever in its text."""

    def found(name: str) -> str | None:
        return next((one for one in (name, f"{name}.__init__".removeprefix(".")) if one in known), None)

    edges = defaultdict(set)
    for module, path in known.items():
        package = module.split(".")[:-1]
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = ".".join([*package[: len(package) - node.level + 1], *(node.module or "").split(".")]).strip(".")
                for alias in node.names:
                    target = found(f"{base}.{alias.name}".strip(".")) or found(base)
                    assert target, f"{module} imports {base}.{alias.name}, which is not there"
                    edges[module].add(target)
    return edges
