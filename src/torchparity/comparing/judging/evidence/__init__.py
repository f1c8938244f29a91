"""Facts about two runs that blame nobody: what was compared, who made what, operators, dtypes, environments, code."""
