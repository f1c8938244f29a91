"""msprobe, answered by torchparity."""
