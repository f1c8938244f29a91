"""A bed of planted faults."""
