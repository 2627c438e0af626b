"""Coordinate ascent on the dual: steps, and the order of visits."""
