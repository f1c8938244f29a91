"""What of a recording is kept: scope, list and data_mode, and names that were asked for wrongly."""
