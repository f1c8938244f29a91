"""Regions where we must stay out: compiled code, CUDA graphs, scripting, torch's fused inference paths."""
