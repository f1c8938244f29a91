"""Reproductions: what failed, as a run and as scripts that need torch alone."""
