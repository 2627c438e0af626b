"""Random problems against independent objectives and weak duality: `python -m tests.fuzz --help`."""
