"""Data that are read in blocks of rows: a format is one file."""
