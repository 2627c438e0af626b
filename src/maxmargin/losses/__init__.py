"""Losses of one example. A new loss is one new file: a named tuple of its numbers and the functions of `base` it implements."""
