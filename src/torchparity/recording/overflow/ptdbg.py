"""The end of a training as ptdbg_ascend's register_hook has it: at the last overflow that was asked for."""

from __future__ import annotations

from pathlib import Path

from torchparity.whole_file import with_home


def training_stop(run: str | Path, overflows: int) -> ValueError:
    """Return the error that ptdbg_ascend raises in the training, with its text; `run` is where the calls are."""
    folder = with_home(run).absolute()
    return ValueError(f"[overflow {overflows} times]: dump file is saved in '{folder}'.")
