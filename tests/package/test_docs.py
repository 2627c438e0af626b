"""What the documents show runs as printed: each page's Python, block after block, in an empty folder.

What a statement prints may stand in the comment lines right below it, or in a comment at its end. It is compared then, as doctest
does: `...` stands for anything, as do digits that may differ from machine to machine.
"""

import ast
import doctest
import io
import re
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN = [page for page in PAGES if page.name != "gpu.md" or find_spec("torch")]  # see TENSORS in conftest.py
LANGUAGES = {"python", "text", "sh"}


class Block(NamedTuple):
    language: str
    line: int  # of its first line in the page
    text: str


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page."""
    found, lines = [], page.splitlines()
    at = 0
    while at < len(lines):
        if lines[at].startswith("```"):
            end = lines.index("```", at + 1)
            found.append(Block(lines[at][3:].strip(), at + 2, "\n".join(lines[at + 1 : end])))
            at = end
        at += 1
    return found


def outside(page: str) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)


def shown(lines: list[str], statement: ast.stmt) -> str | None:
    """What a page says that a statement prints; None where it says nothing."""
    assert statement.end_lineno is not None
    below = []
    for line in lines[statement.end_lineno :]:
        if not line.startswith("#"):
            break
        below.append(line.removeprefix("#").strip())
    behind = lines[statement.end_lineno - 1].encode()[statement.end_col_offset :].decode().strip()
    return "\n".join(below) or behind.removeprefix("#").strip() or None


def run_as_printed(source: str, name: str, names: dict[str, object]) -> None:
    """Run statement after statement; what one prints is what is shown, where something is."""
    lines, checker = source.splitlines(), doctest.OutputChecker()
    for statement in ast.parse(source, name).body:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(ast.Module([statement], []), name, "exec"), names)
        expected, found = shown(lines, statement), printed.getvalue()
        if expected and found:
            rules = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            same = checker.check_output(f"{expected}\n", found, rules)
            assert same, f"{name}, line {statement.lineno}, shows\n{expected}\nand prints\n{found}"


def test_pages_are_found():
    assert len(PAGES) > 8 and sum(block.language == "python" for page in PAGES for block in blocks(page.read_text())) > 15


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_is_fenced_and_says_its_language(page):
    """An indented block, or one without a language, would be shown and never run."""
    text = page.read_text()
    assert {block.language for block in blocks(text)} <= LANGUAGES
    assert not re.search(r"^(    |\t)\S", outside(text), flags=re.MULTILINE)


@pytest.mark.compiled
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_code_runs_as_printed(page, tmp_path, monkeypatch):
    """Warnings are errors here as everywhere: what a page shows converges, too."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for block in blocks(page.read_text()):
        if block.language == "python":
            lead = "\n" * (block.line - 1)  # so that an error names the line of the page
            run_as_printed(lead + block.text, str(page), names)


def test_printed_comments_are_compared():
    run_as_printed("print('gap', 0.123, 44)\n# gap 0.1... 44\n", "page", {})
    run_as_printed("for k in range(2):\n    print(k)\n# 0\n# 1\nk = 3  # prose\nprint(k)  # 3\nprint(k)\n", "page", {})
    for wrong in ("print(42)  # 44", "x = 1\nprint('gap 0.2', x)\n# gap 0.1...", "print(1)\nprint(2)\n# 1"):
        with pytest.raises(AssertionError, match="and prints"):
            run_as_printed(wrong, "page", {})
