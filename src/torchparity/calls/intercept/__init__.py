"""Interceptors, a file for each way to see a call: APIs, modules, collectives, optimizers, the user's functions."""
