"""Generators of small realistic data for the structures of this package: seeded, and as large as one asks for."""

from .landmarks import make_landmarks
from .plates import make_plates

__all__ = ["make_landmarks", "make_plates"]
