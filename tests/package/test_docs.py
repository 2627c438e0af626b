"""What the documents show runs as printed: each page's Python, block after block, in an empty folder."""

import re
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
            exec(compile(lead + block.text, str(page), "exec"), names)
