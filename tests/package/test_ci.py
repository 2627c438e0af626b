"""What only CI runs knows of everything that is there."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_estimator_is_tried_without_extras():
    for script in ROOT.glob(".ci/smoke.py"):  # an sdist has none
        assert not runpy.run_path(str(script))["not_tried"]()
