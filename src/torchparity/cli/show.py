"""torchparity show: look at a run, at one record in it, or at one tensor.

torchparity show RUN                                    the run at a glance
torchparity show RUN --list relu                        names of the records that contain "relu"
torchparity show RUN Functional.linear.0.forward        one record: items, statistics, call stack
torchparity show RUN Functional.linear.0.forward --tensor input.0
                                                        values, histogram, where the extremes sit
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchparity.records import Record
    from torchparity.storage import RunPart, RunReader


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="folder of a run, of a step or rank in it, or its dump.json"
    )
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="record to show, for example Functional.linear.0.forward"
    )
    parser.add_argument(
        "--tensor", metavar="ITEM", help="item of that record whose values to show, for example input.0"
    )
    parser.add_argument(
        "--list", dest="pattern", nargs="?", const="", metavar="TEXT", help="list record names that contain TEXT"
    )
    parser.add_argument("--step", type=int, help="step to look into (default: the first)")
    parser.add_argument("--rank", type=int, help="rank to look into (default: the first)")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")


def run(options: Namespace) -> int:
    """Return 0, or 2 when something of the run could not be read."""
    from torchparity.errors import ConfigError
    from torchparity.storage import open_run

    if options.tensor is not None and options.name is None:
        raise ConfigError("--tensor needs the record it belongs to: torchparity show RUN NAME --tensor ITEM.")
    if options.pattern is not None and options.name is not None:
        raise ConfigError("give a record's NAME or --list TEXT, not both.")
    opened = open_run(options.run)
    if options.pattern is not None:
        return _list(opened.part(options.step, options.rank), options)
    if options.name is None:
        return _overview(opened, options)
    part = opened.part(options.step, options.rank)
    record = part.record(options.name)
    if options.tensor is None:
        return _record(part, record, options)
    return _tensor(part, record, options)


def _overview(opened: RunReader, options: Namespace) -> int:
    from torchparity.report import _show
    from torchparity.storage import summarise

    for wanted in (options.step, options.rank):
        if wanted is not None:
            opened.parts = [part for part in opened.parts if _selected(part, options)] or [
                opened.part(options.step, options.rank)
            ]
    summary = summarise(opened)
    if options.json:
        _print_json(summary)
    else:
        _show.run(summary)
    return _report_problems([problem for part in summary.parts for problem in part.problems])


def _selected(part: RunPart, options: Namespace) -> bool:
    return options.step in (None, part.step) and options.rank in (None, part.rank)


def _list(part: RunPart, options: Namespace) -> int:
    names = [name for name in part.records if options.pattern in name]
    if options.json:
        _print_json(names)
    else:
        print("\n".join(names) if names else f"no record of {part.folder} contains {options.pattern!r}")
    return _report_problems(part.problems)


def _record(part: RunPart, record: Record, options: Namespace) -> int:
    from torchparity.report import _show
    from torchparity.storage import record_to_json

    stack, parent = part.stack_of(record.name), part.construct.get(record.name)
    if options.json:
        _print_json({"name": record.name, "parent": parent, "stack": stack, "record": record_to_json(record)})
    else:
        _show.record(record, stack=stack, parent=parent, where=f"step {part.step}, rank {part.rank}")
    return 0


def _tensor(part: RunPart, record: Record, options: Namespace) -> int:
    import msgspec
    import numpy as np

    from torchparity.errors import NotRecordedError
    from torchparity.kernels.reference import profile
    from torchparity.records import TensorLeaf
    from torchparity.report import _show

    wanted = options.tensor.removeprefix(f"{record.name}.")
    leaves = {item.name: item.leaf for item in record.items()}
    leaf = leaves.get(wanted)
    if not isinstance(leaf, TensorLeaf):
        tensors = [name for name, leaf in leaves.items() if isinstance(leaf, TensorLeaf)]
        raise NotRecordedError("tensor", wanted, tensors, record.name)
    tensor = part.tensor(leaf)
    shown = profile(tensor)
    if options.json:
        _print_json({"name": record.item_name(wanted), **msgspec.to_builtins(shown)})
    else:
        with np.printoptions(precision=6, threshold=200, edgeitems=3, linewidth=110):
            # Only the corners are converted; a tensor of gigabytes prints as fast as a small one.
            values = np.array2string(tensor.array if tensor.array.dtype.names is None else tensor.numbers())
        _show.tensor(record.item_name(wanted), shown, values=values)
    return 0


def _report_problems(problems: list[str]) -> int:
    for problem in problems:
        print(f"torchparity: {problem}", file=sys.stderr)
    return 2 if problems else 0


def _print_json(value: Any) -> None:
    import msgspec

    from torchparity.records import number_to_json

    def strict(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: strict(entry) for key, entry in part.items()}
        if isinstance(part, (list, tuple)):
            return [strict(entry) for entry in part]
        return number_to_json(part)

    print(msgspec.json.format(msgspec.json.encode(strict(msgspec.to_builtins(value)))).decode())
