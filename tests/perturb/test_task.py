"""Task free_benchmark through PrecisionDebugger: selection, the csv, the log, and wrong settings."""

from __future__ import annotations

import json
import logging
import types

import pytest
import torch
from torch.nn import functional as F

from tests.support.perturbing import perturbing, rows_in, same
from torchparity import ParityError, PrecisionDebugger

FRAGILE = torch.tensor([1e4, 1e4 + 0.01, 3.0])  # a difference of the first two has one bit left


def fragile(values=FRAGILE):
    """Subtract what is nearly the same, in a call that noise finds."""
    return torch.sub(values, values.flip(0).roll(1)[[1, 0, 2]])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        pytest.param({"scope": ["Torch.sub.0.forward"], "list": ["sub"]}, "not both", id="scope-and-list"),
        pytest.param({"fuzz_device": "cpu"}, "fuzz_device is 'cpu', so pert_mode must be 'to_cpu'", id="cpu"),
        pytest.param({"pert_mode": "to_cpu"}, "pert_mode is 'to_cpu', so fuzz_device must be 'cpu'", id="to-cpu"),
        pytest.param(
            {"handler_type": "fix", "pert_mode": "bit_noise"},
            "'fix' works with pert_mode 'improve_precision' or 'to_cpu', not 'bit_noise'",
            id="fix",
        ),
        pytest.param(
            {"handler_type": "fix", "if_preheat": True}, "'fix' does not work with if_preheat", id="fix-preheat"
        ),
        pytest.param(
            {"handler_type": "fix", "fuzz_stage": "backward", "list": ["mm"]},
            "not work with fuzz_stage",
            id="fix-backward",
        ),
        pytest.param({"fuzz_stage": "backward"}, "'backward' needs 'list'", id="backward"),
        pytest.param({"pert_mode": "bitnoise"}, "Did you mean 'bit_noise'?", id="mode"),
        pytest.param({"fuzz_device": "gpu"}, "must be one of 'npu', 'cpu', 'cuda', 'device'", id="device"),
        pytest.param({"fuzz_level": "L0"}, "must be one of 'L1'", id="level"),
        pytest.param({"preheat_step": 0}, "'free_benchmark.preheat_step' is 0", id="preheat-step"),
        pytest.param({"max_sample": 0}, "'free_benchmark.max_sample' is 0", id="max-sample"),
        pytest.param({"max_calls_per_api": 0}, "a whole number from 1, or -1 for no limit", id="max-calls"),
        pytest.param({"significance": 1}, "a whole number from 2 to 10000, or 0 for none", id="significance"),
        pytest.param(
            {"significance": 4, "handler_type": "fix"}, "'significance' does not work with handler_type", id="both"
        ),
        pytest.param({"significance": 4, "pert_mode": "bit_noise"}, "leave pert_mode 'bit_noise' out", id="noise"),
        pytest.param({"scope": ["relu"]}, "'relu' is none: use 'list'", id="part-in-scope"),
        pytest.param(
            {"scope": ["Torch.sub.0.backward"]}, "name 'Torch.sub.0.forward', or use 'list'", id="backward-in-scope"
        ),
        pytest.param({"list": [""]}, "has an empty text, which every name contains", id="empty-text"),
        pytest.param({"raise_float32": True, "pert_mode": "no_change"}, "'raise_float32' works with", id="float32"),
        pytest.param({"level": "L0"}, "looks at APIs, level 'L1'; level 'L0' has none", id="L0"),
    ],
)
def test_wrong_settings_are_refused_with_the_rule_they_break(fields, said, tmp_path):
    with pytest.raises(ParityError) as raised:
        PrecisionDebugger(task="free_benchmark", dump_path=tmp_path, **fields)

    assert said in str(raised.value)


def test_an_api_in_scope_that_torch_has_not_is_refused_by_the_nearest(tmp_path):
    debugger = PrecisionDebugger(task="free_benchmark", dump_path=tmp_path, scope=["Torch.matmull.0.forward"])

    with pytest.raises(ParityError, match=r"Did you mean 'Torch\.matmul\.0\.forward'\?"):
        debugger.start()


@pytest.mark.parametrize("device", ["npu", "cuda", "device"])
def test_msprobe_s_config_file_works(device, tmp_path):
    block = {
        "scope": [],
        "list": [],
        "fuzz_device": device,
        "pert_mode": "bit_noise",
        "handler_type": "check",
        "fuzz_level": "L1",
        "fuzz_stage": "forward",
        "if_preheat": False,
        "preheat_step": 15,
        "max_sample": 20,
    }
    settings = {"task": "free_benchmark", "dump_path": str(tmp_path), "rank": [], "step": [], "level": "L1"}
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**settings, "free_benchmark": block}))
    debugger = PrecisionDebugger(config_path=file)
    for _ in range(2):
        debugger.start()
        fragile()
        debugger.stop()
        fragile()
        debugger.step()

    rows = rows_in(tmp_path)

    assert [(row["step"], row["api_name"]) for row in rows] == [
        ("0", "Torch.sub.0.forward"),
        ("1", "Torch.sub.0.forward"),
    ]
    assert [(row["dtype"], row["shape"], row["stage"]) for row in rows] == [("torch.float32", "(3,)", "forward")] * 2


