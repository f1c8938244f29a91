"""config.json and compare.json: typed, or refused in one sentence."""

from __future__ import annotations

import json

import pytest

from torchparity.config import capture_config, load_capture_config, load_compare_config, with_keywords
from torchparity.errors import ConfigError

NOT_YET = {"acc_check", "run_ut"}


def test_an_empty_config_has_the_documented_defaults():
    config = capture_config({})

    assert (config.task, config.level, config.dump_path) == ("statistics", "L1", "./dump_path")
    assert (config.rank, config.step) == ([], [])
    assert (config.risk_level, config.precision) == ("FOCUS", "low")
    assert (config.extra_info, config.async_dump, config.dump_enable) == (True, False, None)
    assert config.statistics.data_mode == ["all"]
    assert config.free_benchmark.pert_mode == "improve_precision"
    assert (config.free_benchmark.preheat_step, config.free_benchmark.max_sample) == (15, 20)


def test_a_full_config_is_read_from_its_file(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(
        json.dumps(
            {
                "task": "tensor",
                "dump_path": "/data/run",
                "rank": "4-6",
                "step": [0, "2-3"],
                "level": "mix",
                "tensor": {"scope": ["a", "b"], "list": ["relu"], "data_mode": ["forward", "output"], "diff_nums": -1},
            }
        )
    )

    config = load_capture_config(file)

    assert config.rank == [4, 5, 6]
    assert config.step == [0, 2, 3]
    assert config.tensor.scope == ["a", "b"]
    assert config.tensor.data_mode == ["forward", "output"]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        pytest.param({"tsk": "tensor"}, ["'tsk'", "Did you mean 'task'?"], id="unknown-key"),
        pytest.param(
            {"statistics": {"lisst": []}}, ["'statistics.lisst'", "Did you mean 'list'?"], id="unknown-nested-key"
        ),
        pytest.param({"level": "L7"}, ["'level'", "'L7'", "one of 'L0', 'L1', 'mix', 'debug'."], id="bad-choice"),
        pytest.param(
            {"task": "x"},
            ["'task'", "one of 'statistics', 'tensor', 'structure', 'overflow_check', 'free_benchmark'."],
            id="only-recordings-are-offered",
        ),
        pytest.param({"task": "tenosr"}, ["'task'", "'tenosr'", "Did you mean 'tensor'?"], id="bad-task"),
        pytest.param({"rank": "1_0"}, ["'rank'", "'1_0'"], id="underscore-number"),
        pytest.param({"dump_path": ""}, ["'dump_path'"], id="no-path"),
        pytest.param({"tensor": {"data_mode": []}}, ["'tensor.data_mode'", "backward"], id="no-data-mode"),
        pytest.param({"step": -1}, ["'step'", "-1", "0 to 1000000"], id="negative-step"),
        pytest.param({"step": [3, True]}, ["'step'", "True"], id="bool-is-no-step"),
        pytest.param({"step": "6-4"}, ["'step'", "'6-4'"], id="backward-range"),
        pytest.param({"rank": "four"}, ["'rank'", "'four'"], id="rank-in-letters"),
        pytest.param({"async_dump": "yes"}, ["'async_dump'", "'yes'", "true or false"], id="not-a-bool"),
        pytest.param(
            {"statistics": {"data_mode": ["sideways"]}},
            ["'statistics.data_mode'", "'forward'", "'all'"],
            id="bad-list-entry",
        ),
        pytest.param({"statistics": ["relu"]}, ["'statistics'", "scope"], id="block-is-not-an-object"),
        pytest.param({"statistics": {"scope": ["a"]}}, ["'statistics.scope'", "last name"], id="half-a-scope"),
        pytest.param({"level": "L2"}, ["'L2'", "'mix'"], id="kernel-level"),
        pytest.param(
            {"task": "tensor", "async_dump": True}, ["async_dump", "'tensor.list'"], id="async-tensors-without-list"
        ),
        pytest.param(
            {"async_dump": True, "statistics": {"summary_mode": "md5"}}, ["async_dump", "md5"], id="async-md5"
        ),
        pytest.param(
            {"task": "free_benchmark", "free_benchmark": {"fuzz_device": "cpu"}},
            ["'cpu'", "'to_cpu'"],
            id="cpu-without-to_cpu",
        ),
        pytest.param(
            {"task": "free_benchmark", "free_benchmark": {"handler_type": "fix", "pert_mode": "add_noise"}},
            ["'fix'", "'improve_precision'"],
            id="fix-with-noise",
        ),
        pytest.param(
            {"task": "free_benchmark", "free_benchmark": {"fuzz_stage": "backward"}},
            ["'backward'", "'list'"],
            id="backward-without-list",
        ),
        pytest.param(
            {"task": "free_benchmark", "free_benchmark": {"scope": ["a"], "list": ["b"]}},
            ["'scope' or 'list'"],
            id="scope-and-list",
        ),
        pytest.param(
            {"overflow_check": {"overflow_nums": 0}}, ["'overflow_check.overflow_nums'", "-1"], id="no-overflows"
        ),
    ],
)
def test_what_a_config_cannot_mean_is_refused_by_field_value_and_choice(values, wanted):
    with pytest.raises(ConfigError) as raised:
        capture_config(values, source="config.json")

    assert str(raised.value).startswith("config.json: ")
    for text in wanted:
        assert text in str(raised.value)


