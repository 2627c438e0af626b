"""Second-order steps: what `Newton` is made of."""
