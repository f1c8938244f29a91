"""The deviation that rounding explains: what a call received, its operator and its dtypes, as one expectation."""
