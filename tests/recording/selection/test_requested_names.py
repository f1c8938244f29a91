"""The first and the last word of a recording: names that cannot come up, and the closing line."""

from __future__ import annotations

import io
import shlex
import subprocess
import sys

import pytest
import torch
from torch import nn

from tests.support.models import linear_and_relu
from tests.support.processes import ROOT
from tests.support.zoo import ZOO, Training
from torchparity import open_run
from torchparity.errors import ConfigError
from torchparity.naming import parse_record
from torchparity.recording import capture
from torchparity.recording.selection.requested_names import check_names


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        pytest.param(
            {"list": ["Module.0.Linaer.forward.0"], "level": "L0"},
            ["'Module.0.Linaer.forward.0'", "Did you mean 'Module.0.Linear.forward.0'?"],
            id="module-in-list",
        ),
        pytest.param(
            {"scope": ["Module.0.Linear.forward.0", "Module.7.ReLU.forward.2"], "level": "mix"},
            ["'Module.7.ReLU.forward.2'", "Did you mean 'Module.1.ReLU.forward.2'?"],
            id="module-in-scope",
        ),
        pytest.param(
            {"tensor_list": ["Functional.linaer.0.forward"], "level": "mix"},
            ["'Functional.linaer.0.forward'", "Did you mean 'Functional.linear.0.forward'?"],
            id="api-in-tensor-list",
        ),
        pytest.param(
            {"scope": ["Torch.exp.0.forward", "Tensor.ad.3.backward"]}, ["'Tensor.ad.3.backward'"], id="api-in-scope"
        ),
        pytest.param({"list": ["Lineer"], "level": "L0"}, ["'Lineer'"], id="part-of-a-module-name"),
        pytest.param({"list": ["Torch.exp.0.forward"], "level": "L0"}, ["'L0'", "'mix'"], id="api-at-L0"),
        pytest.param(
            {"scope": ["Module.0.Linear.forward.0", "Module.1.ReLU.forward.0"], "level": "L1"},
            ["'Module.0.Linear.forward.0'", "'L1' records APIs only", "'L0' or 'mix'"],
            id="module-in-scope-at-L1",
        ),
        pytest.param(
            {"list": ["Module.0.Linear.backward.0"], "level": "L1"}, ["'L0' or 'mix'"], id="backward-of-a-module-at-L1"
        ),
        pytest.param({"list": ["Module.0"], "level": "L1"}, ["'Module.0'", "'L0' or 'mix'"], id="part-at-L1"),
        pytest.param(
            {"tensor_list": ["Module.0.Linear.forward.0"], "level": "L1"}, ["'L0' or 'mix'"], id="tensor-list-at-L1"
        ),
        pytest.param(
            {"scope": ["Torch.exp.2.forward", "Torch.exp.1.forward"]},
            ["'Torch.exp.2.forward'", "comes after", "swap them"],
            id="reversed-apis",
        ),
        pytest.param(
            {"scope": ["Module.0.Linear.forward.10", "Module.0.Linear.forward.9"], "level": "L0"},
            ["'Module.0.Linear.forward.10'", "swap them"],
            id="reversed-calls-of-a-module",
        ),
        pytest.param(
            {"scope": ["Torch.exp.0.backward", "Torch.exp.1.forward"]},
            ["'Torch.exp.0.backward'", "use 'Torch.exp.0.forward'"],
            id="scope-from-a-backward",
        ),
    ],
)
def test_a_name_that_cannot_come_up_is_refused_at_start(tmp_path, settings, wanted):
    with pytest.raises(ConfigError) as raised, capture(tmp_path / "run", model=linear_and_relu(), **settings):
        pass

    for text in wanted:
        assert text in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_a_module_cannot_be_asked_for_without_a_model(tmp_path):
    with (
        pytest.raises(ConfigError, match="start\\(\\) needs the model"),
        capture(tmp_path, list=["Module.0.Linear.forward.0"]),
    ):
        pass


def test_a_module_in_the_list_selects_the_apis_inside_it_at_L1_too(tmp_path):
    net = linear_and_relu()
    with capture(tmp_path, model=net, level="L1", list=["Module.1.ReLU.forward.0"]):
        net(torch.ones(1, 2))

    assert list(open_run(tmp_path).part().records) == ["Functional.relu.0.forward"]


@pytest.mark.parametrize("scope", [["Torch.exp.1.forward"] * 2, ["Torch.exp.9.forward", "Torch.exp.10.forward"]])
def test_a_scope_in_order_is_not_refused(tmp_path, scope):
    with capture(tmp_path, scope=scope):
        pass


