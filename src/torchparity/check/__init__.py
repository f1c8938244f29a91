"""Checking every API of a model alone, against a reference that is closer to the truth."""
