"""Standard output and progress as a person sees them."""
