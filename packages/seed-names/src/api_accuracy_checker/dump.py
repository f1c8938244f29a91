"""Importing this file collects the calls of one iteration, as torchparity.check.dump does."""

from torchparity.check.dump import dump, msCheckerConfig

__all__ = ["dump", "msCheckerConfig"]
