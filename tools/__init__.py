"""Scripts that look at the project itself; nothing in src imports them."""
