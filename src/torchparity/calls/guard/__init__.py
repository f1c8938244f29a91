"""Keeps us and the user apart: the exception boundary, patches and modes that leave no trace, who is inside of whom."""
