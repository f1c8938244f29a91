"""Reasons to skip a call that its record alone tells."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

from torchparity.check.cases.case import Case
from torchparity.ops import Kind, describe_function
from torchparity.text import readable_bytes

_RESULTS_AT_ONCE = 6  # of the device, of the reference, of their gradients, and of the arithmetic between them
_WIDEST = 8
_MOVES = {
    "cpu": "moves a tensor to another device and computes nothing",
    "cuda": "moves a tensor to another device and computes nothing",
    "npu": "moves a tensor to another device and computes nothing",
    "pin_memory": "moves a tensor to pinned memory and computes nothing",
    "share_memory_": "moves a tensor to shared memory and computes nothing",
    "numpy": "hands a tensor to NumPy and computes nothing",
    "set_": "changes which memory a tensor shows, which no value tells",
    "resize_": "leaves memory that nobody has written",
    "resize_as_": "leaves memory that nobody has written",
    "backward": "runs the whole backward pass; each API of it is checked by its own record",
    "data_ptr": "asks for an address, which is another one every time",
}


def reason_to_skip(case: Case, function: Callable[..., Any] | None) -> str | None:
    """Return why a call is not run; None where it is."""
    if case.forward.error is not None:
        return f"the recorded call raised {case.forward.error}"
    if case.api.startswith("Distributed."):
        return "it is a collective, which needs the other processes"
    if function is None:
        return f"this torch has no {case.api}"
    if case.operator in _MOVES:
        return f"it {_MOVES[case.operator]}"
    op = describe_function(function)
    if op.kind is Kind.COLLECTIVE:
        return "it is a collective, which needs the other processes"
    if op.kind is Kind.BACKWARD:
        return f"it {_MOVES['backward']}"
    if op.leaves_unwritten and any(math.prod(leaf.shape) for leaf in case.forward.tensors()):
        return "it returns memory that nobody has written"
    return _lack_of_memory(case)


def _lack_of_memory(case: Case) -> str | None:
    elements = sum(math.prod(leaf.shape) for leaf in case.forward.tensors())
    needed = elements * _WIDEST * _RESULTS_AT_ONCE
    if needed < 1 << 28:
        return None
    free = _free_memory()
    if free is None or needed <= free:
        return None
    return f"its tensors need about {readable_bytes(needed)} here, and {readable_bytes(free)} are free"


def _free_memory() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            amounts = dict(line.split(":", 1) for line in lines)
        return int(amounts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        names = getattr(os, "sysconf_names", {})
        if "SC_PHYS_PAGES" not in names:
            return None
        return int(os.sysconf("SC_PHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE"))
