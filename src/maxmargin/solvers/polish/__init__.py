"""Newton steps on the duals that coordinate ascent has left free: its finish where `tol` is tight."""
