"""config.json and compare.json as typed settings, or an error that names field, value and choices."""

from __future__ import annotations

import re
import types
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from torchparity.errors import ConfigError, nearest

Task = Literal["statistics", "tensor", "structure", "overflow_check", "free_benchmark", "acc_check", "run_ut"]
Level = Literal["L0", "L1", "mix", "L2", "debug"]
DataMode = Literal["all", "forward", "backward", "input", "output"]
Indices = Annotated[list[int], "a list of numbers from 0 to 1000000, or text such as '3' or '4-6'"]
DataModes = list[DataMode]  # named here: the blocks have a field called `list`
Names = Annotated[list[str], "a list of texts"]
Size = Annotated[int | None, "a whole number of bytes from 1, or text such as '20GB' or '1.5GiB'"]

LARGEST_INDEX = 1_000_000
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([KMGT]?i?B)", re.ASCII)
_UNITS = {"B": 1} | {f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)}
_UNITS |= {f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)}
_SPAN = re.compile(r"(\d{1,7})(?:\s*-\s*(\d{1,7}))?", re.ASCII)


class StatisticsTask(msgspec.Struct, frozen=True, kw_only=True):
    """The `statistics` block: what to record and how to sum it up."""

    scope: Names = []
    list: Names = []
    tensor_list: Names = []
    data_mode: DataModes = msgspec.field(default_factory=lambda: ["all"])
    summary_mode: Literal["statistics", "md5", "xor"] = "statistics"


class TensorTask(msgspec.Struct, frozen=True, kw_only=True):
    """The `tensor` block: what to record in full."""

    scope: Names = []
    list: Names = []
    data_mode: DataModes = msgspec.field(default_factory=lambda: ["all"])
    summary_mode: Literal["statistics", "md5", "xor"] = "statistics"
    tensor_format: Literal["safetensors", "pt"] = "safetensors"
    bench_path: str | None = None
    diff_nums: int = 1


class OverflowTask(msgspec.Struct, frozen=True, kw_only=True):
    """The `overflow_check` block."""

    overflow_nums: int = 1


class FreeBenchmarkTask(msgspec.Struct, frozen=True, kw_only=True):
    """The `free_benchmark` block: how to disturb an API and judge the result."""

    scope: Names = []
    list: Names = []
    fuzz_device: Literal["npu", "cpu", "cuda", "device"] = "npu"
    pert_mode: Literal["improve_precision", "bit_noise", "add_noise", "change_value", "no_change", "to_cpu"] = (
        "improve_precision"
    )
    handler_type: Literal["check", "fix"] = "check"
    fuzz_level: Literal["L1"] = "L1"
    fuzz_stage: Literal["forward", "backward"] = "forward"
    if_preheat: bool = False
    preheat_step: int = 15
    max_sample: int = 20


class CheckTask(msgspec.Struct, frozen=True, kw_only=True):
    """The `acc_check` (older: `run_ut`) block."""

    white_list: Names = []
    black_list: Names = []
    error_data_path: str = "./"


class CaptureConfig(msgspec.Struct, frozen=True, kw_only=True):
    """config.json: what to record, where, and the block of each task.

    `async_dump` changes nothing: files are always written by another thread. `views`,
    `all_frames` (torch's own frames in call stacks too), `overwrite` and `max_bytes` are ours.
    A rank's run that has `max_bytes` goes on without the values of further tensors.
    """

    task: Annotated[Task, Literal["statistics", "tensor", "structure"]] = "statistics"
    dump_path: str = "./dump_path"
    rank: Indices = []
    step: Indices = []
    level: Annotated[Level, Literal["L0", "L1", "mix", "debug"]] = "L1"
    async_dump: bool = False
    extra_info: bool = True
    precision: Literal["high", "low"] = "low"
    risk_level: Literal["ALL", "CORE", "FOCUS"] = "FOCUS"
    dump_enable: bool | None = None
    enable_dataloader: bool = False
    views: bool = False
    all_frames: bool = False
    overwrite: bool = False
    max_bytes: Size = None
    statistics: StatisticsTask = StatisticsTask()
    tensor: TensorTask = TensorTask()
    overflow_check: OverflowTask = OverflowTask()
    free_benchmark: FreeBenchmarkTask = FreeBenchmarkTask()
    acc_check: CheckTask = CheckTask()
    run_ut: CheckTask = CheckTask()


class CompareConfig(msgspec.Struct, frozen=True, kw_only=True):
    """compare.json: the two runs to compare, in the seeds' words."""

    npu_path: str
    bench_path: str
    stack_path: str | None = None
    is_print_compare_log: bool = True


_BLOCKS = {
    field.name: field.type
    for field in msgspec.structs.fields(CaptureConfig)
    if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct)
}
_BLOCK_FIELDS = frozenset(name for block in _BLOCKS.values() for name in block.__struct_fields__)

