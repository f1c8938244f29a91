"""Facts about APIs: which of their results are compared, and which cannot be perturbed."""
