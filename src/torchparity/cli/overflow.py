"""torchparity overflow: tell overflows of the mathematics from those of a kernel.

torchparity overflow RUN                          a run of task overflow_check, or any run with APIs
torchparity overflow -forward forward_info_0.json [-backward backward_info_0.json]
torchparity overflow --origin RUN/step0           the first rank and record where nan or inf arises, over all ranks
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from torchparity.errors import ConfigError, MissingTorchError, RunNotFoundError
from torchparity.storage import run_path
from torchparity.text import counted, printable

if TYPE_CHECKING:
    from torchparity.overflow.entry import Overflow
    from torchparity.storage import RunPart

_WITHOUT_CALLS = ("L0", "debug")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", type=run_path, metavar="RUN", help="run, its folder or dump.json")
    parser.add_argument("--origin", action="store_true", help="name where nan or inf first arises; needs no torch")
    parser.add_argument(
        "-o", "--output_path", type=Path, metavar="DIR", help="folder for the file of --origin; default: ./output"
    )
    parser.add_argument("-api_info", type=run_path, metavar="JSON", help="RUN, as msprobe spells it")
    parser.add_argument("-forward", type=Path, metavar="JSON", help="a forward_info in place of RUN")
    parser.add_argument("-backward", type=Path, metavar="JSON", help="its backward_info; default: the one beside it")
    parser.add_argument(
        "-d", "--device", metavar="DEVICE", help="device to run calls on again, such as cpu, cuda:0 or 0"
    )
    parser.add_argument("-j", "--jit_compile", action="store_true", help="accepted, without effect")
    parser.add_argument("--step", metavar="N", help="step to look at; default: all")
    parser.add_argument("--rank", metavar="N", help="rank to look at; default: all")
    parser.add_argument("--json", action="store_true", help="print the answer for programs")
    parser.add_argument(
        "--fail-on",
        choices=["abnormal", "overflow", "never"],
        default="never",
        help="exit with 1 when an overflow is abnormal, or when there is any",
    )


def run(options: Namespace) -> int:
    """Print a verdict for every call that overflowed; return 1 where --fail-on says so."""
    parts = _parts(options)
    if options.origin:
        return find_origin(parts, options.output_path, as_json=options.json, fails=options.fail_on == "overflow")
    if options.output_path is not None:
        raise ConfigError("-o is the folder for the file of --origin; without --origin nothing is written.")
    if find_spec("torch") is None:
        raise MissingTorchError("torchparity overflow")
    from torchparity.overflow.entry import device_named, overflows_of

    device = device_named(options.device)
    found: list[Overflow] = []
    for overflow in overflows_of(parts, device):
        place = (overflow.step, overflow.rank)
        is_elsewhere = not found or (found[-1].step, found[-1].rank) != place
        found.append(overflow)
        if not options.json:
            is_told = is_elsewhere and (len(parts) > 1 or place != (0, 0))
            lines = [f"step {overflow.step}, rank {overflow.rank}:"] if is_told else []
            print(printable("\n".join([*lines, *overflow.lines()])))
    problems = [sentence for part in parts for sentence in part.problems]
    if options.json:
        print(json.dumps({"overflows": [each.to_json() for each in found], "problems": problems}))
    else:
        for sentence in problems:
            print(printable(sentence))
        print(_summary(found))
    verdicts = {each.verdict.value for each in found if each.verdict is not None}
    failing = {"abnormal": {"abnormal"}, "overflow": {"abnormal", "normal"}, "never": set()}[options.fail_on]
    return int(bool(verdicts & failing))


def find_origin(parts: Sequence[RunPart], folder: Path | None, *, as_json: bool, fails: bool) -> int:
    """Print where nan or inf first arises and write anomaly_analyze.json; return 1 where that is to fail."""
    from torchparity.overflow.origin import origins_of

    found = origins_of(parts)
    file = found.write(folder or Path("output")) if found.nodes else None
    if as_json:
        nodes = found.to_json()
        print(json.dumps({"sentence": found.sentence(), "nodes": nodes, "file": str(file) if file else None}))
    else:
        print(printable(found.sentence()))
        for node in found.nodes[1:]:
            print(printable(f"Also: {node.sentence()}"))
        if file is not None:
            print(f"wrote {file}")
    return int(fails and bool(found.nodes))


def _parts(options: Namespace) -> Sequence[RunPart]:
    given = [path for path in (options.run, options.api_info, options.forward) if path is not None]
    if len(given) != 1:
        raise ConfigError("overflow needs one source: torchparity overflow RUN, or -forward forward_info_0.json.")
    if options.origin and options.forward is not None:
        raise ConfigError("--origin reads a run: torchparity overflow --origin RUN/step0.")
    if options.forward is None:
        from torchparity.storage import open_run

        step, rank = (_number(name, getattr(options, name)) for name in ("step", "rank"))
        _refuse_empty(given[0])
        parts = open_run(given[0]).select(step, rank)
        _refuse_without_numbers(given[0], parts[0])
        return parts
    from torchparity.storage import open_info_files

    beside = options.forward.with_name(options.forward.name.replace("forward_info", "backward_info"))
    backward = options.backward or (beside if beside != options.forward and beside.is_file() else None)
    return [open_info_files(options.forward, backward)]


def _refuse_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        raise RunNotFoundError(f"{folder} is empty; task overflow_check writes nothing where no call overflows.")


def _refuse_without_numbers(path: Path, part: RunPart) -> None:
    """Raise where a run cannot tell whether a call overflowed."""
    if part.info.level in _WITHOUT_CALLS:
        raise ConfigError(f"{path} has level {part.info.level}; to find overflows, record with level L1 or mix.")
    if part.info.task == "structure":
        raise ConfigError(f"{path} has task structure, which keeps no numbers; record with task overflow_check.")


def _number(name: str, word: str | None) -> int | None:
    if word is not None and not (word.isdecimal() and int(word) < 10**9):
        raise ConfigError(f"--{name} is {word!r}; it must be a whole number.")
    return None if word is None else int(word)


def _summary(found: Sequence[Overflow]) -> str:
    if not found:
        return "No call overflows: none has finite arguments and a result that is not finite."
    words = [each.verdict.value if each.verdict is not None else "unjudged" for each in found]
    counts = [f"{words.count(word)} {said}" for word, said in _WORDS.items() if words.count(word)]
    return f"{counted(len(found), 'overflow')}: {', '.join(counts)}."


_WORDS = {"normal": "normal", "abnormal": "abnormal", "none": "not seen again", "unjudged": "not judged"}
