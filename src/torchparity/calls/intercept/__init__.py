"""Interceptors, one file for each way a call can be seen: APIs, modules, collectives, optimizers, the user's functions."""
