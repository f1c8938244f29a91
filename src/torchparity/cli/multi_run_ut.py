"""torchparity multi_run_ut: run_ut in several processes over several devices, as api_accuracy_checker has it.

torchparity multi_run_ut -forward forward_info_0.json -backward backward_info_0.json -n 8 -d 0 1 2 3
torchparity multi_run_ut -api_info dump.json
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from torchparity.cli import run_ut

_PROCESSES = "8"  # as multi_run_ut.py has it


def add_arguments(parser: ArgumentParser) -> None:
    run_ut.add_arguments(parser, processes=_PROCESSES)


def run(options: Namespace) -> int:
    """Return what run_ut does."""
    return run_ut.run(options)
