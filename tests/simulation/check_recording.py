"""Recordings on the simulated NPU against the CPU's; run in a process of its own by test_simulated_npu.py."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional as F

import torchparity
from tests.support.statistics import assert_same
from tests.support.zoo import ResNet, TiedGpt
from torchparity import cli, simulation
from torchparity.simulation import NpuBehaviour, simulate_npu

STEPS = 2
MODELS = {
    "gpt": (
        lambda: TiedGpt(width=32, heads=4, words=64),
        lambda: (torch.randint(64, (4, 16)), torch.randint(64, (64,))),
    ),
    "resnet": (ResNet, lambda: (torch.randn(3, 3, 8, 8), torch.randint(4, (3,)))),
}


def recorded(path, device, behaviour=None, *, model="gpt", dtype=torch.float32, task="statistics"):
    """Record a short training; return the path of the run."""
    simulate_npu(behaviour)
    build, batch = MODELS[model]
    torch.manual_seed(0)
    network = build().to(dtype)
    batches = [[each.to(device) for each in batch()] for _ in range(STEPS)]
    network.to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2, foreach=False)
    with torchparity.capture(path, model=network, level="mix", task=task) as recording:
        for inputs, labels in batches:
            optimizer.zero_grad()
            F.cross_entropy(network(inputs).float(), labels).backward()
            optimizer.step()
            recording.step()
    simulate_npu()
    return path


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    """Return the CPU's run of a model, recorded once."""
    folder, made = tmp_path_factory.mktemp("cpu"), {}

    def run(model="gpt", dtype=torch.float32):
        name = f"{model}-{dtype}"
        if name not in made:
            made[name] = recorded(folder / name, "cpu", model=model, dtype=dtype)
        return made[name]

    return run


def records_of(path, step=0):
    return torchparity.open_run(path).part(step=step).records


@pytest.mark.parametrize("model", MODELS)
def test_the_same_is_recorded_as_on_the_cpu(model, baseline, tmp_path):
    there, here = records_of(recorded(tmp_path / "npu", "npu", model=model)), records_of(baseline(model))

    assert there.keys() == here.keys() and len(there) > 100
    for name, record in here.items():
        for mine, other in zip(there[name].items(), record.items(), strict=True):
            assert mine.name == other.name
            if getattr(other.leaf, "statistics", None) is not None:
                assert_same(mine.leaf.statistics, other.leaf.statistics, 0)
            assert getattr(mine.leaf, "origin", None) == getattr(other.leaf, "origin", None), (name, mine.name)


def test_values_are_kept_as_on_the_cpu(tmp_path):
    runs = [recorded(tmp_path / device, device, task="tensor") for device in ("cpu", "npu")]
    comparison = torchparity.compare(runs[1], runs[0])

    assert comparison.verdict.kind.value == "agree"
    assert comparison.verdict.agreement.is_identical


def test_every_run_says_that_the_npu_is_simulated(tmp_path):
    path = recorded(tmp_path / "npu", "npu", NpuBehaviour(reduction_order="reversed"))
    environment = torchparity.open_run(path).part().info.environment

    assert environment["npu"] == "simulated NPU (CPU kernels, reversed reductions)"


def test_every_answer_says_that_the_npu_is_simulated(baseline, tmp_path, capsys):
    clean = recorded(tmp_path / "clean", "npu")
    wrong = recorded(tmp_path / "wrong", "npu", NpuBehaviour(faults=(simulation.NanAt("linear", 3),)))
    simulated = "the candidate ran on a simulated NPU (CPU kernels), the baseline on the CPU"

    for candidate, other, said in [
        (clean, baseline(), simulated),
        (wrong, baseline(), simulated),
        (baseline(), clean, "the candidate ran on the CPU, the baseline on a simulated NPU (CPU kernels)"),
        (clean, clean, "both ran on a simulated NPU (CPU kernels)"),
        (clean, baseline("resnet"), simulated),
    ]:
        assert torchparity.compare(candidate, other).verdict.remarks.count(said) == 1
        capsys.readouterr()
        cli.main(["compare", str(candidate), str(other)])
        assert f"Note: {said}" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("kind", ["agrees", "parts"])
def test_lockstep_says_that_the_npu_is_simulated(kind):
    simulate_npu(NpuBehaviour(faults=(simulation.DroppedBias("linear"),)) if kind == "parts" else None)
    model = torch.nn.Linear(3, 3)
    result = torchparity.lockstep(copy.deepcopy(model).npu(), model, torch.ones(2, 3))

    assert result.agrees is (kind == "agrees")
    assert result.verdict.remarks[-1].startswith("the candidate ran on a simulated NPU")


