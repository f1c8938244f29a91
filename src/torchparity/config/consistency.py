"""Settings that each field allows alone but that do not work together."""

from __future__ import annotations

from typing import get_args

from torchparity.config.refusals import bad_value
from torchparity.config.settings import CaptureConfig, DataMode, FreeBenchmarkTask
from torchparity.errors import ConfigError
from torchparity.naming import forward_of, is_call_name

_MOST_RUNS = 10_000  # of significance for a call


def check_consistency(config: CaptureConfig, source: str) -> None:
    """Raise `ConfigError` for the first combination of settings that cannot work."""
    if config.level == "L2":
        raise ConfigError(f"{source}: level 'L2' (kernels) needs the vendor's dump; use 'L0', 'L1', 'mix' or 'debug'.")
    if not config.dump_path:
        raise bad_value(source, "dump_path", config.dump_path, "the folder to write to")
    for task, block in (("statistics", config.statistics), ("tensor", config.tensor)):
        if not block.data_mode:
            raise bad_value(
                source, f"{task}.data_mode", block.data_mode, "['all'] or some of " + ", ".join(get_args(DataMode))
            )
        if len(block.scope) not in (0, 2) and not (len(block.scope) == 1 and config.level == "mix"):
            raise bad_value(source, f"{task}.scope", block.scope, "the first and the last name of a range, or empty")
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
            raise bad_value(source, field, number, "a whole number from 1, or -1 for no limit")
    if config.task == "free_benchmark":
        _check_free_benchmark(config.free_benchmark, source)


def _summary_mode(config: CaptureConfig) -> str:
    return config.tensor.summary_mode if config.task == "tensor" else config.statistics.summary_mode


def _check_free_benchmark(block: FreeBenchmarkTask, source: str) -> None:
    where = f"{source}: free_benchmark"
    _check_calls(block, where)
    _check_modes(block, where)
    _check_numbers(block, source)
    if block.significance:
        _check_significance(block, where)


def _check_calls(block: FreeBenchmarkTask, where: str) -> None:
    """Raise for a choice of calls that names none, or says it in two ways."""
    if block.scope and block.list:
        raise ConfigError(f"{where}: give 'scope' or 'list', not both.")
    for name in block.scope:
        if not is_call_name(name):
            calls = f"{where}.scope names calls, such as 'Torch.matmul.0.forward'"
            raise ConfigError(f"{calls}; {name!r} is none: use 'list'.")
        if forward_of(name) != name:
            raise ConfigError(
                f"{where}.scope is for fuzz_stage 'forward', and {name!r} is a backward call; name "
                f"{forward_of(name)!r}, or use 'list' with fuzz_stage 'backward'."
            )
    if "" in block.list:
        raise ConfigError(f"{where}.list has an empty text, which every name contains; leave 'list' out for all.")


def _check_modes(block: FreeBenchmarkTask, where: str) -> None:
    """Raise for a perturbation, a handler and a stage that do not go together."""
    if (block.fuzz_device == "cpu") != (block.pert_mode == "to_cpu"):
        if block.pert_mode == "to_cpu":
            raise ConfigError(
                f"{where}: pert_mode is 'to_cpu', so fuzz_device must be 'cpu', not {block.fuzz_device!r}."
            )
        raise ConfigError(f"{where}: fuzz_device is 'cpu', so pert_mode must be 'to_cpu', not {block.pert_mode!r}.")
    if block.handler_type == "fix" and block.pert_mode not in ("improve_precision", "to_cpu"):
        raise ConfigError(
            f"{where}: handler_type 'fix' works with pert_mode 'improve_precision' or 'to_cpu', "
            f"not {block.pert_mode!r}."
        )
    if block.raise_float32 and block.pert_mode != "improve_precision":
        raise ConfigError(f"{where}: 'raise_float32' works with pert_mode 'improve_precision' only.")
    if block.handler_type == "fix" and (block.if_preheat or block.fuzz_stage == "backward"):
        given = "if_preheat" if block.if_preheat else "fuzz_stage 'backward'"
        raise ConfigError(f"{where}: handler_type 'fix' does not work with {given}; leave one of them out.")
    if block.fuzz_stage == "backward" and not block.list:
        raise ConfigError(f"{where}: fuzz_stage 'backward' needs 'list', since the listed APIs' activations are kept.")


def _check_numbers(block: FreeBenchmarkTask, source: str) -> None:
    for field, number in (("preheat_step", block.preheat_step), ("max_sample", block.max_sample)):
        if number < 1:
            raise bad_value(source, f"free_benchmark.{field}", number, "a whole number from 1")
    if block.max_calls_per_api < -1 or block.max_calls_per_api == 0:
        must_be = "a whole number from 1, or -1 for no limit"
        raise bad_value(source, "free_benchmark.max_calls_per_api", block.max_calls_per_api, must_be)
    if block.significance and not 2 <= block.significance <= _MOST_RUNS:
        must_be = f"a whole number from 2 to {_MOST_RUNS}, or 0 for none"
        raise bad_value(source, "free_benchmark.significance", block.significance, must_be)


def _check_significance(block: FreeBenchmarkTask, where: str) -> None:
    """Raise for what significance has no use for."""
    if block.handler_type == "fix" or block.fuzz_stage == "backward" or block.if_preheat:
        given = "if_preheat" if block.if_preheat else "fuzz_stage 'backward'"
        given = "handler_type 'fix'" if block.handler_type == "fix" else given
        raise ConfigError(f"{where}: 'significance' does not work with {given}; leave one of them out.")
    if block.raise_float32:
        raise ConfigError(f"{where}: 'significance' runs in float64 anyway; leave 'raise_float32' out.")
    if block.pert_mode != FreeBenchmarkTask().pert_mode:
        raise ConfigError(f"{where}: 'significance' adds noise of its own: leave pert_mode {block.pert_mode!r} out.")
