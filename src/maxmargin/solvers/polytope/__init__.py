"""Ascent over distributions of outputs: working sets, mixtures, marginals."""
