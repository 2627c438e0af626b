"""Speed and memory of maxmargin beside the solvers a user would otherwise pick. Run `python -m benchmarks --help`.

This file imports nothing: `benchmarks.probe` times the import of a library in a fresh process.
"""
