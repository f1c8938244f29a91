"""`torchparity run --checksum-every`: one checksum per so many steps, and the first step at which two runs part."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from torchparity import cli, open_run
from torchparity.running.checksums import checksum_of
from torchparity.storage.step_checksums import read_checksums

PLAIN_LOOP = Path(__file__).parent / "scripts" / "plain_loop.py"
FAULT = """        optimizer.step()
        if step == 5:
            model[0].weight.data[0, 0] += 1e-6"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a run and one that parts from it in step 5."""
    folder = tmp_path_factory.mktemp("checksums")
    script = PLAIN_LOOP.read_text()
    (folder / "right.py").write_text(script)
    (folder / "wrong.py").write_text(script.replace("        optimizer.step()", FAULT))
    for name, options in (("right", ["--checksum-every", "2"]), ("wrong", ["--checksum-every", "2", "--steps", "1"])):
        words = ["-m", "torchparity", "run", *options, "-o", name, f"{name}.py", "8"]
        subprocess.run([sys.executable, *words], cwd=folder, check=True, capture_output=True, timeout=100)
    return folder


def test_every_second_step_has_a_checksum_and_nothing_else_is_recorded(runs):
    kept = read_checksums(runs / "right", 0)

    assert [each.step for each in kept.steps] == [0, 2, 4, 6]
    assert len({each.weights for each in kept.steps}) == 4
    assert kept.command == ["right.py", "8"]
    assert [entry.name for entry in (runs / "right").iterdir()] == ["checksums_rank0.jsonl"]


def test_steps_can_be_recorded_beside_checksums(runs):
    assert [part.step for part in open_run(runs / "wrong").parts] == [1]
    assert [each.step for each in read_checksums(runs / "wrong", 0).steps] == [0, 2, 4, 6]


def test_the_first_step_that_differs_is_named_with_the_command_that_records_it(runs, tmp_path, capsys):
    (tmp_path / "wrong").mkdir()
    file = "checksums_rank0.jsonl"
    (tmp_path / "wrong" / file).write_text((runs / "wrong" / file).read_text())  # without the recorded step

    code = cli.main(["compare", str(tmp_path / "wrong"), str(runs / "right"), "--fail-on", "divergence"])

    said, command = capsys.readouterr().out.splitlines()
    assert code == 1
    assert said.startswith("rank 0: The first step that differs is one of the steps 5 to 6: the weights differ and ")
    assert command == "Record it: torchparity run --steps 5-6 -o step6 wrong.py 8"


def test_runs_that_agree_are_said_to_agree(runs, capsys):
    assert cli.main(["compare", str(runs / "right"), str(runs / "right"), "--fail-on", "any"]) == 0
    assert capsys.readouterr().out == "rank 0: Weights and losses of 4 steps are equal, up to step 6.\n"


def test_a_number_of_steps_that_is_none_is_refused(capsys):
    assert cli.main(["run", "--checksum-every", "0", str(PLAIN_LOOP)]) == 2
    assert "--checksum-every is '0'; it must be a whole number from 1 on." in capsys.readouterr().err


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_checksum_is_of_every_bit_of_parameters_and_buffers(dtype):
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(dtype)
    before = checksum_of(model)

    with torch.no_grad():
        model[0].weight[1, 2] = -0.0
        zero = checksum_of(model)
        model[0].weight[1, 2] = 0.0
        other_zero = checksum_of(model)
        model[1].num_batches_tracked += 1

    assert len({before, zero, other_zero, checksum_of(model)}) == 4


@pytest.mark.parametrize("kind", ["lazy", "conjugate", "sparse", "meta"])
def test_a_checksum_is_of_tensors_of_every_kind(kind):
    model = torch.nn.LazyLinear(2) if kind == "lazy" else torch.nn.Linear(2, 2)
    numbers = torch.tensor([[1.0 + 2.0j, 0.0], [0.0, 3.0]])
    buffers = {"conjugate": numbers.conj(), "sparse": numbers.to_sparse(), "meta": torch.empty(3, device="meta")}
    if kind in buffers:
        model.register_buffer("extra", buffers[kind])
    before = checksum_of(model)

    assert before == checksum_of(model)
    if kind == "lazy":
        model(torch.ones(1, 3))
    else:
        model.extra = torch.zeros(2) if kind == "meta" else buffers[kind] * 2
    assert before != checksum_of(model)
