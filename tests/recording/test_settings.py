"""Fields of config.json that change what is kept, and when."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from torchparity import open_run
from torchparity.errors import ConfigError, RecordingEndedError, RunNotFoundError
from torchparity.kernels.checksums import xor_checksum
from torchparity.recording import PrecisionDebugger, capture
from torchparity.records import TensorLeaf
from torchparity.tensors.torch_tensors import from_torch


@pytest.fixture(autouse=True)
def one_debugger_per_test():
    yield
    PrecisionDebugger.close()


def stored(part):
    """Return the names of the records all of whose tensors are stored, and of those that have some."""
    whole, some = [], []
    for name, record in part.records.items():
        tensors = [item.leaf for item in record.items() if isinstance(item.leaf, TensorLeaf)]
        if tensors and all(leaf.stored_in for leaf in tensors):
            whole.append(name)
        if any(leaf.stored_in for leaf in tensors):
            some.append(name)
    return whole, some


# tensor_list


def test_a_tensor_list_stores_those_records_beside_the_statistics_of_all(tmp_path):
    x = torch.randn(3, requires_grad=True)
    with capture(tmp_path, tensor_list=["exp", "Torch.sin.1.forward"]):
        y = torch.exp(torch.sin(x))
        torch.sin(y).sum().backward()

    part = open_run(tmp_path).part()

    expected = ["Torch.exp.0.forward", "Torch.sin.1.forward", "Torch.exp.0.backward"]
    assert stored(part) == (expected, expected)
    assert all(
        item.leaf.statistics for record in part.records.values() for item in record.items() if item.leaf is not None
    )
    assert torch.equal(torch.tensor(part.tensor(part.records["Torch.exp.0.forward"].output[0]).array), y.detach())
    assert part.info.task == "statistics"
    assert part.verify() == []


def test_a_tensor_list_holds_values_of_the_moment(tmp_path):
    x = torch.ones(2)
    with capture(tmp_path, tensor_list=["exp"]):
        torch.exp(x)
        x.add_(1)
        torch.exp(x)

    part = open_run(tmp_path).part()

    assert [part.tensor(part.records[f"Torch.exp.{call}.forward"].input_args[0]).array.tolist() for call in (0, 1)] == [
        [1, 1],
        [2, 2],
    ]


def test_a_tensor_list_may_name_modules_their_parameters_and_gradients(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with capture(tmp_path, model=model, level="L0", tensor_list=["Module.0.Linear"]):
        model(torch.ones(1, 2)).sum().backward()

    part = open_run(tmp_path).part()

    assert stored(part)[1] == [
        "Module.0.Linear.forward.0",
        "Module.0.Linear.backward.0",
        "Module.0.Linear.parameters_grad.0",
    ]


# summary_mode xor


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.bool]
)
@pytest.mark.parametrize("size", [0, 1, 3, 7, 8, 9, 1000])
def test_the_xor_checksum_is_that_of_the_bytes(dtype, size):
    tensor = (torch.randn(size) * 10).to(dtype)
    content = tensor.view(torch.uint8).numpy().tobytes()

    expected = 0
    for start in range(0, len(content), 8):
        expected ^= int.from_bytes(content[start : start + 8], "little")

    assert xor_checksum(from_torch(tensor)) == f"0x{expected:016x}"


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_summary_mode_xor_has_a_checksum_and_no_statistics(tmp_path, task):
    with capture(tmp_path, task=task, summary_mode="xor"):
        torch.exp(torch.ones(2))

    part = open_run(tmp_path).part()
    entry = json.loads((tmp_path / "step0/rank0/dump.json").read_text())["data"]["Torch.exp.0.forward"]["output"][0]

    leaf = part.records["Torch.exp.0.forward"].output[0]
    assert leaf.statistics is None and leaf.checksum.startswith("0x")
    assert entry["md5"] == leaf.checksum and "Max" not in entry
    assert (leaf.stored_in is not None) == (task == "tensor")


# bench_path, diff_nums


def chain(x, disturbed=()):
    for name in ("sin", "exp", "cos", "tanh"):
        x = getattr(torch, name)(x)
        if name in disturbed:
            x.add_(1)


@pytest.fixture
def baseline(tmp_path):
    with capture(tmp_path / "baseline", summary_mode="md5"):
        chain(torch.ones(2))
    return tmp_path / "baseline"


def test_only_what_differs_from_bench_path_is_stored(tmp_path, baseline, capsys):
    settings = {"task": "tensor", "summary_mode": "md5", "bench_path": str(baseline), "diff_nums": -1}
    with capture(tmp_path / "run", **settings):
        chain(torch.ones(2), disturbed=["cos"])
        torch.log(torch.ones(2))

    whole, some = stored(open_run(tmp_path / "run").part())
    assert whole == some == ["Torch.tanh.0.forward"]
    line = capsys.readouterr().out.splitlines()[-1]
    assert "1 record differing from" in line
    assert "Torch.tanh.0.forward" in line and "3 records not in" in line


def test_after_diff_nums_differences_nothing_more_is_recorded(tmp_path, baseline):
    with capture(tmp_path / "run", task="tensor", summary_mode="md5", bench_path=str(baseline)) as recording:
        chain(torch.zeros(2))
        recording.step()
        chain(torch.ones(2))

    run = open_run(tmp_path / "run")
    assert run.steps == [0]
    assert len(stored(run.part())[1]) == 1


def test_equal_runs_store_nothing_and_go_on(tmp_path, baseline):
    with capture(tmp_path / "run", task="tensor", summary_mode="md5", bench_path=str(baseline)) as recording:
        chain(torch.ones(2))
        recording.step()
        chain(torch.ones(2))

    run = open_run(tmp_path / "run")
    assert run.steps == [0, 1]
    assert stored(run.part(step=0)) == ([], [])


def test_a_bench_path_that_cannot_serve_is_refused_at_start(tmp_path, baseline):
    with capture(tmp_path / "plain"):
        torch.exp(torch.ones(1))

    with pytest.raises(ConfigError, match="summary_mode 'md5'"), capture(tmp_path / "a", task="tensor", bench_path="x"):
        pass
    settings = {"task": "tensor", "summary_mode": "md5"}
    with pytest.raises(RunNotFoundError), capture(tmp_path / "a", **settings, bench_path=str(tmp_path / "nowhere")):
        pass
    with (
        pytest.raises(ConfigError, match="no checksums"),
        capture(tmp_path / "a", **settings, bench_path=str(tmp_path / "plain")),
    ):
        pass


# dump_enable


def test_dump_enable_is_read_again_at_every_start(tmp_path, caplog):
    config = tmp_path / "config.json"
    contents = ['{"dump_enable": false}', '{"dump_enable": true}', '{"dump_enable": fal', "{}", '{"dump_enable": 0}']
    contents.append('{"dump_enable": false}')
    config.write_text(contents[0])
    debugger = PrecisionDebugger(config, dump_path=tmp_path / "run")
    for content in contents:
        config.write_text(content)
        debugger.start()
        torch.exp(torch.ones(1))
        debugger.stop()
        debugger.step()
    debugger.close()

    assert open_run(tmp_path / "run").steps == [1, 2, 3, 4]
    assert caplog.text.count("Recording stays on") == 1


def test_without_dump_enable_from_the_beginning_there_is_no_switch(tmp_path):
    config = tmp_path / "config.json"
    config.write_text("{}")
    debugger = PrecisionDebugger(config, dump_path=tmp_path / "run")
    config.write_text('{"dump_enable": false}')
    debugger.start()
    torch.exp(torch.ones(1))
    debugger.close()

    assert open_run(tmp_path / "run").steps == [0]


# enable_dataloader


def batches(count=8):
    return DataLoader(TensorDataset(torch.arange(float(count))), batch_size=2)


def test_every_batch_of_a_data_loader_is_a_step(tmp_path):
    PrecisionDebugger(dump_path=tmp_path, enable_dataloader=True)
    for _ in range(2):
        for (batch,) in batches():
            torch.exp(batch)
    PrecisionDebugger.close()

    run = open_run(tmp_path)
    assert run.steps == list(range(8))
    assert all(list(part.records) == ["Torch.exp.0.forward"] for part in run.parts)


def test_after_the_last_wanted_step_the_training_ends(tmp_path):
    PrecisionDebugger(dump_path=tmp_path, enable_dataloader=True, step=[1, 2])
    done = 0
    with pytest.raises(RecordingEndedError, match="step 2 was the last"):
        for (batch,) in batches(20):
            torch.exp(batch)
            done += 1

    assert done == 3
    assert open_run(tmp_path).steps == [1, 2]
    assert len(list(batches())) == 4


def test_with_a_data_loader_start_names_the_model(tmp_path):
    model = nn.Linear(2, 1)
    debugger = PrecisionDebugger(dump_path=tmp_path, enable_dataloader=True, level="L0")
    debugger.start(model)
    for (batch,) in batches():
        model(batch)
        debugger.stop()
        debugger.step()
    debugger.close()

    run = open_run(tmp_path)
    assert run.steps == [0, 1, 2, 3]
    assert list(run.part().records) == ["Module.Linear.forward.0"]


# all_frames


@pytest.mark.parametrize("all_frames", [False, True])
def test_all_frames_keeps_torchs_own(tmp_path, all_frames):
    model = nn.Linear(2, 2)
    with capture(tmp_path, level="L1", all_frames=all_frames):
        model(torch.ones(1, 2))

    (frames,) = [
        group.frames for group in open_run(tmp_path).part().stacks if "Functional.linear.0.forward" in group.records
    ]
    assert any("nn/modules/linear.py" in frame for frame in frames) == all_frames
    assert any("test_settings.py" in frame for frame in frames)


# keyword arguments


def test_every_field_is_a_keyword_argument(tmp_path):
    PrecisionDebugger(
        None, "tensor", tmp_path, "L1", [0], rank=[0], async_dump=True, extra_info=False, precision="high",
        risk_level="ALL", dump_enable=True, enable_dataloader=False, views=False, all_frames=True, overwrite=True,
        scope=[], list=["exp"], data_mode=["forward"], summary_mode="statistics", tensor_format="pt", diff_nums=2,
    )  # fmt: skip
    PrecisionDebugger.start()
    torch.exp(torch.ones(1))
    torch.sin(torch.ones(1))
    PrecisionDebugger.close()

    part = open_run(tmp_path).part()
    assert list(part.records) == ["Torch.exp.0.forward"]
    assert (tmp_path / "step0/rank0/dump_tensor_data/Torch.exp.0.forward.output.0.pt").is_file()
    assert part.stacks == []


def test_keywords_go_over_the_block_of_the_file(tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"statistics": {"list": ["sin"], "data_mode": ["forward"]}}')

    PrecisionDebugger(config, dump_path=tmp_path / "run", list=["exp"]).start()
    (torch.exp(torch.ones(1, requires_grad=True)) + torch.sin(torch.ones(1))).backward()
    PrecisionDebugger.close()

    assert list(open_run(tmp_path / "run").part().records) == ["Torch.exp.0.forward"]


def test_a_mistyped_keyword_is_answered_with_the_nearest(tmp_path):
    with pytest.raises(ConfigError, match=r"^capture: unknown field 'lisst'\. Did you mean 'list'\?"):
        capture(tmp_path, lisst=["exp"]).__enter__()
    with pytest.raises(ConfigError, match=r"^PrecisionDebugger: unknown field 'lisst'\. Did you mean 'list'\?"):
        PrecisionDebugger(dump_path=tmp_path, lisst=["exp"])


def test_a_field_of_another_task_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"'statistics\.bench_path'"):
        PrecisionDebugger(dump_path=tmp_path, bench_path="x")


def test_without_extra_info_there_are_no_stacks_and_parents(tmp_path):
    for name, extra_info in (("with", True), ("without", False)):
        with capture(tmp_path / name, extra_info=extra_info):
            torch.ones(1).exp()

    files = [{file.name for file in (tmp_path / name / "step0" / "rank0").iterdir()} for name in ("with", "without")]
    assert files[0] - files[1] == {"stack.json", "construct.json"}
    part = open_run(tmp_path / "without").part()
    assert part.problems == [] and part.look() == [] and list(part.stacks) == []
