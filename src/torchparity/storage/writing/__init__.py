"""Writing a run: a bounded queue, one thread that owns the files, and a report of what was written."""
