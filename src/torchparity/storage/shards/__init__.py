"""Safetensors shards: written with equal tensors stored once, read by mapping."""
