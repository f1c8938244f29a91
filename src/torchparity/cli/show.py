"""torchparity show: look at a run, at one record in it, or at one tensor.

torchparity show RUN                 the run at a glance; --verify reads it all
torchparity show RUN --list relu     names of the records that contain "relu"
torchparity show RUN --nonfinite     names of the records with nan or inf
torchparity show RUN NAME            one record: items, statistics, call stack
torchparity show RUN NAME --tensor input.0
                                     values, histogram, where the extremes sit
"""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchparity.storage import run_path

if TYPE_CHECKING:
    from torchparity.records import Record, TensorLeaf
    from torchparity.storage import RunPart, RunReader

_MOST_CHECKSUMS = 5


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "run", type=run_path, metavar="RUN", help="folder of a run, of a step or rank in it, or its dump.json"
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="a record, for example Functional.linear.0.forward")
    parser.add_argument(
        "--tensor", metavar="ITEM", help="item of that record whose values to show, for example input.0"
    )
    parser.add_argument("--list", action="store_true", help="list record names, those that contain NAME if it is given")
    parser.add_argument("--nonfinite", action="store_true", help="list the records with nan or inf in their statistics")
    parser.add_argument("--verify", action="store_true", help="read every tensor and check it against its checksum")
    parser.add_argument("--step", type=int, help="step to look into (a record: the first)")
    parser.add_argument("--rank", type=int, help="rank to look into (a record: the first)")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")


def run(options: Namespace) -> int:
    """Return 0, or 2 when something of the run could not be read."""
    from torchparity.errors import ConfigError
    from torchparity.storage import open_run

    if options.tensor is not None and options.name is None:
        raise ConfigError("--tensor needs the record it belongs to: torchparity show RUN NAME --tensor ITEM.")
    if _has_checksums_alone(options.run):
        return _checksums_alone(options)
    opened = open_run(options.run)
    if options.list or options.nonfinite:
        return _list(opened, options)
    if options.name is None:
        return _overview(opened, options)
    part = opened.part(options.step, options.rank)
    record = part.record(options.name)
    code = _record(part, record, options) if options.tensor is None else _tensor(part, record, options)
    return code or _report_problems(part.problems)


def _overview(opened: RunReader, options: Namespace) -> int:
    import msgspec

    from torchparity.report import terminal
    from torchparity.storage import summarise

    summary = summarise(opened, opened.select(options.step, options.rank), verify=options.verify)
    checksums = _checksums(options.run)
    if options.json:
        _print_json({**msgspec.to_builtins(summary), "checksums": checksums} if checksums else summary)
    else:
        terminal.run(summary, verified=options.verify)
        _print_checksums(checksums)
    return _report_problems([problem for part in summary.parts for problem in part.problems])


def _has_checksums_alone(run: Path) -> bool:
    """Tell whether a run has checksums of steps and no recorded step."""
    from torchparity.storage.step_checksums import ranks_with_checksums

    return bool(ranks_with_checksums(run)) and not any(run.glob("step*"))


def _checksums_alone(options: Namespace) -> int:
    from torchparity.errors import ConfigError

    if options.name is not None or options.list or options.nonfinite or options.step is not None:
        raise ConfigError(
            f"{options.run} has checksums of steps and no records; torchparity run --steps LIST records a step."
        )
    checksums = _checksums(options.run)
    if options.json:
        _print_json({"path": str(options.run), "checksums": checksums})
    else:
        _print_checksums(checksums)
    return 0


def _checksums(run: Path) -> list[dict[str, Any]]:
    """Return what `torchparity run --checksum-every` kept of each rank."""
    from msgspec import to_builtins

    from torchparity.storage.step_checksums import ranks_with_checksums, read_checksums

    return [{"rank": rank, **to_builtins(read_checksums(run, rank))} for rank in ranks_with_checksums(run)]


def _print_checksums(checksums: Sequence[dict[str, Any]]) -> None:
    from torchparity.text import counted, printable

    for of_rank in checksums:
        steps = of_rank["steps"]
        span = f", {steps[0]['step']} to {steps[-1]['step']}" if steps else ""
        often = "" if of_rank["every"] == 1 else f", one of every {of_rank['every']}"
        kept = f"rank {of_rank['rank']}: checksums of {counted(len(steps), 'step')}{span}{often}"
        print(printable(f"{kept}; the script was: {shlex.join(of_rank['command'])}"))
        for step in steps[-_MOST_CHECKSUMS:]:
            loss = f"loss {', '.join(step['losses'])}" if step["losses"] else "no loss"
            print(printable(f"  step {step['step']}: weights {step['weights']}, {loss}"))


