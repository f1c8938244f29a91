"""Settings as keyword arguments: misspelt ones are refused, and their types are those of the settings."""

from __future__ import annotations

import inspect
from typing import Annotated, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from torchparity.config import (
    CaptureConfig,
    CaptureFields,
    DebuggerFields,
    FreeBenchmarkFields,
    FreeBenchmarkTask,
    OverflowFields,
    OverflowTask,
    RecordingLevel,
    RecordingTask,
    StatisticsFields,
    StatisticsTask,
    TensorFields,
    TensorTask,
    with_keywords,
)
from torchparity.errors import ConfigError
from torchparity.recording import PrecisionDebugger, capture

NOT_YET = {"acc_check", "run_ut"}


@pytest.mark.parametrize(
    ("keywords", "wanted"),
    [
        pytest.param({"lisst": ["relu"]}, ["'lisst'", "Did you mean 'list'?", "scope, ", "summary_mode"], id="block"),
        pytest.param({"levle": "L0"}, ["'levle'", "Did you mean 'level'?", "tensor_list"], id="common"),
        pytest.param({"task": "tensor", "diff_num": 2}, ["'diff_num'", "Did you mean 'diff_nums'?"], id="tensor"),
    ],
)
def test_an_unknown_keyword_is_refused_by_the_nearest_of_all_that_are_accepted(keywords, wanted):
    with pytest.raises(ConfigError) as raised:
        with_keywords({}, keywords, source="capture")

    assert str(raised.value).startswith("capture: unknown field ")
    for text in wanted:
        assert text in str(raised.value)


def test_fields_of_other_tasks_are_not_offered_to_a_mistyped_keyword():
    with pytest.raises(ConfigError) as raised:
        with_keywords({}, {"overflow_num": 1}, source="capture")

    assert "overflow_nums" not in str(raised.value)


def plain(hint):
    """A field's type as a keyword has it: choices that can be recorded, a list or a tuple for a list."""
    if get_origin(hint) is Annotated:
        inner, offered = get_args(hint)[:2]
        return offered if get_origin(offered) is Literal else plain(inner)
    if get_origin(hint) is list:
        (entry,) = get_args(hint)
        return Union[list[entry], tuple[entry, ...]]  # noqa: UP007 - built at run time
    return hint


def fields_of(kind):
    hints = get_type_hints(kind, include_extras=True)
    return {name: plain(hints[name]) for name in kind.__struct_fields__ if name not in NOT_YET}


@pytest.mark.parametrize(
    ("block", "keywords"),
    [
        (StatisticsTask, StatisticsFields),
        (TensorTask, TensorFields),
        (OverflowTask, OverflowFields),
        (FreeBenchmarkTask, FreeBenchmarkFields),
    ],
)
def test_blocks_have_the_same_fields_as_mappings_and_as_settings(block, keywords):
    assert get_type_hints(keywords) == fields_of(block)


@pytest.mark.parametrize(("function", "keywords"), [(capture, CaptureFields), (PrecisionDebugger, DebuggerFields)])
def test_keywords_are_typed_as_the_settings_are(function, keywords):
    settings = fields_of(CaptureConfig)
    for block in (TensorTask, StatisticsTask, OverflowTask, FreeBenchmarkTask):
        settings |= fields_of(block)
    settings |= {"statistics": StatisticsFields, "tensor": TensorFields}
    settings |= {"overflow_check": OverflowFields, "free_benchmark": FreeBenchmarkFields}
    in_signature = set(inspect.signature(function).parameters)

    typed = get_type_hints(keywords)

    assert not in_signature & set(typed)
    assert set(typed) == set(settings) - in_signature - ({"dump_path"} if function is capture else set())
    for name in set(typed) - {"rank", "step", "max_bytes"}:  # those may also be text such as "4-6" or "20GB"
        assert typed[name] == settings[name], name


def test_tasks_and_levels_that_are_offered_are_those_that_the_settings_offer():
    hints = get_type_hints(CaptureConfig, include_extras=True)

    assert get_args(hints["task"])[1] == RecordingTask
    assert get_args(hints["level"])[1] == RecordingLevel
