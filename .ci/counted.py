"""A configuration of coverage in which compiled code does not count: where kernels are compiled nobody sees which lines ran.

These are the kernels, their helpers, the functions that choose by the class of an argument (`generic`) and all that is registered
for those. `make coverage-kernels` counts them, uncompiled.
"""

import ast
from pathlib import Path

CONFIGURATION = """[run]
source = maxmargin

[report]
skip_empty = true
exclude_also =
    if TYPE_CHECKING:
    @abstractmethod
    @_instruction
    @(kernel|jitable|jitable_call|generic|generic_call)$
    @(\\w+\\.)*({generic})\\.register\\b
"""


def generic_functions(package: Path) -> set[str]:
    found = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and {ast.unparse(d) for d in node.decorator_list} & {"generic", "generic_call"}:
                found.add(node.name)
    return found


if __name__ == "__main__":
    print(CONFIGURATION.format(generic="|".join(sorted(generic_functions(Path("src/maxmargin"))))), end="")
