"""The end of a training by ptdbg_ascend's register_hook, which stops at the last overflow that was asked for."""

from __future__ import annotations

from pathlib import Path


def training_stop(overflows: int, dump_file: str | Path) -> ValueError:
    """Return the error that ptdbg_ascend raises in the training, with its text."""
    return ValueError(f"[overflow {overflows} times]: dump file is saved in '{dump_file}'.")
