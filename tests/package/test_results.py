"""What README says about speed is what the tables of the benchmarks say."""

from pathlib import Path

from benchmarks.report import RESULTS
from benchmarks.summary import summary

ROOT = Path(__file__).parents[2]


def test_readme_has_the_summary_of_the_results():
    """`python -m benchmarks summary` prints the table; a new measurement or an edit of either shows here."""
    found = summary(RESULTS)
    assert len(found.splitlines()) > 10
    assert found in (ROOT / "README.md").read_text(encoding="utf-8")
