"""torchparity run_ut: check the APIs of a forward_info and a backward_info, as api_accuracy_checker has it.

torchparity run_ut -forward forward_info_0.json -backward backward_info_0.json
torchparity run_ut -api_info dump.json -save_error_data --out_path DIR
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from torchparity.cli.check import add_common_arguments, check_source, need_torch, source_named
from torchparity.errors import ConfigError


def add_arguments(parser: ArgumentParser, *, processes: str = "1") -> None:
    parser.add_argument("-forward", "--forward", type=Path, metavar="JSON", help="forward_info_{pid}.json")
    parser.add_argument("-backward", "--backward", type=Path, metavar="JSON", help="its backward_info, for gradients")
    parser.add_argument("-api_info", "--api_info", type=Path, metavar="JSON", help="dump.json of a run of level L1")
    parser.add_argument(
        *("-real_data_path", "--real_data_path"),
        type=Path,
        metavar="DIR",
        help="folder that holds forward_real_data and backward_real_data; default: that of forward_info",
    )
    add_common_arguments(parser, processes=processes)


def run(options: Namespace) -> int:
    if (options.forward is None) == (options.api_info is None):
        raise ConfigError(f"{options.command} needs one of -forward forward_info_0.json and -api_info dump.json.")
    need_torch()
    from torchparity.check.source import InfoSource

    if options.api_info is not None:
        refuse_together("-api_info", options, "-backward", "-real_data_path")
        return check_source(source_named(options.api_info, options), options)
    refuse_together("-forward", options, "--step", "--rank")
    source = InfoSource(forward=options.forward, backward=options.backward, real_data=options.real_data_path)
    return check_source(source, options)


def refuse_together(given: str, options: Namespace, *others: str) -> None:
    """Raise where an option was given that has no meaning beside another."""
    for other in others:
        if getattr(options, other.lstrip("-")) is not None:
            raise ConfigError(f"{options.command}: {other} has no meaning with {given}; leave it out.")
