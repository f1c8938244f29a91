"""The ways in: PrecisionDebugger, capture, single points; and every way to use them wrongly."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from tests.conftest import ROOT, write_linear_run
from tests.recording.zoo import ZOO, Training
from torchparity import open_run
from torchparity.errors import ConfigError, RunExistsError, RunWriteError
from torchparity.recording import PrecisionDebugger, capture
from torchparity.recording.measuring.measurement_cache import MeasurementCache


@pytest.fixture(autouse=True)
def one_debugger_per_test():
    yield
    PrecisionDebugger.close()


def train(debugger, steps, model=None):
    training = Training(ZOO["mlp"])
    for _ in range(steps):
        debugger.start(model=training.model if model is None else model)
        training.step()
        debugger.stop()
        debugger.step()
    debugger.close()


def test_a_config_file_and_the_seeds_calls(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps({"task": "statistics", "dump_path": str(tmp_path / "run"), "level": "mix", "step": [1, 3]})
    )

    train(PrecisionDebugger(config_path=config), steps=5)

    run = open_run(tmp_path / "run")
    assert run.steps == [1, 3]
    assert (run.part().info.task, run.part().info.level) == ("statistics", "mix")


def test_arguments_override_the_file(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"task": "statistics", "dump_path": "elsewhere", "level": "L0"}))

    train(PrecisionDebugger(config, dump_path=tmp_path / "run", task="tensor", level="L1"), steps=1)

    assert open_run(tmp_path / "run").part().info.task == "tensor"


def test_the_class_works_like_the_object(tmp_path):
    PrecisionDebugger(dump_path=tmp_path)
    PrecisionDebugger.start()
    torch.exp(torch.ones(1))
    PrecisionDebugger.stop()
    PrecisionDebugger.step()
    PrecisionDebugger.close()

    assert list(open_run(tmp_path).part().records) == ["Torch.ones.0.forward", "Torch.exp.0.forward"]


def test_a_second_debugger_with_other_settings_is_refused(tmp_path):
    first = PrecisionDebugger(dump_path=tmp_path)

    assert PrecisionDebugger(dump_path=tmp_path) is first
    with pytest.raises(ConfigError, match="one at a time"):
        PrecisionDebugger(dump_path=tmp_path / "other")


def test_backward_after_stop_still_counts_until_step(tmp_path):
    debugger = PrecisionDebugger(dump_path=tmp_path)
    x = torch.ones(2, requires_grad=True)
    debugger.start()
    y = torch.exp(x).sum()
    debugger.stop()
    torch.log(x)
    y.backward()
    debugger.step()
    debugger.close()

    assert list(open_run(tmp_path).part().records) == [
        "Torch.exp.0.forward",
        "Tensor.sum.0.forward",
        "Tensor.sum.0.backward",
        "Torch.exp.0.backward",
    ]


def test_a_gradient_that_comes_after_its_step_is_not_put_into_the_next(tmp_path):
    x = torch.ones(2, requires_grad=True)
    with capture(tmp_path) as recording:
        y = torch.exp(x).sum()
        recording.step()
        y.backward()
        torch.log(x)

    assert not [name for name in open_run(tmp_path).part(step=1).records if "exp" in name]


def test_single_points_with_gradients(tmp_path):
    x = torch.tensor([2.0], requires_grad=True)
    with capture(tmp_path, level="debug", task="tensor") as recording:
        y = x * 3
        recording.save(y, "y")
        recording.save({"a": [y, None, 3], "b": "text"}, "nest")
        recording.save(y, "y")
        (y * 2).backward()

    part = open_run(tmp_path).part()

    assert set(part.records) == {
        "y.0.debug",
        "y.1.debug",
        "nest.0.debug",
        "y_grad.0.debug",
        "y_grad.1.debug",
        "nest_grad.0.debug",
    }
    assert part.tensor(part.records["y_grad.0.debug"].value).array.tolist() == [2.0]
    assert {item.name for item in part.records["nest.0.debug"].items()} == {"a.0", "a.1", "a.2", "b"}


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_modules_without_a_model_are_refused_at_start(tmp_path, level):
    debugger = PrecisionDebugger(dump_path=tmp_path, level=level)

    with pytest.raises(ConfigError, match=r"start\(model=\.\.\.\)"):
        debugger.start()


@pytest.mark.parametrize("call", ["start", "stop", "step"])
def test_without_a_debugger_the_calls_say_so(call):
    with pytest.raises(ConfigError, match="needs a PrecisionDebugger"):
        getattr(PrecisionDebugger, call)()


def test_what_cannot_be_a_setting_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(ConfigError, match="Did you mean 'level'"):
        PrecisionDebugger(dump_path=tmp_path, levle="L1")
    with pytest.raises(ConfigError, match="'L7'"):
        PrecisionDebugger(dump_path=tmp_path, level="L7")
    with pytest.raises(ConfigError, match="free_benchmark"):
        PrecisionDebugger(dump_path=tmp_path, task="free_benchmark")


def test_a_run_that_is_there_is_refused_unless_overwrite_is_asked_for(tmp_path):
    write_linear_run(tmp_path)

    with pytest.raises(RunExistsError), capture(tmp_path):
        pass
    with capture(tmp_path, settings={"overwrite": True}):
        torch.exp(torch.ones(1))

    assert "Torch.exp.0.forward" in open_run(tmp_path).part().records


def test_a_path_that_cannot_be_written_is_refused_at_start(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(RunWriteError), capture(tmp_path / "file" / "run"):
        pass
    with pytest.raises(RunWriteError):  # at the first start, though nothing would be written before step 9
        PrecisionDebugger(dump_path=tmp_path / "file" / "run", step=[9]).start()


def test_stop_before_any_start_is_refused_and_step_does_no_harm(tmp_path):
    debugger = PrecisionDebugger(dump_path=tmp_path)
    with pytest.raises(ConfigError, match=r"stop\(\) without start\(\)"):
        debugger.stop()
    debugger.step()
    debugger.start()
    torch.exp(torch.ones(1))
    debugger.close()

    assert open_run(tmp_path).steps == [1]


def test_stop_twice_is_logged_once_and_the_training_goes_on(tmp_path, caplog):
    debugger = PrecisionDebugger(dump_path=tmp_path)
    for _ in range(3):
        debugger.start()
        torch.exp(torch.ones(1))
        debugger.stop()
        debugger.stop()
        debugger.step()

    assert len([record for record in caplog.records if "stop()" in record.message]) == 1


def test_stop_in_a_step_that_is_not_wanted_is_no_mistake(tmp_path, caplog):
    debugger = PrecisionDebugger(dump_path=tmp_path, step=[1])
    for _ in range(3):
        debugger.start()
        torch.exp(torch.ones(1))
        debugger.stop()
        debugger.step()
    debugger.close()

    assert "stop()" not in caplog.text
    assert open_run(tmp_path).steps == [1]


def test_a_program_that_never_stops_has_its_data(tmp_path):
    code = (
        "import sys, torch; from torchparity.recording import PrecisionDebugger\n"
        "PrecisionDebugger(dump_path=sys.argv[1]).start()\n"
        "torch.exp(torch.ones(1))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, cwd=ROOT)

    assert done.returncode == 0, done.stderr
    assert f"recorded 2 records in 1 step at {tmp_path}" in done.stdout
    assert open_run(tmp_path).part().verify() == []


def test_an_exception_in_the_block_reaches_the_user_and_keeps_the_data(tmp_path):
    with pytest.raises(ZeroDivisionError), capture(tmp_path):
        torch.exp(torch.ones(1))
        raise ZeroDivisionError

    assert "Torch.exp.0.forward" in open_run(tmp_path).part().records


def test_a_fault_of_the_recorder_never_reaches_the_training(tmp_path, monkeypatch, caplog):
    from torchparity.recording.measuring.measurer import Measurer

    original = Measurer.measure

    def broken(self, tensor):
        if tensor.numel() == 7:
            raise ZeroDivisionError("our bug")
        return original(self, tensor)

    monkeypatch.setattr(Measurer, "measure", broken)
    x = torch.ones(7, requires_grad=True)
    with capture(tmp_path):
        for _ in range(3):
            (x * 2).sum().backward()
        torch.exp(torch.ones(1))

    assert x.grad.tolist() == [6.0] * 7
    assert caplog.text.count("our bug") == len({record.message for record in caplog.records})
    part = open_run(tmp_path).part()
    assert "Torch.exp.0.forward" in part.records
    assert any("our bug" in problem for problem in part.problems)


def test_a_full_disk_ends_the_recording_not_the_training(tmp_path, caplog):
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("this process may not mount a small disk")
    try:
        with capture(folder / "run", task="tensor") as recording:
            totals = []
            for _ in range(20):
                totals.append(torch.randn(50_000).exp().sum())
                recording.step()
        assert len(totals) == 20
        assert "incomplete" in caplog.text or "stops recording" in caplog.text
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_disk_that_refuses_is_told_at_the_end(tmp_path):
    code = (
        "import resource, signal, sys, torch; from torchparity.recording import PrecisionDebugger\n"
        "debugger = PrecisionDebugger(dump_path=sys.argv[1], task='tensor')\n"
        "debugger.start(); torch.ones(9).exp(); debugger.step()\n"
        "import time; time.sleep(0.5)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "for _ in range(6):\n"
        "    debugger.start(); torch.randn(100_000).exp(); debugger.stop(); debugger.step(); time.sleep(0.1)\n"
        "print('trained')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, cwd=ROOT)

    assert done.returncode == 0, done.stderr
    assert "trained" in done.stdout
    assert done.stderr.count("stops recording, training goes on") == 1
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("torchparity: ")]
    assert "recorded 2 records in 1 step" in line
    assert "1 step not finished" in line and "file too large" in line.lower()


def test_nothing_is_left_behind_after_a_recording(tmp_path):
    training = Training(ZOO["resnet"])
    with capture(tmp_path, model=training.model):
        training.step()

    assert torch._C._len_torch_function_stack() == 0
    for module in training.model.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks
    for parameter in training.model.parameters():
        assert not parameter._post_accumulate_grad_hooks


def test_a_mode_that_was_entered_meanwhile_stays(tmp_path):
    debugger = PrecisionDebugger(dump_path=tmp_path)
    debugger.start()
    with torch.device("meta"):
        debugger.stop()
        assert torch.ones(2).is_meta
    debugger.close()

    assert torch._C._len_torch_function_stack() == 0


def test_workers_of_a_data_loader_record_nothing(tmp_path):
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    with capture(tmp_path):
        loaded = [batch[0].sum() for batch in torch.utils.data.DataLoader(data, batch_size=4, num_workers=1)]

    assert [value.item() for value in loaded] == [6.0, 22.0]
    assert open_run(tmp_path).part().verify() == []


def test_inference_mode_and_no_grad_record_forward_only(tmp_path):
    model = torch.nn.Linear(2, 2)
    with capture(tmp_path, model=model), torch.inference_mode():
        model(torch.ones(1, 2)).relu_()

    part = open_run(tmp_path).part()

    assert {record.direction for record in part.records.values()} == {"forward"}
    assert part.problems == []


def record_three_steps(path, task):
    with capture(path, task=task) as recording:
        for number in range(3):
            torch.full((2,), float(number)).exp()
            if number < 2:
                recording.step()


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_fault_of_ours_at_the_end_of_a_step_costs_the_step_alone(tmp_path, monkeypatch, caplog, task):
    finish, calls = MeasurementCache.finish_step, []

    def faulty(self):
        calls.append(1)
        pending = finish(self)
        if len(calls) == 2:
            raise ValueError("our bug")
        return pending

    monkeypatch.setattr(MeasurementCache, "finish_step", faulty)
    record_three_steps(tmp_path, task)

    run = open_run(tmp_path)
    assert [step for step in run.steps if run.part(step).records] == [0, 2]
    assert "our bug" in caplog.text
    assert any("our bug" in problem for problem in run.part(2).problems)


def test_a_device_that_fails_after_a_step_costs_the_step_alone(tmp_path, monkeypatch, capsys):
    finish, calls = MeasurementCache.finish_step, []

    def faulty(self):
        calls.append(1)
        pending = finish(self)

        def failing():
            raise RuntimeError("the device is gone")

        if len(calls) == 2:
            pending.wait = failing
        return pending

    monkeypatch.setattr(MeasurementCache, "finish_step", faulty)
    record_three_steps(tmp_path, "statistics")

    run = open_run(tmp_path)
    assert [step for step in run.steps if run.part(step).records] == [0, 2]
    assert any("the device is gone" in problem for problem in run.part(1).problems)
    said = capsys.readouterr().out
    assert "4 records in 3 steps" in said and "the device is gone" in said