@pytest.mark.parametrize(
    ("fields", "calls"),
    [
        pytest.param({}, 3, id="all"),
        pytest.param({"scope": ["Torch.sub.0.forward", "Torch.sub.2.forward"]}, 2, id="calls-not-a-range"),
        pytest.param({"list": ["SUB.1"]}, 1, id="part-of-a-name"),
        pytest.param({"list": ["Torch.sub.2.backward"]}, 1, id="call-by-its-backward"),
        pytest.param({"list": ["exp"]}, 0, id="another"),
        pytest.param({"max_calls_per_api": 2}, 2, id="no-more"),
    ],
)
def test_calls_are_selected_by_name_and_number(fields, calls, tmp_path):
    with perturbing(tmp_path, pert_mode="bit_noise", **fields):
        for _ in range(3):
            fragile()

    assert len(rows_in(tmp_path)) == calls


def test_steps_and_ranks_are_those_asked_for(tmp_path):
    debugger = PrecisionDebugger(task="free_benchmark", dump_path=tmp_path, pert_mode="bit_noise", step=[6])
    debugger.set_init_step(5)
    for _ in range(3):
        debugger.start(rank_id=3)
        fragile()
        debugger.stop()
        debugger.step()

    assert [(row["rank"], row["step"]) for row in rows_in(tmp_path)] == [("3", "6")]


def test_arguments_by_keyword_in_lists_and_in_place_are_perturbed_and_left_alone(tmp_path, capsys):
    first, out = FRAGILE.clone(), torch.empty(3)
    with perturbing(tmp_path, pert_mode="bit_noise", list=["stack", "sub", "add_", "__setitem__"]):
        torch.stack(tensors=[first, first])
        torch.sub(input=first, other=first.flip(0), out=out)
        first.add_(1)
        first[0] = torch.tensor(2.0)

    assert same(first, torch.tensor([2.0, FRAGILE[1] + 1, 4.0]))
    assert same(out, FRAGILE - FRAGILE.flip(0))
    assert rows_in(tmp_path) != []
    assert "perturbed 4 calls" in capsys.readouterr().out


def test_an_element_of_several_results_is_named_by_its_index(tmp_path):
    values = torch.stack([FRAGILE, FRAGILE.flip(0)])

    with perturbing(tmp_path, pert_mode="bit_noise", list=["var_mean"]):
        torch.var_mean(values - values.mean() + 1e4, dim=1)
        torch.var_mean(torch.tensor([[1e7, 1e7 + 1.0, 1e7 - 1.0]]), dim=1)

    assert [(row["api_name"], row["output_index"]) for row in rows_in(tmp_path)] == [("Torch.var_mean.1.forward", "0")]


def test_the_log_says_what_was_perturbed_and_what_not(tmp_path, caplog):
    caplog.set_level(logging.INFO, "torchparity")
    with perturbing(tmp_path, pert_mode="bit_noise", list=["exp", "zeros", "dropout", "bincount"]):
        torch.exp(FRAGILE)
        torch.zeros(2)
        F.dropout(FRAGILE)
        torch.bincount(torch.tensor([1, 2]))
        torch.exp(torch.empty(0))

    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    start = "torchparity: Free "
    for line in [
        ("INFO", f"{start}Benchmark: Perturbation is bit_noise of Torch.exp.0.forward."),
        ("WARNING", f"{start}benchmark: the types of the inputs of Torch.zeros.0.forward are not supported."),
        ("INFO", f"{start}Benchmark: For Functional.dropout.0.forward, it draws random numbers. Cancel perturbation."),
        (
            "INFO",
            f"{start}Benchmark: For Torch.bincount.0.forward, it has no floating-point input. Cancel perturbation.",
        ),
        ("INFO", f"{start}Benchmark: For Torch.exp.1.forward, its input is empty. Cancel perturbation."),
    ]:
        assert line in said


def test_a_perturbed_call_that_raises_is_left_out_and_training_goes_on(tmp_path, capsys):
    def exactly_one(values):
        if (values != 1).any():
            raise ValueError("not one")
        return values * 2

    strict = types.SimpleNamespace(__name__="strict", exactly_one=exactly_one)
    with perturbing(tmp_path, pert_mode="bit_noise", list=["strict"]) as debugger:
        debugger.register_custom_api(strict, "exactly_one")
        result = strict.exactly_one(torch.ones(2))

    assert same(result, torch.full((2,), 2.0))
    assert "1 call left out: the perturbed call raised ValueError: not one" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_kinds_of_tensors_that_cannot_be_copied_are_left_alone(tmp_path, capsys):
    values = torch.randn(5, 3)

    def energy(row):
        return (row * row).sum().exp()

    with perturbing(tmp_path, pert_mode="bit_noise", list=["exp", "mul", "mm"]):
        mapped = torch.func.vmap(energy)(values)
        torch.mul(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), 2)
        torch.mul(torch.ones(3, device="meta"), 2)

    assert same(mapped, torch.func.vmap(energy)(values))
    said = capsys.readouterr().out
    for reason in ("a transformation of torch.func is at work", "sparse, nested or quantized", "has no values"):
        assert reason in said


