"""ptdbg_ascend's functions: where each mode records what, and what is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from torchparity import ParityError, open_run
from torchparity.compat import ptdbg_ascend


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """The functions with no model hooked, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ptdbg_ascend, "_ptdbg", ptdbg_ascend._Ptdbg())
    yield ptdbg_ascend
    ptdbg_ascend._ptdbg.close()


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


def iterate(model, scale=1.0):
    model(torch.ones(3, 4) * scale).sum().backward()


def recorded(tool, model, *iterations, **switch):
    for scale in iterations or (1.0,):
        tool.set_dump_switch("ON", **switch)
        iterate(model, scale)
        tool.set_dump_switch("OFF")
    tool.set_dump_path("elsewhere.pkl")


@pytest.mark.parametrize(
    ("switch", "folder", "names"),
    [
        ({"mode": "list", "scope": ["Functional_linear_1_forward"]}, "list_dump.pkl", {"Functional.linear.1.forward"}),
        (
            {"mode": "range", "scope": ["Functional.relu.0.forward", "Functional.linear.1.forward"]},
            "range_dump.pkl",
            {f"Functional.{each}.{way}" for each in ("relu.0", "linear.1") for way in ("forward", "backward")},
        ),
        (
            {"mode": "api_list", "api_list": ["relu"]},
            "api_list_dump.pkl",
            {"Functional.relu.0.forward", "Functional.relu.0.backward"},
        ),
    ],
)
def test_a_mode_chooses_calls_and_stands_before_the_name_of_the_run(tool, model, switch, folder, names):
    tool.register_hook(model, tool.acc_cmp_dump)
    tool.set_dump_path("dump.pkl")

    recorded(tool, model, **switch)

    assert set(open_run(folder).parts[0].records) == names


@pytest.mark.parametrize(("mode", "folder"), [("all", "dump.pkl"), ("api_stack", "api_stack_dump.pkl")])
def test_values_and_call_stacks_of_every_api_are_kept(tool, model, mode, folder):
    tool.register_hook(model, tool.acc_cmp_dump)
    tool.set_dump_path("dump.pkl")

    recorded(tool, model, mode=mode)

    part = open_run(folder).parts[0]
    leaf = part.record("Functional.relu.0.forward").output[0]
    assert part.tensor(leaf).shape == (3, 4)
    assert any("iterate" in frame for frame in part.stack_of("Functional.relu.0.forward"))


def test_mode_stack_keeps_calls_without_data(tool, model):
    tool.register_hook(model, tool.acc_cmp_dump)
    tool.set_dump_path("dump.pkl")

    recorded(tool, model, mode="stack")

    part = open_run("stack_dump.pkl").parts[0]
    assert any("Functional.relu.0.forward" in group.records for group in part.stacks)
    assert not any(tensor for record in part.records.values() for tensor in record.tensors())


def test_summary_only_keeps_statistics_and_one_side_alone(tool, model):
    tool.register_hook(model, tool.acc_cmp_dump)
    tool.set_dump_path("dump.pkl")

    recorded(tool, model, summary_only=True, dump_mode=["forward", "input"])

    record = open_run("dump.pkl").parts[0].record("Functional.relu.0.forward")
    assert record.input_args[0].statistics is not None
    assert record.input_args[0].data_name is None
    assert record.output == []


def test_every_switching_on_and_off_is_a_step_of_one_run(tool, model):
    tool.register_hook(model, tool.acc_cmp_dump)
    tool.set_dump_path("dump.pkl", dump_tag="npu")

    recorded(tool, model, 1.0, 2.0)

    assert [part.step for part in open_run("npu/dump.pkl").parts] == [0, 1]


def test_a_run_goes_on_where_its_mode_comes_back(tool, model):
    tool.register_hook(model, tool.acc_cmp_dump)
    tool.set_dump_path("dump.pkl")
    for mode in ("all", "api_stack", "all"):
        tool.set_dump_switch("ON", mode=mode)
        iterate(model)

    tool.set_dump_path("elsewhere.pkl")

    assert [part.step for part in open_run("dump.pkl").parts] == [0, 1]
    (part,) = open_run("api_stack_dump.pkl").parts
    assert "Functional.relu.1.forward" not in part.records


@pytest.mark.parametrize("is_overflow", [False, True])
def test_a_run_is_not_lost_to_other_settings_in_its_folder(tool, model, is_overflow):
    tool.register_hook(model, tool.acc_cmp_dump)
    tool.set_dump_path("dump.pkl")
    tool.set_dump_switch("ON")
    iterate(model)
    tool.set_dump_switch("OFF")

    with pytest.raises(ParityError, match="was begun with other settings, and would be lost; call set_dump_path"):
        if is_overflow:
            tool.register_hook(model, tool.overflow_check)
        else:
            tool.set_dump_switch("ON", summary_only=True)
    tool.set_dump_path("elsewhere.pkl")

    assert "Functional.relu.0.forward" in open_run("dump.pkl").parts[0].records


@pytest.mark.parametrize(
    "switch", [{"mode": "list", "scope": "Functional_relu_0_forward"}, {"mode": "api_list", "api_list": "relu"}]
)
def test_one_name_may_stand_without_a_list(tool, model, switch):
    tool.register_hook(model, tool.acc_cmp_dump)
    tool.set_dump_path("dump.pkl")

    recorded(tool, model, **switch)

    names = open_run(f"{switch['mode']}_dump.pkl").parts[0].records
    assert {name.rpartition(".")[0] for name in names} == {"Functional.relu.0"}


