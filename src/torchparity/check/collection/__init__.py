"""Collecting the calls of one iteration of a training, for the check."""
