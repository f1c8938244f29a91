"""The measurement cache: observes tensors, measures each once, and knows when a measurement is stale."""
