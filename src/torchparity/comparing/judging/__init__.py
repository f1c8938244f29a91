"""What the distances mean: rounding, the first divergence, and the headline."""
