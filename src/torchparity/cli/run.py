"""torchparity run: record a script that knows nothing of torchparity.

torchparity run --steps 0-1 -o RUN train.py --lr 0.1      what comes after the script is the script's
torchparity run --steps 0-1 -o RUN -m package.train       a module, as python -m has it
torchrun --nproc-per-node 2 -m torchparity run train.py   every rank records its own part
torchparity run --seeds train.py                          a script for torch_npu.hooks, ptdbg_ascend,
                                                          api_accuracy_checker or msprobe, as it is
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from torchparity.errors import ConfigError

# As in config/settings.py, which is not loaded for help; level debug records only what a script saves itself.
LEVELS = ("L0", "L1", "mix")
_OF_PREHEAT = ("preheat_step", "max_sample")  # fields of task free_benchmark, as the next
_WHOLE = (*_OF_PREHEAT, "max_calls_per_api", "significance")
_PERT_MODES = ("improve_precision (the default)", "bit_noise", "add_noise", "change_value", "no_change", "to_cpu")
TASKS = ("statistics", "tensor", "structure", "overflow_check", "free_benchmark")


def add_arguments(parser: ArgumentParser) -> None:
    parser.usage = "torchparity run [options] SCRIPT [arguments of the script]"
    parser.add_argument("script", nargs="*", metavar="SCRIPT", help="script to run, and its own arguments")
    parser.add_argument("-m", dest="module", metavar="MODULE", help="run a module in place of a script")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("parity_run"), metavar="RUN", help="folder of the run (parity_run)"
    )
    parser.add_argument("--level", choices=LEVELS, default="mix", help="modules (L0), APIs (L1) or both (mix)")
    parser.add_argument("--task", choices=TASKS, default="statistics", help="what to keep of each tensor")
    parser.add_argument("--steps", metavar="LIST", help="steps to record, from 0, such as 0-1 or 0,5-7; default: all")
    parser.add_argument("--model", metavar="NAME", help="the model: a variable of the script, or a class")
    parser.add_argument(
        "--overflow-nums", metavar="N", help="of --task overflow_check: calls to look for (1); -1 is all of them"
    )
    parser.add_argument("--stop-after", action="store_true", help="end the script after the last step of --steps")
    parser.add_argument(
        "--checksum-every",
        metavar="N",
        help="keep a checksum of weights and loss every N steps, and record calls only where --steps says so",
    )
    parser.add_argument(
        "--seeds",
        action="store_true",
        help="let the script import ptdbg_ascend, msprobe and the like, and record by them alone",
    )
    _add_perturbing(parser)
    parser.add_argument(
        "--overwrite", action="store_true", help="remove the run, or the tables of free_benchmark, already in RUN"
    )
    parser.add_argument("--log-file", metavar="FILE", help="write there what torchparity does, call by call")


def _add_perturbing(parser: ArgumentParser) -> None:
    perturbing = parser.add_argument_group("for --task free_benchmark (docs/free-benchmark.md)")
    perturbing.add_argument("--pert-mode", metavar="MODE", help=f"how to change inputs: {', '.join(_PERT_MODES)}")
    perturbing.add_argument("--handler-type", metavar="TYPE", help="check results, or fix them (check)")
    perturbing.add_argument("--fuzz-stage", metavar="STAGE", help="forward or backward (forward)")
    perturbing.add_argument(
        "--list", dest="names", metavar="TEXTS", action="append", help="only calls with one of these, as in mm,exp"
    )
    perturbing.add_argument(
        "--scope", metavar="NAMES", action="append", help="only these calls, as in Torch.exp.0.forward"
    )
    perturbing.add_argument("--if-preheat", action="store_true", default=None, help="learn each API's own level first")
    perturbing.add_argument("--preheat-step", metavar="N", help="the number of steps to learn from (15)")
    perturbing.add_argument("--max-sample", metavar="N", help="calls of an API to learn from at most (20)")
    perturbing.add_argument("--max-calls-per-api", metavar="N", help="calls of an API to perturb in a step at most")
    perturbing.add_argument(
        "--raise-float32", action="store_true", default=None, help="improve_precision raises float32 too, to float64"
    )
    perturbing.add_argument("--significance", metavar="N", help="count significant bits, by N runs with noise")


def own_words(words: Sequence[str], parser: ArgumentParser) -> int:
    """Return how many words are ours: up to the script, or the module of -m, whose arguments are not for us."""
    options = parser._option_string_actions
    index = 0
    while index < len(words):
        word = words[index]
        if word == "--":
            return index + 1
        if word.startswith("-m") and not word.startswith("--"):
            return index + (2 if word == "-m" else 1)
        if not word.startswith("-") or word == "-":
            return index
        matching = [action for name, action in options.items() if name == word] or [
            action for name, action in options.items() if word.startswith("--") and name.startswith(word)
        ]
        takes_value = any(action.nargs is None for action in matching)
        index += 2 if takes_value else 1
    return len(words)


def run(options: Namespace) -> int:
    from torchparity.running import Asked, find_script, run_script

    words = [options.module, *options.script] if options.module is not None else options.script
    if not words:
        raise ConfigError("run needs a script: torchparity run [options] train.py, or -m module.")
    if options.seeds:
        _refuse_beside_seeds(options)
        return _run_by_other_names(words, is_module=options.module is not None)
    if options.stop_after and options.steps is None:
        raise ConfigError(
            "--stop-after ends the script after the last step of --steps; say which, such as --steps 0-1."
        )
    asked = Asked(
        output=options.output,
        level=options.level,
        task=options.task,
        steps=options.steps,
        model=options.model,
        stop_after=options.stop_after,
        overwrite=options.overwrite,
        checksum_every=_number(options.checksum_every),
        overflow_nums=_overflows(options),
        perturbing=_perturbing(options),
        command=_command(options, words),
        log=_log_file(options.log_file),
    )
    return run_script(find_script(words, is_module=options.module is not None), asked)


def _refuse_beside_seeds(options: Namespace) -> None:
    """Raise where an option is given that says what to record: the script says that itself."""
    usual: ArgumentParser = ArgumentParser()
    add_arguments(usual)
    own = ("seeds", "script", "module")
    given = [
        action.option_strings[-1]
        for action in usual._actions
        if action.dest in vars(options) and action.dest not in own and vars(options)[action.dest] != action.default
    ]
    if given:
        raise ConfigError(f"--seeds records by what the script itself asks for; leave {', '.join(given)} out.")


def _run_by_other_names(words: list[str], *, is_module: bool) -> int:
    """Run a script that records by the functions of an earlier tool; nothing else is recorded."""
    from torchparity.running import find_script, install, run_unrecorded

    install()
    return run_unrecorded(find_script(words, is_module=is_module))


def _command(options: Namespace, words: list[str]) -> list[str]:
    """Return the words that start the script again, behind those of `torchparity run`."""
    model = [] if options.model is None else ["--model", options.model]
    return [*model, *([] if options.module is None else ["-m"]), *words]


def _perturbing(options: Namespace) -> dict[str, object]:
    """Return the block of task free_benchmark; refuse its options for any other task."""
    given = {
        "pert_mode": options.pert_mode,
        "handler_type": options.handler_type,
        "fuzz_stage": options.fuzz_stage,
        "list": _texts(options.names),
        "scope": _texts(options.scope),
        "if_preheat": options.if_preheat,
        "raise_float32": options.raise_float32,
        **{field: _whole(vars(options)[field]) for field in _WHOLE if vars(options)[field] is not None},
    }
    block = {field: value for field, value in given.items() if value is not None}
    if block and options.task != "free_benchmark":
        given_options = ", ".join(f"--{field.replace('_', '-')}" for field in block)
        raise ConfigError(f"{given_options}: only for --task free_benchmark; the task is {options.task}.")
    for field in _OF_PREHEAT:
        if field in block and not options.if_preheat:
            raise ConfigError(f"--{field.replace('_', '-')}: only with --if-preheat, which learns in the first steps.")
    return {**block, "fuzz_device": "cpu"} if options.pert_mode == "to_cpu" else block


def _texts(given: list[str] | None) -> list[str] | None:
    """Return the texts of an option that takes several, and may be repeated."""
    return None if given is None else [text.strip() for texts in given for text in texts.split(",")]


def _whole(text: str) -> int | str:
    return int(text) if text.removeprefix("-").isdecimal() else text


def _log_file(text: str | None) -> Path | None:
    if text == "":
        raise ConfigError("--log-file is empty; name a file.")
    return None if text is None else Path(text)


def _number(text: str | None) -> int | None:
    if text is not None and not (text.isdecimal() and 0 < int(text) < 10**9):
        raise ConfigError(f"--checksum-every is {text!r}; it must be a whole number from 1 on.")
    return None if text is None else int(text)


def _overflows(options: Namespace) -> int | None:
    text = options.overflow_nums
    if text is None:
        return None
    if options.task != "overflow_check":
        raise ConfigError(f"--overflow-nums: only for --task overflow_check; the task is {options.task}.")
    if text != "-1" and not (text.isdecimal() and 0 < int(text) < 10**9):
        raise ConfigError(f"--overflow-nums is {text!r}; it must be a whole number from 1, or -1 for no limit.")
    return int(text)
