"""torchparity overflow, and the task of `torchparity run` that comes before it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from torchparity import capture
from torchparity.cli import main

SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)
embed = nn.Linear(8, 24).half()
optimizer = torch.optim.SGD(embed.parameters(), lr=1e-4)
for step in range(3):
    q, k, v = embed(torch.randn(4, 8).half() * 10 * 8**step).chunk(3, -1)
    scores = torch.matmul(q, k.t())
    loss = torch.matmul(torch.softmax(scores.float(), -1), v.float()).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture
def steep(tmp_path, monkeypatch):
    """A run with a normal overflow and an abnormal one."""
    monkeypatch.chdir(tmp_path)
    with capture("run", level="L1", task="overflow_check", overflow_nums=-1):
        torch.log(torch.zeros(2))
        torch.full((4,), 3e38).bfloat16().mean()
    return tmp_path / "run"


def test_a_script_is_watched_and_its_overflow_judged(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "torchparity"]
    words = ["run", "--task", "overflow_check", "-o", "run", "train.py"]
    watched = subprocess.run([*command, *words], capture_output=True, text=True, cwd=tmp_path)
    judged = subprocess.run([*command, "overflow", "run"], capture_output=True, text=True, cwd=tmp_path)

    assert watched.returncode == 0, watched.stderr
    assert "next: torchparity overflow" in watched.stderr
    assert len(list(tmp_path.glob("forward_info_*.json"))) == 1
    place, *lines = judged.stdout.splitlines()
    (folder,) = (tmp_path / "run").glob("step*")
    assert place == f"step {folder.name.removeprefix('step')}, rank 0:"
    assert lines[0] == "The Torch.matmul.0 overflow is a normal overflow."
    assert "times the largest float16 (65504)" in lines[1]
    assert "scores = torch.matmul(q, k.t())" in lines[2]
    assert lines[3] == "1 overflow: 1 normal."


def test_every_overflow_has_a_verdict(steep, capsys):
    assert main(["overflow", str(steep)]) == 0

    said = capsys.readouterr().out
    assert "The Torch.log.0 overflow is a normal overflow." in said
    assert "The Tensor.mean.0 overflow is an abnormal overflow." in said
    assert said.splitlines()[-1] == "2 overflows: 1 normal, 1 abnormal."


def test_the_answer_for_programs(steep, capsys):
    main(["overflow", str(steep), "--json"])

    answer = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["verdict"]) for each in answer["overflows"]] == [
        ("Torch.log.0", "normal"),
        ("Tensor.mean.0", "abnormal"),
    ]
    assert answer["overflows"][0]["tensors"][0]["elements"] == 2
    assert answer["problems"] == []


@pytest.mark.parametrize(("word", "code"), [("never", 0), ("abnormal", 1), ("overflow", 1)])
def test_a_program_may_fail_on_an_overflow(steep, word, code):
    assert main(["overflow", str(steep), "--fail-on", word]) == code


def test_forward_info_and_msprobe_s_spelling_are_sources_too(steep, tmp_path, capsys):
    (forward,) = tmp_path.glob("forward_info_*.json")

    assert main(["overflow", "-forward", str(forward)]) == 0
    assert main(["overflow", "-api_info", str(steep / "step0/rank0/dump.json")]) == 0

    said = capsys.readouterr().out
    assert said.count("The Torch.log.0 overflow is a normal overflow.") == 2


def test_steps_are_told_apart(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with capture("run", level="L1", task="overflow_check", overflow_nums=-1) as recording:
        torch.log(torch.zeros(2))
        recording.step()
        torch.log(torch.zeros(3))
    main(["overflow", "run"])
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("step")] == [
        "step 0, rank 0:",
        "step 1, rank 0:",
    ]

    main(["overflow", "run", "--step", "1"])
    assert "2 of 3" not in (said := capsys.readouterr().out)
    assert "3 of 3 elements" in said


def test_a_run_without_overflow_says_so(tmp_path, capsys):
    with capture(tmp_path / "run", level="L1"):
        torch.exp(torch.tensor([torch.inf]))
    capsys.readouterr()

    assert main(["overflow", str(tmp_path / "run"), "--fail-on", "overflow"]) == 0
    assert capsys.readouterr().out.startswith("No call overflows")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param({"level": "L0"}, "has level L0; to find overflows, record with level L1 or mix", id="modules"),
        pytest.param({"level": "L1", "task": "structure"}, "has task structure, which keeps no numbers", id="names"),
    ],
)
def test_a_run_that_cannot_tell_is_refused(tmp_path, capsys, settings, said):
    model = torch.nn.Softplus()
    with capture(tmp_path / "run", model=model, **settings):
        torch.log(model(torch.full((2,), -torch.inf)))
    capsys.readouterr()

    assert main(["overflow", str(tmp_path / "run"), "--fail-on", "overflow"]) == 2
    assert said in capsys.readouterr().err


def test_the_folder_of_a_training_that_did_not_overflow_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with capture("run", level="L1", task="overflow_check"):
        torch.log(torch.ones(2))

    assert main(["overflow", "run"]) == 2
    assert "run is empty; task overflow_check writes nothing where no call overflows." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param([], "needs one source", id="nothing"),
        pytest.param(["run", "-forward", "forward_info_0.json"], "needs one source", id="two"),
        pytest.param(["nowhere"], "nowhere", id="no-run"),
        pytest.param(["-forward", "forward_info_0.json"], "does not exist", id="no-file"),
        pytest.param(["-forward", "train.json"], "no forward_info", id="another-file"),
        pytest.param(["run", "--step", "x"], "--step is 'x'", id="no-number"),
        pytest.param(["run", "-d", "tpu:9"], "tpu:9", id="no-device"),
    ],
)
def test_what_cannot_work_is_one_sentence(steep, capsys, words, said):
    (steep.parent / "train.json").write_text('{"lr": 0.1}')

    assert main(["overflow", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_a_script_may_be_watched_for_more_than_one_overflow(tmp_path):
    (tmp_path / "train.py").write_text(
        "import torch\nlayer = torch.nn.Linear(2, 2)\nfor _ in range(3):\n"
        "    layer(torch.ones(1, 2)).sum().backward()\n    layer(torch.log(torch.zeros(1, 2))).sum().backward()\n"
    )
    words = ["run", "--task", "overflow_check", "--overflow-nums", "-1", "-o", "run", "train.py"]
    watched = subprocess.run(
        [sys.executable, "-m", "torchparity", *words], capture_output=True, text=True, cwd=tmp_path
    )

    assert watched.stderr.count(" overflows: ") == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--overflow-nums", "2"], "only for --task overflow_check; the task is statistics", id="task"),
        pytest.param(["--task", "overflow_check", "--overflow-nums", "0"], "from 1, or -1", id="number"),
        pytest.param(["--task", "overflow_check", "--level", "L0"], "--level L0 has none", id="level"),
    ],
)
def test_what_run_cannot_watch_is_one_sentence(tmp_path, capsys, words, said):
    (tmp_path / "train.py").write_text("")

    assert main(["run", *words, "-o", str(tmp_path / "run"), str(tmp_path / "train.py")]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
