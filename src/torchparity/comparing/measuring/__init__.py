"""The distance of two items: by values, statistics or checksums, as one typed result."""
