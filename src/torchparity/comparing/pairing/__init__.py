"""Pairs of records and items of two runs that belong together."""