def test_a_scope_that_was_refused_may_be_mended(tool, model):
    tool.register_hook(model, tool.acc_cmp_dump)
    tool.set_dump_path("dump.pkl")
    with pytest.raises(ParityError, match="torch has no API"):
        tool.set_dump_switch("ON", mode="list", scope=["Functional_rellu_0_forward"])

    recorded(tool, model, mode="list", scope=["Functional_relu_0_forward"])

    assert set(open_run("list_dump.pkl").parts[0].records) == {"Functional.relu.0.forward"}


def test_two_runs_are_compared_by_the_paths_that_they_were_given(tool, model, tmp_path):
    tool.register_hook(model, tool.acc_cmp_dump)
    for name, scale in (("npu.pkl", 1.5), ("bench.pkl", 1.0)):
        tool.set_dump_path(name)
        recorded(tool, model, scale)

    tool.compare({"npu_pkl_path": "npu.pkl", "bench_pkl_path": "bench.pkl"}, "output")

    names = sorted(file.name.partition("_2")[0] for file in (tmp_path / "output").iterdir())
    assert names == ["advisor", "compare_result"]


def test_the_run_that_is_open_is_whole_when_its_ranks_are_compared(tool, model, tmp_path):
    tool.register_hook(model, tool.acc_cmp_dump)
    for name in ("npu", "bench"):
        tool.set_dump_path(name)
        tool.set_dump_switch("ON")
        iterate(model)

    tool.compare_distributed("npu/step0", "bench/step0", "output", suffix="of_today")

    assert any(file.name.startswith("compare_result_rank0") for file in (tmp_path / "output").iterdir())


def test_a_path_that_was_never_recorded_is_answered_with_its_neighbours(tool, model):
    tool.register_hook(model, tool.acc_cmp_dump)
    tool.set_dump_path("bench.pkl")
    recorded(tool, model)

    with pytest.raises(ParityError, match=r"no run was recorded at npu.pkl\. .*Recorded beside it: bench.pkl"):
        tool.compare({"npu_pkl_path": "npu.pkl", "bench_pkl_path": "bench.pkl"}, "output")


def test_parse_prints_stack_and_statistics_of_a_prefix(tool, model, capsys):
    tool.register_hook(model, tool.acc_cmp_dump)
    tool.set_dump_path("dump.pkl")
    recorded(tool, model)

    tool.parse("dump.pkl", "Functional_relu_0")

    shown = capsys.readouterr().out
    assert "Functional.relu.0.forward" in shown
    assert "Functional.relu.0.backward" in shown
    assert "call stack" in shown
    with pytest.raises(ParityError, match="no record whose name begins with 'Functional_gelu'"):
        tool.parse("dump.pkl", "Functional_gelu")


def test_the_training_stops_at_the_overflow_that_was_asked_for(tool, model):
    tool.set_dump_path("overflow")
    tool.register_hook(model, tool.overflow_check, overflow_nums=2)

    with pytest.raises(ValueError, match="overflow 2 times"):
        for _ in range(5):
            torch.exp(torch.full((2,), 1e4))


def test_the_switch_of_the_dump_does_not_end_a_check_for_overflows(tool, model):
    tool.set_dump_path("overflow")
    tool.register_hook(model, tool.overflow_check)
    tool.register_hook(nn.Linear(2, 2), tool.overflow_check)  # a second model, into the same run
    tool.set_dump_switch("OFF")

    with pytest.raises(ValueError, match="overflow 1 times"):
        torch.exp(torch.full((2,), 1e4))


def test_overflows_are_left_out_while_the_switch_is_off(tool, model):
    tool.set_dump_path("overflow")
    tool.register_hook(model, tool.overflow_check, overflow_nums=1)
    tool.set_overflow_check_switch("OFF")
    torch.exp(torch.full((2,), 1e4))
    tool.set_overflow_check_switch("ON")

    with pytest.raises(ValueError, match="overflow 1 times"):
        torch.exp(torch.full((2,), 1e4))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda tool, model: tool.set_dump_switch("ON", mode="acl"), "mode 'acl' records kernels of an NPU"),
        (lambda tool, model: tool.set_dump_switch("ON", mode="api_stak"), "Did you mean 'api_stack'"),
        (lambda tool, model: tool.set_dump_switch("on"), 'must be "ON" or "OFF"'),
        (lambda tool, model: tool.set_dump_switch("ON", mode="list"), "mode 'list' needs scope"),
        (lambda tool, model: tool.set_dump_switch("ON", dump_mode="sideways"), "dump_mode 'sideways' does not exist"),
        (lambda tool, model: tool.register_hook(model, print), "takes acc_cmp_dump or overflow_check"),
        (lambda tool, model: tool.register_hook(model, tool.acc_cmp_dump, dump_mode="acl"), "dump_mode 'acl' records"),
        (lambda tool, model: tool.register_hook(5, tool.acc_cmp_dump), "not a int"),
        (lambda tool, model: tool.register_hook(model, tool.overflow_check, overflow_nums=0), "from 1, or -1"),
        (lambda tool, model: tool.set_dump_switch("ON", mode="list", scope=[3]), "scope takes a list of names"),
        (lambda tool, model: tool.set_overflow_check_switch("ON"), "nothing looks for overflows"),
        (lambda tool, model: tool.set_backward_input(["x.npy"]), "replays a kernel"),
        (lambda tool, model: tool.compare(None, "output"), "compare needs 'npu_pkl_path'"),
        (lambda tool, model: tool.compare({}, "output"), "compare needs 'npu_pkl_path'"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(tool, model, call, sentence):
    with pytest.raises(ParityError, match=sentence):
        call(tool, model)