def test_a_name_that_never_came_up_is_told_in_the_end(tmp_path, capsys):
    with perturbing(tmp_path, list=["soft_max", "exp"], pert_mode="bit_noise"):
        torch.softmax(FRAGILE, 0)
        torch.exp(FRAGILE)

    assert "never called in a step: soft_max (Did you mean 'softmax'?)" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["softmaxx", "Torch.softmaxx", "torch.softmaxx.0.forward"])
def test_a_part_of_no_name_in_torch_is_answered_with_the_nearest_before_and_after(tmp_path, caplog, capsys, text):
    with perturbing(tmp_path, list=[text], pert_mode="bit_noise"):
        said_at_start = [record.getMessage() for record in caplog.records]
        torch.exp(FRAGILE)

    assert said_at_start == [
        f"torchparity: free_benchmark.list: no API of torch has {text!r} in its name. Did you mean 'softmax'?"
    ]
    assert f"never called in a step: {text} (Did you mean 'softmax'?)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text", ["soft", "Softmax", "sub.1", "Torch.sub.0.forward", "forward", "0", "_softmax", "NPU.softmaxx", "zzqq"]
)
def test_a_part_that_a_name_may_have_is_not_doubted(tmp_path, caplog, text):
    with perturbing(tmp_path, list=[text], pert_mode="bit_noise"):
        torch.exp(FRAGILE)

    assert [record.getMessage() for record in caplog.records] == []


def test_autocast_is_left_to_raise_precision_and_its_cache_stays(tmp_path, capsys):
    layer, values = torch.nn.Linear(256, 4), torch.rand(4, 256)
    with (
        perturbing(tmp_path, pert_mode="improve_precision", list=["linear"]),
        torch.autocast("cpu", dtype=torch.bfloat16),
    ):
        inside = layer(values)
        cached = layer(values)
        assert torch.is_autocast_enabled("cpu") and torch.is_autocast_cache_enabled()
    inside.float().sum().backward()

    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert same(inside.detach(), layer(values).detach())
    assert same(inside.detach(), cached.detach())
    assert "perturbed 2 calls" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_refused_before_the_training(tmp_path):
    (tmp_path / "file").write_text("")
    debugger = PrecisionDebugger(task="free_benchmark", dump_path=tmp_path / "file" / "run")

    with pytest.raises(ParityError, match="cannot write"):
        debugger.start()


@pytest.mark.parametrize("fields", [{}, {"significance": 3}, {"handler_type": "fix", "pert_mode": "improve_precision"}])
def test_a_view_of_an_input_is_left_out(fields, tmp_path, capsys):
    values = torch.randn(4, 4).bfloat16()
    fields = {"pert_mode": "bit_noise"} | fields if "significance" not in fields else fields
    with perturbing(tmp_path, list=["getitem"], **fields):
        values[0], values[:, 1:3], values[:, None], values[[0, 1]]

    said = capsys.readouterr().out
    assert "3 calls left out: it returns a view of its input" in said
    assert " 1 call " in said  # the last copies


def test_overwrite_begins_the_tables_anew(tmp_path):
    sizes = []
    for overwrite in (False, False, True):
        with perturbing(tmp_path, pert_mode="bit_noise", list=["Torch.sub"], overwrite=overwrite):
            fragile()
        sizes.append(len(rows_in(tmp_path)))

    assert sizes == [1, 2, 1]


@pytest.mark.parametrize("text", ["matmul", "conv", "Functional.conv"])
def test_a_name_that_is_spelt_right_and_was_not_called_gets_no_hint(tmp_path, capsys, text):
    with perturbing(tmp_path, pert_mode="bit_noise", list=[text]):
        torch.ones(2).mul(2).clone()

    assert f"never called in a step: {text};" in capsys.readouterr().out


def test_a_check_that_saw_no_call_says_so(tmp_path, capsys):
    with perturbing(tmp_path, pert_mode="bit_noise"):
        pass

    assert "nothing was checked with bit_noise; no call was seen; of other threads" in capsys.readouterr().out


def test_several_ranks_are_told_that_they_overwrite_nothing(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with perturbing(tmp_path, pert_mode="bit_noise", overwrite=True):
        torch.ones(3).exp()

    assert any("are not overwritten, since all ranks add to them" in message for message in caplog.messages)
