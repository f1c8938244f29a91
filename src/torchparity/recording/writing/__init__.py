"""The run that a recording writes: its steps, what differs from an earlier run, and the closing line."""
