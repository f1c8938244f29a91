"""The reason why a case cannot be run, as an exception that ends the case and nothing else."""

from __future__ import annotations


class CannotRun(Exception):
    """A case that cannot be run; its text is the reason, for the row of the API."""
