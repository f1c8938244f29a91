"""Tests of running."""
