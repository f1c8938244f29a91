"""Reproductions: what failed, as a run to check again and as scripts that need torch alone."""

from torchparity.check.reproduction.error_data import ErrorData

__all__ = ["ErrorData"]
