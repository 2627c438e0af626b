"""Samples as solvers see them."""
