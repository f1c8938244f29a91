"""Tests of files that nobody vouches for, here and on object stores."""
