"""scikit-learn faces: validate, build a problem, solve, keep the result. No mathematics here."""