# The template that came with msprobe 8.2.0 has these for another framework or another tool; recording never read them.
_FOREIGN = frozenset({"grad_probe"})
_FOREIGN_FIELDS = {"tensor": "file_format", "overflow_check": "check_mode"}

Settings = TypeVar("Settings", bound=msgspec.Struct)


def load_capture_config(path: str | Path) -> CaptureConfig:
    """Read config.json; raise `ConfigError` in one sentence for anything it cannot mean."""
    return capture_config(read_settings(Path(path)), source=str(path))


def capture_config(values: Mapping[str, Any], *, source: str = "config") -> CaptureConfig:
    """Return settings from a mapping, checked field by field and against each other."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{source}: settings are a mapping of fields, not a {type(values).__name__}.")
    prepared = {
        key: _PREPARED[key](value, key, source) if key in _PREPARED else _without_foreign(key, value)
        for key, value in values.items()
        if (value is not None or key not in ("rank", "step")) and key not in _FOREIGN
    }
    config = _struct(CaptureConfig, prepared, source, "")
    _check_capture(config, source)
    return config


def _without_foreign(block: str, value: Any) -> Any:
    foreign = _FOREIGN_FIELDS.get(block)
    return {key: each for key, each in value.items() if key != foreign} if isinstance(value, dict) else value


def with_keywords(settings: Mapping[str, Any], keywords: Mapping[str, Any], *, source: str) -> dict[str, Any]:
    """Return settings with keyword arguments over them; a field of the task's own block may be given plainly."""
    plain = {key: value for key, value in keywords.items() if key not in _BLOCK_FIELDS}
    inside = {key: value for key, value in keywords.items() if key in _BLOCK_FIELDS}
    merged = {**settings, **plain}
    task = merged.get("task", "statistics")
    block = task if isinstance(task, str) and task in _BLOCKS else "statistics"
    fields = CaptureConfig.__struct_fields__
    for key in (key for key in plain if key not in fields):
        raise _unknown_field(source, key, key, (*fields, *_BLOCKS[block].__struct_fields__))
    given = merged.get(block, {})
    if inside and isinstance(given, Mapping):
        merged[block] = {**given, **inside}
    return merged


def load_compare_config(path: str | Path) -> CompareConfig:
    """Read compare.json; raise `ConfigError` in one sentence for anything it cannot mean."""
    return _struct(CompareConfig, read_settings(Path(path)), str(path), "")


def read_settings(path: Path) -> dict[str, Any]:
    """Return a settings file's fields as they are; raise `ConfigError` if it is no JSON object."""
    try:
        content = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid JSON: {error}.") from error
    if not isinstance(content, dict):
        raise ConfigError(f'{path} must hold a JSON object such as {{"task": "statistics"}}.')
    return content


def _struct(kind: type[Settings], values: Any, source: str, where: str) -> Settings:
    """Build a settings struct, refusing unknown keys by their nearest valid spelling."""
    if not isinstance(values, Mapping):
        raise _bad_value(source, where, values, "an object with fields " + ", ".join(kind.__struct_fields__))
    hints, required = _fields(kind)
    for key in values:
        if key not in hints:
            raise _unknown_field(source, str(key), _dotted(where, str(key)), hints)
    for key in required:
        if key not in values:
            raise ConfigError(f"{source}: field {_dotted(where, key)!r} is missing.")
    converted = {key: _value(hints[key], value, source, _dotted(where, key)) for key, value in values.items()}
    return kind(**converted)


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[dict[str, Any], list[str]]:
    """Return the types of a struct's fields, and those that must be given; working them out takes a while."""
    hints = get_type_hints(kind, include_extras=True)
    return hints, [field.name for field in msgspec.structs.fields(kind) if field.required]


def _value(hint: Any, value: Any, source: str, where: str) -> Any:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _struct(hint, value, source, where)
    try:
        return msgspec.convert(value, hint, strict=True)
    except msgspec.ValidationError:
        raise _bad_value(source, where, value, _wanted(hint), _choices(hint)) from None


def _unknown_field(source: str, key: str, shown: str, fields: Collection[str]) -> ConfigError:
    return ConfigError(f"{source}: unknown field {shown!r}.{nearest(key, fields)} Fields here: {', '.join(fields)}.")


def _bad_value(source: str, where: str, value: Any, wanted: str, choices: tuple[Any, ...] = ()) -> ConfigError:
    hint = nearest(value, choices) if isinstance(value, str) and choices else ""
    return ConfigError(f"{source}: field {where!r} is {repr(value)[:80]}; it must be {wanted}.{hint}")


def _choices(hint: Any) -> tuple[Any, ...]:
    """Return what to offer for a field: of tasks and levels those that can be recorded."""
    offered = hint.__metadata__[0] if get_origin(hint) is Annotated else hint
    return get_args(offered) if get_origin(offered) is Literal else ()


