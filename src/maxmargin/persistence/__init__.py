"""Models that outlive the process: files, and what other programs read."""
