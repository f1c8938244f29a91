"""How far two items are apart: by values, statistics or checksums, as one typed result."""
