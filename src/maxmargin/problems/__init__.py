"""What is minimised: primal and dual values from scratch. Problems know no solver."""
