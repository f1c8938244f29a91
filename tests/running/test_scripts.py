"""Eight scripts as people write them, bare and recorded: nothing of their output changes, and the run is whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ROOT
from torchparity import open_run

SCRIPTS = Path(__file__).parent / "scripts"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def bare_and_recorded(name, folder, launcher=()):
    """Return what two processes wrote and how they ended; they run at the same time."""
    script = SCRIPTS / f"{name}.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = ([script], ["-m", "torchparity", "run", "-o", folder / "run", script])
    both = [
        subprocess.Popen(
            [sys.executable, *launcher, *map(str, each)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for each in words
    ]
    outputs = [process.communicate(timeout=120) for process in both]
    return [(process.returncode, *output) for process, output in zip(both, outputs, strict=True)]


def check(parts, steps, module, *, has_backward):
    """Check that every step has a module, and backward records where it is trained."""
    assert [part.step for part in parts] == list(range(steps))
    for part in parts:
        assert module in part.records
        assert has_backward == any(record.direction == "backward" for record in part.records.values())


@pytest.mark.parametrize(
    ("name", "steps", "module", "has_backward"),
    [
        pytest.param("dataloader_loop", 4, "Module.body.0.Linear.forward.0", True, id="DataLoader"),
        pytest.param("hugging_face_trainer", 3, "Module.LlamaForCausalLM.forward.1", True, id="Hugging Face"),
        pytest.param("gradient_accumulation", 3, "Module.Sequential.forward.1", True, id="accumulation"),
        pytest.param("mixed_precision", 3, "Module.0.Conv2d.forward.0", True, id="autocast"),
        pytest.param("lightning_trainer", 3, "Module.encoder.Linear.forward.0", True, id="Lightning"),
        pytest.param("generate_loop", 4, "Module.GPT2LMHeadModel.forward.0", False, id="generate"),
    ],
)
def test_a_script_is_recorded_and_its_output_is_untouched(scripts, name, steps, module, has_backward):
    script = SCRIPTS / f"{name}.py"

    bare, recorded = scripts.bare(script), scripts.recorded("-o", "run", script)

    assert recorded.code == 0, recorded.err
    assert "weights" in bare.out  # with the hash of the trained weights
    assert recorded.out == bare.out
    assert recorded.err.splitlines()[-1].startswith("torchparity: recorded ")
    check(open_run(scripts.folder / "run").parts, steps, module, has_backward=has_backward)


def test_a_script_in_a_process_of_its_own_is_untouched_to_the_byte(tmp_path):
    bare, recorded = bare_and_recorded("plain_loop", tmp_path)

    assert bare[0] == recorded[0] == 0, recorded[2].decode()
    assert b"weights" in bare[1]
    assert recorded[1] == bare[1]
    assert recorded[2].startswith(bare[2])
    (said,) = recorded[2].removeprefix(bare[2]).decode().splitlines()
    assert said.startswith("torchparity: recorded ")
    check(open_run(tmp_path / "run").parts, 3, "Module.Sequential.forward.0", has_backward=True)


def test_every_rank_under_torchrun_records_its_own_part(tmp_path):
    bare, recorded = bare_and_recorded("distributed_data_parallel", tmp_path, TORCHRUN)

    assert bare[0] == recorded[0] == 0, recorded[2].decode()
    assert b"weights" in bare[1]
    assert recorded[1] == bare[1]
    parts = open_run(tmp_path / "run").parts
    assert [(part.step, part.rank) for part in parts] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for part in parts:
        assert "Module.DistributedDataParallel.forward.0" in part.records
        assert "Module.module.0.Linear.backward.0" in part.records
