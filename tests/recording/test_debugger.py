"""PrecisionDebugger and capture: settings from files and keywords, and every way to use them wrongly."""

from __future__ import annotations

import json

import pytest
import torch

from tests.support.processes import run_python
from tests.support.zoo import ZOO, Training
from torchparity import open_run
from torchparity.errors import ConfigError
from torchparity.recording import PrecisionDebugger, capture


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
    with pytest.raises(ConfigError, match="acc_check"):
        PrecisionDebugger(dump_path=tmp_path, task="acc_check")


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
    done = run_python(code, tmp_path)

    assert done.returncode == 0, done.stderr
    assert f"recorded 2 records in 1 step at {tmp_path}" in done.stdout
    assert open_run(tmp_path).part().verify() == []


def test_an_exception_in_the_block_reaches_the_user_and_keeps_the_data(tmp_path):
    with pytest.raises(ZeroDivisionError), capture(tmp_path):
        torch.exp(torch.ones(1))
        raise ZeroDivisionError

    assert "Torch.exp.0.forward" in open_run(tmp_path).part().records


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
    with pytest.raises(ConfigError, match=r"'bench_path' is a field of task 'tensor'.*use task='tensor'"):
        PrecisionDebugger(dump_path=tmp_path, bench_path="x")


def test_a_debugger_without_arguments_is_the_one_there_is(tmp_path):
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    try:
        assert PrecisionDebugger() is debugger
        with pytest.raises(ConfigError, match="other settings"):
            PrecisionDebugger(level="L0")
    finally:
        PrecisionDebugger.close()


def test_a_text_of_several_steps_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="step"):
        PrecisionDebugger(dump_path=str(tmp_path), level="L1", step="0,2")


@pytest.mark.parametrize("step", [(0, 2), range(0, 3, 2), [0, 2], None])
def test_steps_are_any_sequence(tmp_path, step):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"task": "statistics", "level": "L1", "rank": None, "step": None}))
    debugger = PrecisionDebugger(str(config), dump_path=str(tmp_path / "run"), step=step)
    for _ in range(3):
        debugger.start()
        torch.ones(1).exp()
        debugger.stop()
        debugger.step()
    PrecisionDebugger.close()

    assert open_run(tmp_path / "run").steps == ([0, 1, 2] if step is None else [0, 2])


@pytest.mark.parametrize("rank", ["3", True, 1.5, -1])
def test_a_rank_is_a_whole_number(tmp_path, rank):
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    try:
        with pytest.raises(ConfigError, match="a rank is a whole number"):
            debugger.start(rank_id=rank)
    finally:
        PrecisionDebugger.close()


def test_the_public_name_works_again_and_again(tmp_path):
    code = (
        "import sys, torch, torchparity\n"
        "for n in range(3):\n"
        "    with torchparity.capture(sys.argv[1] + str(n)): torch.ones(1) + 1\n"
        "import torchparity.recording\n"
        "with torchparity.capture(sys.argv[1] + '3'): torch.ones(1) + 1\n"
    )
    done = run_python(code, tmp_path / "run")

    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.iterdir())) == 4


def test_a_misspelt_option_of_capture_is_refused_before_the_block_is_entered(tmp_path):
    with pytest.raises(ConfigError, match="Did you mean 'overwrite'"):
        capture(tmp_path, overwritten=True)


def test_capture_takes_its_folder_once(tmp_path):
    with pytest.raises(ConfigError, match="leave dump_path out"):
        capture(tmp_path, dump_path=tmp_path / "other")


def test_steps_that_were_asked_for_and_did_not_come_are_named(tmp_path, capsys):
    with capture(tmp_path, step=[0, 1, 7]) as recording:
        torch.ones(2).exp()
        recording.step()
        torch.ones(2).exp()

    assert "step 7 was asked for, and steps 0 to 1 came" in capsys.readouterr().out
