"""Planes that touch a risk from below, and the programs over them."""
