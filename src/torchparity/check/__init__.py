"""Check: every recorded API alone, against a reference that is closer to the truth."""
