"""Files that nobody vouches for: opened safely, mapped, and checked against their checksums."""