def _list(opened: RunReader, options: Namespace) -> int:
    """Print names of one part, or of all parts with step and rank in front where there are several."""
    from torchparity.errors import nearest
    from torchparity.storage import nonfinite_records
    from torchparity.text import printable

    parts = opened.select(options.step, options.rank)
    wanted = (options.name or "").lower()
    names_of = {
        part: [
            name for name in (nonfinite_records(part) if options.nonfinite else part.records) if wanted in name.lower()
        ]
        for part in parts
    }
    if options.json:
        rows = [{"step": part.step, "rank": part.rank, "records": names} for part, names in names_of.items()]
        _print_json(rows)
    else:
        for part, names in names_of.items():
            prefix = f"step{part.step} rank{part.rank} " if len(parts) > 1 else ""
            print("".join(f"{prefix}{printable(name)}\n" for name in names), end="")
        if options.nonfinite and not any(names_of.values()):
            measured = any(part.info.task != "structure" for part in parts)
            nothing = "no record has nan or inf" if measured else "a structure has no values that could be nan or inf"
            print(nothing, file=sys.stderr)
    problems = [problem for part in parts for problem in part.problems]
    if wanted and not options.nonfinite and not any(names_of.values()):
        hint = nearest(options.name, {word for part in parts for name in part.records for word in name.split(".")})
        what_to_do = f".{hint}" if hint else "; --list without a name lists them all."
        problems.append(f"no record has {options.name!r} in its name{what_to_do}")
    return _report_problems(problems)


def _record(part: RunPart, record: Record, options: Namespace) -> int:
    from torchparity.report import terminal
    from torchparity.storage import record_to_json

    stack, parent = part.stack_of(record.name), part.construct.get(record.name)
    if options.json:
        place = {"name": record.name, "step": part.step, "rank": part.rank, "parent": parent, "stack": stack}
        _print_json({**place, "record": record_to_json(record)})
    else:
        terminal.record(record, stack=stack, parent=parent, where=f"step {part.step}, rank {part.rank}")
    return 0


def _tensor(part: RunPart, record: Record, options: Namespace) -> int:
    import msgspec

    from torchparity.kernels.reference import profile
    from torchparity.report import terminal

    name, leaf = _tensor_leaf(part, record, options.tensor)
    tensor = part.tensor(leaf)
    shown = profile(tensor)
    if options.json:
        _print_json({"name": name, "step": part.step, "rank": part.rank, **msgspec.to_builtins(shown)})
    else:
        terminal.tensor(name, shown, values=tensor.preview())
    return 0


def _tensor_leaf(part: RunPart, record: Record, wanted: str) -> tuple[str, TensorLeaf]:
    from torchparity.errors import ConfigError, NotRecordedError
    from torchparity.records import TensorLeaf

    wanted = wanted.removeprefix(f"{record.name}.")
    leaves = {item.name: item.leaf for item in record.items()}
    if wanted == "value" and wanted not in leaves:  # a value saved by hand is shown under this name
        wanted = ""
    leaf = leaves.get(wanted)
    if not isinstance(leaf, TensorLeaf):
        tensors = [name or "value" for name, leaf in leaves.items() if isinstance(leaf, TensorLeaf)]
        raise NotRecordedError("tensor", wanted, tensors, record.name)
    if leaf.data_name is None:
        is_tensor = part.info.task == "tensor"
        what = (
            "they were left out, and the run says why: torchparity show RUN"
            if is_tensor
            else "task 'tensor' keeps them"
        )
        raise ConfigError(
            f"{record.item_name(wanted)} was recorded without its values (task {part.info.task!r}); {what}."
        )
    return record.item_name(wanted), leaf


def _report_problems(problems: list[str]) -> int:
    from torchparity.text import printable

    for problem in problems:
        print(f"torchparity: {printable(problem)}", file=sys.stderr)
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
