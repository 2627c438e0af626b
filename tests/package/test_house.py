"""The house: which rooms there are and which room may import which; and the same of the tests."""

import ast
import re
from collections import Counter
from pathlib import Path

from helpers.source_tree import PACKAGE, imports, modules, parsed

ROOT = Path(__file__).parents[2]
# Every room imports only from those before it.
ORDER = (
    "jit", "utils", "result", "data", "projections", "regularizers", "losses", "structures", "problems", "callbacks", "solvers",
    "estimators", "solve", "extend", "persistence", "datasets", "plots", "demo", "warm", "__init__",
)  # fmt: skip


def test_rooms():
    names = {path.stem for path in PACKAGE.glob("*.py")}
    assert names == {"__init__", "callbacks", "demo", "extend", "result", "solve", "warm"}
    assert {module.split(".")[0] for module in modules()} == set(ORDER)


def test_arrows_go_down():
    place = {name: k for k, name in enumerate(ORDER)}
    up = [(m, t) for m, targets in imports(modules()).items() for t in targets if place[t.split(".")[0]] > place[m.split(".")[0]]]
    assert not up


def test_there_are_no_circles():
    edges, state = imports(modules()), {}

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert state.get(module) != "open", " -> ".join((*way, module))
        if module not in state:
            state[module] = "open"
            for target in edges.get(module, ()):
                visit(target, (*way, module))
            state[module] = "done"

    for module in modules():
        visit(module, ())


def test_contributing_names_the_rooms_in_order():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    listed = re.findall(r"^    ([\w/]+?)(?:/|\.py)  ", text[text.index("## The house") :], re.MULTILINE)
    assert tuple(listed) == ORDER[:-1]


def test_tests_live_in_rooms_of_the_same_names():
    rooms = {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("test_*.py")}
    assert rooms <= {*ORDER, "contracts", "package"}


def test_no_test_imports_a_test():
    """What files of tests share is in helpers; and they have names of their own, since pytest imports them by these."""
    names = Counter(path.stem for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(parsed(path)):
            targets = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            targets += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found = {part for target in targets for part in target.split(".")} & names.keys()
            assert not found, f"{path.relative_to(ROOT)} imports {found}"