def test_a_scope_that_turns_out_to_be_reversed_is_told(tmp_path, capsys):
    with capture(tmp_path / "reversed", scope=["Torch.sin.0.forward", "Torch.exp.0.forward"]):
        torch.sin(torch.exp(torch.ones(1)))
    line = capsys.readouterr().out
    assert "Torch.exp.0.forward came before Torch.sin.0.forward" in line and "swap them" in line

    with capture(tmp_path / "right", scope=["Torch.exp.0.forward", "Torch.sin.0.forward"]) as recording:
        torch.sin(torch.exp(torch.ones(1)))
        recording.step()
        torch.sin(torch.exp(torch.ones(1)))
    assert "came before" not in capsys.readouterr().out


@pytest.mark.parametrize("zoo_model", sorted(ZOO))
def test_every_name_that_is_recorded_may_be_asked_for(tmp_path, zoo_model):
    training = Training(ZOO[zoo_model])
    with capture(tmp_path, model=training.model, risk_level="ALL"):
        training.step()

    names = [str(parse_record(name)) for name in open_run(tmp_path).part().records if "#" not in name]
    modules = {name.rpartition(".")[0].rpartition(".")[0] for name in names if name.startswith("Module.")}
    check_names(names, level="mix", modules=modules, custom=())


def test_parts_of_names_and_foreign_names_are_not_refused(tmp_path):
    names = ["reluu", "Mine.fused.0.forward", "NPU.npu_gelu.0.forward", "Module.0"]
    with capture(tmp_path, model=linear_and_relu(), list=names):
        torch.exp(torch.ones(1))


def test_what_was_asked_for_and_never_seen_is_told_with_the_nearest(tmp_path, capsys):
    with capture(tmp_path, list=["Torch.exp.3.forward", "sin"], tensor_list=["tanh"]):
        torch.exp(torch.ones(1))
        torch.sin(torch.ones(1))

    line = capsys.readouterr().out
    assert "never seen: Torch.exp.3.forward (Did you mean 'Torch.exp.0.forward'?), tanh;" in line


def test_the_closing_line_says_where_how_much_and_what_next(tmp_path, capsys):
    path = tmp_path / "my run"
    with capture(path, task="tensor") as recording:
        torch.exp(torch.ones(1000))
        recording.step()
        torch.exp(torch.ones(1000))

    (line,) = capsys.readouterr().out.splitlines()
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    assert line.startswith(f"torchparity: recorded 4 records in 2 steps at {path} ({size / 1024:.1f} KiB); ")
    assert line.endswith(f"; next: torchparity compare '{path}' BASELINE")
    assert "incomplete" not in line


def test_the_closing_line_of_a_structure_says_what_it_is_and_how_to_see_it(tmp_path, capsys):
    net, path = linear_and_relu(), tmp_path / "my run"
    with capture(path, model=net, task="structure"):
        net(torch.ones(1, 2)).sum().backward()

    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"torchparity: recorded the structure of 7 calls in 1 step at {path} (")
    command = line.partition("; next: ")[2]
    assert command == f"torchparity show '{path}' --list"
    shown = subprocess.run([sys.executable, "-m", *shlex.split(command)], capture_output=True, text=True, check=True)
    assert "Functional.relu.0.forward" in shown.stdout.splitlines()


def test_a_recording_of_nothing_says_so(tmp_path, capsys):
    with capture(tmp_path):
        pass

    assert capsys.readouterr().out == f"torchparity: recorded nothing at {tmp_path}\n"


def test_two_items_of_one_name_cost_that_record_only(tmp_path, capsys):
    class Odd(nn.Module):
        def forward(self, *args, **kwargs):
            return args[0] + kwargs["0"]

    module = Odd()
    with capture(tmp_path, model=module, task="tensor"):
        module(torch.ones(1), **{"0": torch.ones(1)})

    part = open_run(tmp_path).part()
    assert "Tensor.add.0.forward" in part.records and "Module.Odd.forward.0" not in part.records
    assert "two items named 'input.0'" in capsys.readouterr().out
    assert any("two items" in problem for problem in part.problems)


class FullTerminal(io.StringIO):
    def write(self, text):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    "terminal",
    [
        pytest.param(lambda: io.TextIOWrapper(io.BytesIO(), encoding="ascii"), id="letters-it-does-not-have"),
        pytest.param(FullTerminal, id="no-room"),
    ],
)
def test_a_terminal_that_refuses_the_closing_line_stops_nobody(tmp_path, terminal, monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal())
    with capture(tmp_path / "Läufe"):
        torch.ones(2).exp()

    assert open_run(tmp_path / "Läufe").part().records


def test_a_forked_child_that_ends_says_nothing(tmp_path):
    code = (
        "import multiprocessing, os, sys, torch; from torchparity.recording import capture\n"
        "with capture(sys.argv[1]):\n"
        "    torch.ones(3).exp()\n"
        "    child = multiprocessing.get_context('fork').Process(target=torch.ones, args=(1,))\n"
        "    child.start(); child.join()\n"
        "    if os.fork() == 0: sys.exit(0)\n"
        "    os.wait()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, cwd=ROOT)

    (line,) = done.stdout.splitlines()
    assert "recorded 2 records in 1 step" in line, done.stderr
