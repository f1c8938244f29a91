"""The search for the places where the runs part: every record, judged by what it received."""
