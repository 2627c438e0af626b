"""What only CI runs knows of everything that is there."""

import re
import runpy
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_estimator_is_tried_without_extras():
    assert not runpy.run_path(str(ROOT / ".ci" / "smoke.py"))["not_tried"]()


def test_the_source_distribution_has_what_its_commands_need():
    """Whatever Makefile and the tests name; pictures of benchmarks are drawn by a command."""
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"]
    assert built == {"exclude": ["benchmarks/figures"]}
    named = set(re.findall(r"\.ci/\w+(?:\.py)?", (ROOT / "Makefile").read_text()))
    assert len(named) > 4 and all((ROOT / name).is_file() for name in named)