def test_lockstep_puts_back_what_the_device_itself_would_flush():
    simulate_npu(NpuBehaviour(flush_subnormals=True))
    model = torch.nn.Linear(3, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1e-40, 1.0, -1e-41]]))
    before, device = model.weight.tolist(), copy.deepcopy(model).npu()
    torchparity.lockstep(device, model, torch.ones(2, 3))

    assert device.weight.cpu().tolist() == before and before[0][0] != 0


@pytest.mark.parametrize(
    "behaviour",
    [NpuBehaviour(), NpuBehaviour(reduction_order="reversed"), NpuBehaviour(reduction_order="chunked")],
    ids=["clean", "reversed", "chunked"],
)
@pytest.mark.parametrize("model", MODELS)
def test_rounding_of_the_same_precision_agrees(model, behaviour, baseline, tmp_path):
    verdict = torchparity.compare(recorded(tmp_path / "npu", "npu", behaviour, model=model), baseline(model)).verdict

    assert verdict.kind.value == "agree", verdict.sentence


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_a_narrow_accumulation_of_bfloat16_agrees(kind, baseline, tmp_path):
    run = recorded(tmp_path / "npu", "npu", NpuBehaviour(accumulate=kind), dtype=torch.bfloat16)
    verdict = torchparity.compare(run, baseline(dtype=torch.bfloat16)).verdict

    assert verdict.kind.value == "agree", verdict.sentence


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_a_narrow_accumulation_of_float32_is_called_by_its_name(kind, baseline, tmp_path):
    run = recorded(tmp_path / "npu", "npu", NpuBehaviour(accumulate=kind))
    comparison = torchparity.compare(run, baseline())

    assert f"{kind} accumulation is on for matmuls in the candidate alone" in comparison.verdict.sentence
    assert comparison.advice().startswith(f"Set this alike in both runs first: {kind} accumulation is on for matmuls")


def test_tf32_is_called_tf32_and_explains_what_differs(baseline, tmp_path):
    run = recorded(tmp_path / "npu", "npu", NpuBehaviour(accumulate="tf32"))
    verdict = torchparity.compare(run, baseline()).verdict
    environment = torchparity.open_run(run).part().info.environment

    assert verdict.sentence.startswith("The runs agree within what TF32 explains (TF32 is on in one run alone)")
    assert environment["npu"] == "simulated NPU (CPU kernels, TF32 products)"
    assert {key: environment[key] for key in environment if "f32" in key} == {
        "tf32.matmul": "on",
        "tf32.conv": "on",
        "hf32.matmul": "off",
        "hf32.conv": "off",
    }


FAULTS = [
    ("gpt", simulation.WrongEpsilon("layer_norm", 0, eps=1e-3), 0, "Functional.layer_norm.0.forward"),
    ("gpt", simulation.WrongEpsilon("layer_norm", 3), 1, "Functional.layer_norm.1.forward"),
    ("gpt", simulation.DroppedBias("linear", 2), 0, "Functional.linear.2.forward"),
    ("gpt", simulation.UnmaskedTail("gelu", 1), 1, "Functional.gelu.0.forward"),
    ("gpt", simulation.UnmaskedTail("linear", 6), 1, "Functional.linear.2.forward"),
    ("gpt", simulation.NanAt("linear", 5, index=7), 1, "Functional.linear.1.forward"),
    ("gpt", simulation.ScaledOutput("attention", 1), 1, "Functional.scaled_dot_product_attention.0.forward"),
    ("gpt", simulation.SaturatedOverflow("linear", 2, limit=0.5), 0, "Functional.linear.2.forward"),
    ("gpt", simulation.ScaledOutput("log_softmax", 1), 1, "Functional.cross_entropy.0.forward"),
    ("resnet", simulation.DroppedBias("conv2d", 1), 0, "Functional.conv2d.1.forward"),
    ("resnet", simulation.WrongEpsilon("batch_norm", 2), 1, "Functional.batch_norm.0.forward"),
    ("resnet", simulation.UnmaskedTail("max_pool2d", 0), 0, "Functional.max_pool2d.0.forward"),
]


@pytest.mark.parametrize(("model", "fault", "step", "record"), FAULTS, ids=[str(fault[1]) for fault in FAULTS])
def test_a_planted_fault_is_named(model, fault, step, record, baseline, tmp_path):
    run = recorded(tmp_path / "npu", "npu", NpuBehaviour(faults=(fault,)), model=model)
    first = torchparity.compare(run, baseline(model)).verdict.first

    assert (first.step, first.record) == (step, record)
