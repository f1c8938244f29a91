"""The part of a recording that is kept: scope, list and data_mode, and names that were asked for wrongly."""
