"""The house: which rooms there are, who imports whom, one home for a name, and the public names as they were promised."""

import ast
import inspect
import re
from collections import defaultdict
from pathlib import Path

from source_tree import PACKAGE, imports, modules

import maxmargin as mm

HERE = Path(__file__).parent
# Every room imports only from those before it.
ORDER = (
    "jit", "utils", "result", "data", "projections", "regularizers", "losses", "structures", "problems", "callbacks", "solvers",
    "estimators", "solve", "datasets", "plots", "demo", "__init__",
)  # fmt: skip
# Top-level names with more than one home. The list may only shrink: a name that has one home by now is taken out.
SEVERAL = set(
    """
    BEYOND BLOCK BYTE BYTES CALM FAR FARTHEST FEW FINE FIRST FLAT FULL HUGE INITS Kept LARGE LINE
    LONGEST LOOK LOSSES Last MANY MARGIN MEGABYTE MOST NEAR NEVER NOT_FINITE PART PATIENCE PIECE
    PIECES Parts ROOM ROUNDING ROUNDS Rows Run SELDOM SHORT SLACK SPARSE_BELOW SWEEPS SYMMETRIC Source
    TINY TRUST above add blocks check_finite count draw finite gather joined
    level numbers open_file prefetch push register settle
    slope_of solve squared_norms stacked sweep truth unclipped value value_of width
    """.split()  # noqa: SIM905 - a hundred quotes say nothing
)


def test_rooms():
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "callbacks.py", "demo.py", "result.py", "solve.py"}
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


def test_a_name_has_one_home():
    homes = defaultdict(set)
    for module, path in modules().items():
        for node in ast.parse(path.read_text()).body:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
            names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name != "_":
                names = [node.name]
            for name in set(names) - {"__all__"}:
                homes[name].add(module)
    found = {name for name, places in homes.items() if len(places) > 1}
    assert found <= SEVERAL, {name: sorted(homes[name]) for name in found - SEVERAL}
    assert found >= SEVERAL, f"these have one home now, take them out of the list: {sorted(SEVERAL - found)}"


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
    """Written anew by `python tests/test_house.py`; a change of this file is a change of the API."""
    assert described_all() == (HERE / "public_names.txt").read_text().splitlines()


def test_contributing_names_the_rooms_in_order():
    text = (HERE.parent / "CONTRIBUTING.md").read_text()
    listed = re.findall(r"^    ([\w/]+?)(?:/|\.py)  ", text[text.index("## The house") :], re.MULTILINE)
    assert tuple(listed) == ORDER[:-1]


if __name__ == "__main__":
    (HERE / "public_names.txt").write_text("\n".join(described_all()) + "\n")
