"""Settings as keyword arguments: their types for type checkers, and how they combine with a settings file.

A field of the task's own block may be given without the block: `list=["relu"]`. tests/config/test_keywords.py
keeps these types in step with those of settings.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from torchparity.config.refusals import unknown_field
from torchparity.config.settings import (
    BLOCKS,
    CaptureConfig,
    DataMode,
    FuzzDevice,
    FuzzStage,
    HandlerType,
    PertMode,
    Precision,
    RiskLevel,
    SummaryMode,
    TensorFormatName,
    offered,
)
from torchparity.errors import ConfigError

Texts = list[str] | tuple[str, ...]  # no Sequence[str]: a single text is one, too
Modes = list[DataMode] | tuple[DataMode, ...]
IndexRange = int | str | Sequence[int | str] | None


class StatisticsFields(TypedDict, total=False):
    """The `statistics` block as a mapping."""

    scope: Texts
    list: Texts
    tensor_list: Texts
    data_mode: Modes
    summary_mode: SummaryMode


class TensorFields(TypedDict, total=False):
    """The `tensor` block as a mapping."""

    scope: Texts
    list: Texts
    data_mode: Modes
    summary_mode: SummaryMode
    tensor_format: TensorFormatName
    bench_path: str | None
    diff_nums: int


class OverflowFields(TypedDict, total=False):
    """The `overflow_check` block as a mapping."""

    overflow_nums: int
    stop_training: bool


class FreeBenchmarkFields(TypedDict, total=False):
    """The `free_benchmark` block as a mapping."""

    scope: Texts
    list: Texts
    fuzz_device: FuzzDevice
    pert_mode: PertMode
    handler_type: HandlerType
    fuzz_level: Literal["L1"]
    fuzz_stage: FuzzStage
    if_preheat: bool
    preheat_step: int
    max_sample: int
    raise_float32: bool
    max_calls_per_api: int
    significance: int


class DebuggerFields(FreeBenchmarkFields, total=False):
    """The keyword arguments of `PrecisionDebugger` beside those in its signature; docs/config.md explains each."""

    rank: IndexRange
    async_dump: bool
    extra_info: bool
    precision: Precision
    risk_level: RiskLevel
    dump_enable: bool | None
    enable_dataloader: bool
    views: bool
    all_frames: bool
    overwrite: bool
    max_bytes: int | str | None
    statistics: StatisticsFields
    tensor: TensorFields
    overflow_check: OverflowFields
    free_benchmark: FreeBenchmarkFields
    tensor_list: Texts
    data_mode: Modes
    summary_mode: SummaryMode
    tensor_format: TensorFormatName
    bench_path: str | None
    diff_nums: int
    overflow_nums: int
    stop_training: bool


class CaptureFields(DebuggerFields, total=False):
    """The keyword arguments of `capture` beside those in its signature; docs/config.md explains each."""

    step: IndexRange


_BLOCK_FIELDS = frozenset(name for block in BLOCKS.values() for name in block.__struct_fields__)


def with_keywords(settings: Mapping[str, Any], keywords: Mapping[str, object], *, source: str) -> dict[str, Any]:
    """Return settings with keyword arguments over them; a field of the task's own block may be given plainly."""
    plain = {key: value for key, value in keywords.items() if key not in _BLOCK_FIELDS}
    inside = {key: value for key, value in keywords.items() if key in _BLOCK_FIELDS}
    merged = {**settings, **plain}
    task = merged.get("task", "statistics")
    block = task if isinstance(task, str) and task in BLOCKS else "statistics"
    fields = CaptureConfig.__struct_fields__
    for key in (key for key in plain if key not in fields):
        raise unknown_field(source, key, key, (*offered(fields), *BLOCKS[block].__struct_fields__))
    for key in (key for key in inside if key not in BLOCKS[block].__struct_fields__):
        owner = next(name for name, kind in BLOCKS.items() if key in kind.__struct_fields__)
        raise ConfigError(
            f"{source}: {key!r} is a field of task {owner!r}, and the task is {task!r}; use task={owner!r}."
        )
    given = merged.get(block, {})
    if inside and isinstance(given, Mapping):
        merged[block] = {**given, **inside}
    return merged