@pytest.mark.parametrize(
    "refused",
    [
        pytest.param(lambda: capture_config({"tsk": "tensor"}), id="file"),
        pytest.param(lambda: with_keywords({}, {"levle": "L0"}, source="capture"), id="keyword"),
        pytest.param(lambda: capture_config({"free_benchmak": {}}), id="near-one"),
    ],
)
def test_tasks_that_do_not_exist_yet_are_not_offered(refused):
    with pytest.raises(ConfigError) as raised:
        refused()

    assert "Fields here: task, dump_path" in str(raised.value)
    assert not [block for block in NOT_YET if block in str(raised.value).replace("unknown field 'free_benchmak'", "")]


def test_settings_that_are_no_mapping_are_refused():
    with pytest.raises(ConfigError, match="not a list"):
        capture_config([])


def test_a_config_that_is_no_text_is_named(tmp_path):
    file = tmp_path / "config.json"
    file.write_bytes(b'{"task": "\xff"}')

    with pytest.raises(ConfigError, match=r"config\.json"):
        load_capture_config(file)


def test_one_module_name_is_a_scope_at_mix():
    assert capture_config({"level": "mix", "statistics": {"scope": ["Module.fc.Linear.forward.0"]}})


@pytest.mark.parametrize("content", ["{", "[]", '{"task": NaN}', "\x00", "[" * 100_000])
def test_a_file_that_is_no_config_is_named(tmp_path, content):
    file = tmp_path / "config.json"
    file.write_text(content)

    with pytest.raises(ConfigError, match=r"config\.json"):
        load_capture_config(file)


def test_a_missing_config_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.json: No such file"):
        load_capture_config(tmp_path / "nowhere.json")


def test_compare_json_has_msprobes_fields(tmp_path):
    file = tmp_path / "compare.json"
    file.write_text('{"npu_path": "a/dump.json", "bench_path": "b/dump.json"}')

    config = load_compare_config(str(file))

    assert (config.npu_path, config.bench_path) == ("a/dump.json", "b/dump.json")
    assert (config.stack_path, config.is_print_compare_log) == (None, True)


def test_compare_json_that_is_no_object_is_answered_with_its_own_fields(tmp_path):
    file = tmp_path / "compare.json"
    file.write_text("[]")

    with pytest.raises(ConfigError) as raised:
        load_compare_config(file)

    assert str(raised.value) == (
        f'{file} must hold a JSON object such as {{"npu_path": "CANDIDATE", "bench_path": "BASELINE"}}.'
    )


def test_compare_json_without_a_run_says_which(tmp_path):
    file = tmp_path / "compare.json"
    file.write_text('{"npu_path": "a/dump.json"}')

    with pytest.raises(ConfigError, match="'bench_path' is missing"):
        load_compare_config(file)


def test_what_old_templates_have_for_other_tools_is_passed_over():
    template = {
        "task": "tensor",
        "tensor": {"scope": [], "list": ["relu"], "data_mode": ["all"], "file_format": "npy"},
        "overflow_check": {"overflow_nums": 1, "check_mode": "all"},
        "grad_probe": {"grad_level": "L1", "param_list": [], "bounds": [-1, 0, 1]},
    }

    assert capture_config(template).tensor.list == ["relu"]
    with pytest.raises(ConfigError, match=r"unknown field 'statistics\.file_format'"):
        capture_config({"statistics": {"file_format": "npy"}})


@pytest.mark.parametrize(
    ("field", "blocks"),
    [
        ("pert_mode", "'free_benchmark'"),
        ("overflow_nums", "'overflow_check'"),
        ("summary_mode", "'statistics' or 'tensor'"),
    ],
)
def test_a_field_outside_of_its_block_is_told_where_it_belongs(field, blocks):
    with pytest.raises(ConfigError) as raised:
        capture_config({"task": "statistics", field: "md5"}, source="config.json")

    assert str(raised.value) == f"config.json: field '{field}' belongs into the block {blocks}."
