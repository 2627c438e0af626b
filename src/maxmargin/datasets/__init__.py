"""Generators of small realistic data for the models of this package: seeded, and as large as one asks for."""

from .gestures import make_gestures
from .landmarks import make_landmarks
from .plates import make_plates

__all__ = ["make_gestures", "make_landmarks", "make_plates"]
