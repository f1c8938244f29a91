"""`torchparity run --checksum-every`: one checksum per so many steps, and the first step at which two runs part."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import torch
from torch import nn

from torchparity import cli, open_run
from torchparity.running.checksums import checksum_of, weights_of
from torchparity.storage.step_checksums import read_checksums

PLAIN_LOOP = Path(__file__).parent / "scripts" / "plain_loop.py"
FAULT = """        optimizer.step()
        if step == 5:
            model[0].weight.data[0, 0] += 0.5"""


@pytest.fixture(scope="module")
def runs(quiet_scripts):
    """A folder with a run and one that parts from it in step 5."""
    script = PLAIN_LOOP.read_text()
    quiet_scripts.write(script, "right.py")
    quiet_scripts.write(script.replace("        optimizer.step()", FAULT), "wrong.py")
    for name, options in (("right", ["--checksum-every", "2"]), ("wrong", ["--checksum-every", "2", "--steps", "1"])):
        assert quiet_scripts.recorded(*options, "-o", name, f"{name}.py", 8).code == 0
    return quiet_scripts.folder


def test_every_second_step_has_a_checksum_and_nothing_else_is_recorded(runs):
    kept = read_checksums(runs / "right", 0)

    assert [each.step for each in kept.steps] == [0, 2, 4, 6]
    assert len({each.weights for each in kept.steps}) == 4
    assert kept.command == ["right.py", "8"]
    assert [entry.name for entry in (runs / "right").iterdir()] == ["checksums_rank0.jsonl"]


def test_steps_can_be_recorded_beside_checksums(runs):
    assert [part.step for part in open_run(runs / "wrong").parts] == [1]
    assert [each.step for each in read_checksums(runs / "wrong", 0).steps] == [0, 2, 4, 6]


def test_the_first_step_that_differs_is_named_with_the_commands_that_record_it(runs, capfd):
    capfd.readouterr()

    code = cli.main(["compare", str(runs / "wrong"), str(runs / "right"), "--fail-on", "divergence"])

    said, _, *commands = capfd.readouterr().out.splitlines()
    assert code == 1
    assert said.startswith("rank 0: The first step that differs is one of the steps 5 to 6: the weights differ and ")
    assert commands == [
        "  torchparity run --steps 5-6 --stop-after -o candidate_step6 wrong.py 8",
        "  torchparity run --steps 5-6 --stop-after -o baseline_step6 right.py 8",
        "  torchparity compare candidate_step6 baseline_step6",
    ]


def test_the_commands_that_are_proposed_name_the_step(runs, scripts, capfd):
    cli.main(["compare", str(runs / "wrong"), str(runs / "right"), "--json"])
    answer = json.loads(capfd.readouterr().out)

    for script in ("right.py", "wrong.py"):
        scripts.write((runs / script).read_text(), script)
    for command in answer["next"][:-1]:
        assert scripts.recorded(*shlex.split(command)[2:]).code == 0
    folders = [str(scripts.folder / word) for word in shlex.split(answer["next"][-1])[2:]]

    assert (answer["verdict"], answer["steps"], answer["exit_code"]) == ("divergence", [5, 6], 0)
    assert cli.main(["compare", *folders, "--fail-on", "divergence"]) == 1
    assert capfd.readouterr().out.startswith("step 6")


def test_runs_that_agree_are_said_to_agree(runs, capfd):
    capfd.readouterr()

    assert cli.main(["compare", str(runs / "right"), str(runs / "right"), "--fail-on", "any"]) == 0
    assert capfd.readouterr().out == "rank 0: Weights and losses of 4 steps are equal, up to step 6.\n"


def test_checksums_that_differ_count_beside_recorded_steps_that_agree(runs, scripts, capfd):
    script = runs / "right.py"
    assert scripts.recorded("--checksum-every", 2, "--steps", 1, "-o", "right", script, 8).code == 0

    assert cli.main(["compare", str(runs / "wrong"), str(scripts.folder / "right"), "--fail-on", "divergence"]) == 1

    said = capfd.readouterr().out
    assert "The first step that differs is one of the steps 5 to 6" in said
    assert "no divergence" in said.lower() or "agree" in said.lower() or "identical" in said.lower()


@pytest.mark.parametrize("name", ["right", "wrong"])
def test_checksums_are_shown(runs, capfd, name):
    capfd.readouterr()

    assert cli.main(["show", str(runs / name)]) == 0
    said = capfd.readouterr().out.splitlines()
    assert cli.main(["show", str(runs / name), "--json"]) == 0
    (kept,) = json.loads(capfd.readouterr().out)["checksums"]

    line = f"rank 0: checksums of 4 steps, 0 to 6, one of every 2; the script was: {name}.py 8"
    assert said[-5] == line
    last = kept["steps"][-1]
    assert said[-1] == f"  step 6: weights {last['weights']}, loss {last['losses'][0]}"


def test_a_record_of_a_run_that_has_none_is_refused(runs, capfd):
    assert cli.main(["show", str(runs / "right"), "Tensor.mul.0.forward"]) == 2
    assert "has checksums of steps and no records" in capfd.readouterr().err


TWO_MODELS = """
import torch
from torch import nn
torch.manual_seed(0)
encoder, decoder = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), nn.Linear(4, 1)
temperature = torch.ones((), requires_grad=True)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters(), temperature], lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    for part in torch.randn(2, 3, 4):
        (decoder(encoder(part)) * temperature).square().mean().backward()
    if step:
        CHANGE
    optimizer.step()