def _wanted(hint: Any) -> str:
    """Say in words what a field's type admits."""
    if choices := _choices(hint):
        return "one of " + ", ".join(map(repr, choices))
    if get_origin(hint) is Annotated:
        return str(hint.__metadata__[0])
    if get_origin(hint) is list:
        return "a list, each entry " + _wanted(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_wanted(option) for option in get_args(hint))
    words = {bool: "true or false", int: "a whole number", str: "text", type(None): "null"}
    return words.get(hint, str(hint))


def _dotted(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _indices(value: Any, field: str, source: str) -> list[int]:
    """Return the numbers that `[0, 2]`, `"3"`, `"4-6"` or a list of those mean."""
    numbers: list[int] = []
    for part in value if isinstance(value, (list, tuple, range)) else [value]:
        found = _SPAN.fullmatch(part.strip()) if isinstance(part, str) else None
        number = part if type(part) is int else -1
        span = (int(found[1]), int(found[2] or found[1])) if found else (number, number)
        if not 0 <= span[0] <= span[1] <= LARGEST_INDEX:
            raise _bad_value(source, field, value, str(get_args(Indices)[1]))
        numbers.extend(range(span[0], span[1] + 1))
    return numbers


def _size(value: Any, field: str, source: str) -> int | None:
    """Return the bytes that a whole number or text such as "20GB" means; None is no limit."""
    text = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    size = int(float(text[1]) * _UNITS[text[2]]) if text and text[2] in _UNITS else value
    if size is not None and (type(size) is not int or size < 1):
        raise _bad_value(source, field, value, str(get_args(Size)[1]))
    return size


_PREPARED = {"rank": _indices, "step": _indices, "max_bytes": _size}


def _check_capture(config: CaptureConfig, source: str) -> None:
    """Refuse what each field allows alone but not together."""
    if config.level == "L2":
        raise ConfigError(f"{source}: level 'L2' (kernels) needs the vendor's dump; use 'L0', 'L1', 'mix' or 'debug'.")
    if not config.dump_path:
        raise _bad_value(source, "dump_path", config.dump_path, "the folder to write to")
    for task, block in (("statistics", config.statistics), ("tensor", config.tensor)):
        if not block.data_mode:
            raise _bad_value(
                source, f"{task}.data_mode", block.data_mode, "['all'] or some of " + ", ".join(get_args(DataMode))
            )
        if len(block.scope) not in (0, 2) and not (len(block.scope) == 1 and config.level == "mix"):
            raise _bad_value(source, f"{task}.scope", block.scope, "the first and the last name of a range, or empty")
    if config.async_dump and config.task == "tensor" and not config.tensor.list:
        raise ConfigError(
            f"{source}: async_dump with task 'tensor' needs 'tensor.list', or device memory would fill up."
        )
    if config.async_dump and _summary_mode(config) == "md5":
        raise ConfigError(f"{source}: async_dump cannot be used with summary_mode 'md5'; switch one of them off.")
    if config.task == "tensor" and config.tensor.bench_path and config.tensor.summary_mode != "md5":
        raise ConfigError(f"{source}: tensor.bench_path compares checksums; it needs tensor.summary_mode 'md5'.")
    for field, number, least in (
        ("tensor.diff_nums", config.tensor.diff_nums, -1),
        ("overflow_check.overflow_nums", config.overflow_check.overflow_nums, -1),
    ):
        if number < least or number == 0:
            raise _bad_value(source, field, number, "a whole number from 1, or -1 for no limit")
    if config.task == "free_benchmark":
        _check_free_benchmark(config.free_benchmark, source)


def _summary_mode(config: CaptureConfig) -> str:
    return config.tensor.summary_mode if config.task == "tensor" else config.statistics.summary_mode


def _check_free_benchmark(block: FreeBenchmarkTask, source: str) -> None:
    where = f"{source}: free_benchmark"
    if block.scope and block.list:
        raise ConfigError(f"{where}: give 'scope' or 'list', not both.")
    if (block.fuzz_device == "cpu") != (block.pert_mode == "to_cpu"):
        raise ConfigError(
            f"{where}: fuzz_device 'cpu' and pert_mode 'to_cpu' go together; one is set without the other."
        )
    if block.handler_type == "fix" and block.pert_mode not in ("improve_precision", "to_cpu"):
        raise ConfigError(f"{where}: handler_type 'fix' works with pert_mode 'improve_precision' or 'to_cpu' only.")
    if block.handler_type == "fix" and (block.if_preheat or block.fuzz_stage == "backward"):
        raise ConfigError(f"{where}: handler_type 'fix' works neither with if_preheat nor with fuzz_stage 'backward'.")
    if block.fuzz_stage == "backward" and not block.list:
        raise ConfigError(f"{where}: fuzz_stage 'backward' needs 'list', since the listed APIs' activations are kept.")
    for field, number in (("preheat_step", block.preheat_step), ("max_sample", block.max_sample)):
        if number < 1:
            raise _bad_value(source, f"free_benchmark.{field}", number, "a whole number from 1")
