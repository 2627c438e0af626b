"""What a solver sees of the user's data."""
