"""Ascent on data that come in blocks."""
