"""The share of the lines of compiled code that were run uncompiled, from a report of coverage in JSON.

python .ci/kernels.py build/kernels.json
"""

import ast
import json
import sys
from pathlib import Path

from counted import generic_functions

PACKAGE = Path("src/maxmargin")
DECORATORS = {"kernel", "jitable", "jitable_call", "generic", "generic_call"}


def is_compiled(node: ast.FunctionDef, verbs: set[str]) -> bool:
    for decorator in node.decorator_list:
        parts = ast.unparse(decorator).split("(")[0].split(".")
        if parts[-1] in DECORATORS or (parts[-1] == "register" and len(parts) > 1 and parts[-2] in verbs):
            return True
    return False


def compiled_lines(path: Path, verbs: set[str]) -> set[int]:
    """The lines of the bodies of compiled functions; docstrings are no statements to coverage."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and is_compiled(node, verbs):
            found |= set(range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1))
    return found


if __name__ == "__main__":
    verbs, total, run = generic_functions(PACKAGE), 0, 0
    for name, report in sorted(json.loads(Path(sys.argv[1]).read_text())["files"].items()):
        lines = compiled_lines(Path(name), verbs)
        done, missed = lines & set(report["executed_lines"]), lines & set(report["missing_lines"])
        total, run = total + len(done) + len(missed), run + len(done)
        if missed:
            print(f"{name}: {len(done)} of {len(done) + len(missed)}; not run: {', '.join(map(str, sorted(missed)[:12]))}")
    print(f"lines of compiled code that were run: {run} of {total} ({100.0 * run / total:.0f} %)")
