"""A verdict in words, as advice and as an exit code."""