"""


@pytest.mark.parametrize(
    "change",
    [
        "encoder[0].weight.grad *= 2",
        "decoder.weight.grad *= 2",
        "temperature.grad *= 2",
        "encoder[1].running_mean += 1",
        "nn.functional.mse_loss(decoder(encoder(part)), torch.ones(3, 1)).backward(torch.zeros(()))",
    ],
)
def test_all_that_is_trained_has_a_part_in_the_checksum_and_all_losses(scripts, capfd, change):
    for name, text in (("right", "pass"), ("wrong", change)):
        scripts.write(TWO_MODELS.replace("CHANGE", text), f"{name}.py")
        assert scripts.recorded("--checksum-every", 1, "-o", name, f"{name}.py").code == 0
    runs = [str(scripts.folder / name) for name in ("wrong", "right")]
    capfd.readouterr()

    assert cli.main(["compare", *runs, "--fail-on", "divergence"]) == 1

    assert "The first step that differs is step 1" in capfd.readouterr().out
    assert [len(each.losses) for each in read_checksums(scripts.folder / "right", 0).steps] == [2, 2, 2]


def test_tensors_without_a_module_have_checksums(scripts):
    name = scripts.write(
        "import torch\nweight = torch.ones(3, requires_grad=True)\noptimizer = torch.optim.SGD([weight], lr=0.1)\n"
        "for _ in range(3):\n    weight.sum().backward()\n    optimizer.step()\n"
    )

    assert scripts.recorded("--checksum-every", 1, "-o", "run", name).code == 0

    kept = read_checksums(scripts.folder / "run", 0)
    assert [each.step for each in kept.steps] == [0, 1, 2]
    assert len({kept.start, *(each.weights for each in kept.steps)}) == 4


EVALUATED_BEFORE = """
import torch
from torch import nn
model = nn.Linear(4, 1)
with torch.no_grad():
    print([model(torch.ones(4)).item() for _ in range(5)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(4)).sum().backward()
    optimizer.step()
"""


def test_the_checksums_of_an_evaluation_are_forgotten_when_the_training_begins(scripts):
    name = scripts.write(EVALUATED_BEFORE)

    assert scripts.recorded("--checksum-every", 2, "-o", "run", name).code == 0

    kept = read_checksums(scripts.folder / "run", 0)
    assert [(each.step, len(each.losses)) for each in kept.steps] == [(0, 1), (2, 1)]


def test_a_wrapped_model_has_the_checksum_of_the_model(scripts, capfd):
    text = TWO_MODELS.replace("CHANGE", "pass")
    scripts.write(text, "plain.py")
    compiled = "\ndecoder = torch.compile(decoder, backend='eager')\noptimizer ="
    scripts.write(text.replace("\noptimizer =", compiled), "wrapped.py")
    for name in ("plain", "wrapped"):
        assert scripts.recorded("--checksum-every", 1, "-o", name, f"{name}.py").code == 0
    runs = [str(scripts.folder / name) for name in ("wrapped", "plain")]

    assert cli.main(["compare", *runs, "--fail-on", "any"]) == 0


def test_a_number_of_steps_that_is_none_is_refused(capsys):
    assert cli.main(["run", "--checksum-every", "0", str(PLAIN_LOOP)]) == 2
    assert "--checksum-every is '0'; it must be a whole number from 1 on." in capsys.readouterr().err


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_checksum_is_of_every_bit_of_parameters_and_buffers(dtype):
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(dtype)
    before = checksum_of(weights_of(model))

    with torch.no_grad():
        model[0].weight[1, 2] = -0.0
        zero = checksum_of(weights_of(model))
        model[0].weight[1, 2] = 0.0
        other_zero = checksum_of(weights_of(model))
        model[1].num_batches_tracked += 1

    assert len({before, zero, other_zero, checksum_of(weights_of(model))}) == 4


@pytest.mark.parametrize("kind", ["lazy", "conjugate", "sparse", "meta"])
def test_a_checksum_is_of_tensors_of_every_kind(kind):
    model = torch.nn.LazyLinear(2) if kind == "lazy" else torch.nn.Linear(2, 2)
    numbers = torch.tensor([[1.0 + 2.0j, 0.0], [0.0, 3.0]])
    buffers = {"conjugate": numbers.conj(), "sparse": numbers.to_sparse(), "meta": torch.empty(3, device="meta")}
    if kind in buffers:
        model.register_buffer("extra", buffers[kind])
    before = checksum_of(weights_of(model))

    assert before == checksum_of(weights_of(model))
    if kind == "lazy":
        model(torch.ones(1, 3))
    else:
        model.extra = torch.zeros(2) if kind == "meta" else buffers[kind] * 2
    assert before != checksum_of(weights_of(model))
