"""Tests of who measures the pairs of tensors."""
