"""What README and docs/speed.md say about speed is what the tables of the benchmarks say."""

from pathlib import Path

from benchmarks.report import RESULTS
from benchmarks.summary import headlines, summary

ROOT = Path(__file__).parents[2]


def test_pages_have_the_summary_of_the_results():
    """`python -m benchmarks summary` prints both; a new measurement or an edit of a page shows here."""
    found = summary(RESULTS)
    assert len(found.splitlines()) > 10
    assert found in (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    assert headlines(RESULTS) in (ROOT / "README.md").read_text(encoding="utf-8")
