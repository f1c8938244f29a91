"""The number of this process, asked for at every call: a forked child inherits our hooks and must not use them."""

from __future__ import annotations

import os
from functools import cache


@cache
def process_id() -> int:
    """Return `os.getpid()` without a system call, which takes microseconds in a sandbox that emulates them."""
    return os.getpid()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=process_id.cache_clear)
