"""The quadratic term: priors, signs, coupling of labels."""
