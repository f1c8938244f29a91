"""A user's program with every public name in it; tests/test_public_api.py type-checks it and runs it.

No expression in it may have the type Any, so it calls no module: torch types those calls as Any.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from typing_extensions import assert_type

import torchparity as tp

NAMES = ["relu"]


def record(folder: Path, seed: int) -> Path:
    """Record two steps with every option as a keyword."""
    tp.seed_all(seed, mode=False, rm_dropout=False, is_enhanced=False)
    with tp.capture(folder, task="tensor", level="L1", list=NAMES, step="0-1", overwrite=True) as recording:
        assert_type(recording, tp.Capture)
        for _ in range(2):
            values = torch.relu(torch.randn(4, requires_grad=True))
            torch.autograd.backward([values.sum()])
            recording.save(values, "values")
            recording.step()
    return folder


def debug(folder: Path) -> None:
    """Record with the object that msprobe's users know."""
    model = torch.nn.Linear(4, 4)
    debugger = tp.PrecisionDebugger(task="statistics", dump_path=folder, level="mix", step=[0], summary_mode="md5")
    assert_type(debugger, tp.PrecisionDebugger)
    debugger.set_init_step(0)
    debugger.register_custom_api(torch, "relu", api_prefix="Mine")
    debugger.start(model=model)
    tp.module_dump(model, "linear")
    tp.module_dump_end()
    debugger.save(torch.ones(2), "ones")
    debugger.stop()
    debugger.step()
    debugger.restore_custom_api(torch, "relu")
    debugger.close()


def read(folder: Path) -> tp.HostTensor:
    """Read records, call stacks and values back."""
    run = tp.open_run(folder)
    assert_type(run, tp.RunReader)
    assert_type(run.steps, list[int])
    part = run.part(step=0, rank=0)
    assert_type(part, tp.RunPart)
    for group in part.stacks:
        assert_type(group, tp.StackGroup)
        assert_type(group.frames, list[str])
    record = part.record("Torch.relu.0.forward")
    assert_type(record, tp.Record)
    tensors = [item.leaf for item in record.items() if isinstance(item.leaf, tp.TensorLeaf)]
    assert_type(tensors, list[tp.TensorLeaf])
    tensor = part.tensor(tensors[0])
    assert_type(tensor, tp.HostTensor)
    assert_type(tp.to_torch(tensor), torch.Tensor)
    assert_type(part.problems, list[str])
    return tensor


def compare(candidate: Path, baseline: Path, folder: Path) -> str:
    """Compare, look at the verdict and write the tables."""
    comparison = tp.compare(candidate, baseline, align="order", highlight=True, tolerance=1e-6)
    assert_type(comparison, tp.Comparison)
    assert_type(comparison.headline(), str)
    assert_type(comparison.has_differences, bool)
    assert_type(comparison.notes, list[str])
    assert_type(comparison.verdict.sentence, str)
    assert_type(comparison.verdict.kind.value, str)
    assert_type(comparison.other_findings(), list[str])
    divergence = comparison.first_divergence
    if divergence is not None:
        assert_type(divergence.record, str)
    assert_type(comparison.frame.height, int)
    of_ranks = tp.compare_distributed(candidate, baseline, folder, formats=["csv"], rank_map={0: 0}, all_steps=True)
    assert_type(of_ranks, tp.Comparison)
    written = [*comparison.to_csv(folder), *comparison.to_xlsx(folder), *comparison.to_json(folder)]
    assert_type(written, list[Path])
    return comparison.headline()


def run_side_by_side() -> str:
    """Compare two models in memory."""
    candidate, baseline = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
    result = tp.lockstep(candidate, baseline, torch.ones(3, 4), backward=True, level="mix", task="tensor", steps=1)
    assert_type(result, tp.LockstepResult)
    assert_type(result.agrees, bool)
    assert_type(result.verdict.sentence, str)
    return result.headline


def write(folder: Path) -> None:
    """Write a run without recording it."""
    values = tp.from_torch(torch.ones(3))
    assert_type(values, tp.HostTensor)
    outputs = [tp.TensorLeaf(dtype=values.dtype, shape=values.shape)]
    arguments = [tp.ValueLeaf("bool", False), tp.describe(1.5)]
    record = tp.Record(name="Mine.ones.0.forward", direction="forward", input_args=arguments, output=outputs)
    with tp.RunWriter(folder, task="tensor") as writer:
        assert_type(writer, tp.RunWriter)
        writer.start_step(0)
        writer.add(record, {"output.0": values})
        writer.finish_step()


def draw(folder: Path) -> Path:
    """List the calls that draw random numbers."""
    with tp.random_save(folder) as calls:
        torch.rand(2)
    return calls.path


def simulate() -> None:
    """Ask for an NPU that nobody has; an older torch cannot have it."""
    try:
        simulated = tp.simulate_npu(tp.NpuBehaviour(accumulate="tf32", falls_back_to_cpu=True))
    except tp.ParityError:
        return
    assert_type(simulated.get_device_name(), str)


def say(error: tp.ParityError) -> int:
    """Return the exit code that the command line has for an error."""
    return error.exit_code


def main(folder: Path) -> None:
    """Use everything once."""
    simulate()
    first, second = record(folder / "first", 1), record(folder / "second", 2)
    read(first)
    debug(folder / "debug")
    write(folder / "written")
    draw(folder / "random")
    run_side_by_side()
    try:
        tp.open_run(folder / "nowhere")
    except tp.ParityError as error:
        assert_type(say(error), int)
    print(tp.check_laws(first, step=0).headline())
    print(tp.__version__, compare(first, second, folder / "tables"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
