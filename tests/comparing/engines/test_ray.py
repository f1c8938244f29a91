"""The engine ray: a real cluster of two nodes gives the bits that threads give, whatever happens to a worker."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.support.ray_cluster import kill_a_busy_worker, two_nodes
from torchparity import HostTensor, Record, RunWriter, TensorLeaf

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed; `make setup` installs it"),
]
RANKS, CALLS = 3, 700  # calls of a rank are more than one block
LARGEST = 1 << 24  # elements: so many that cores share them


def write(run: Path, shift: float) -> None:
    """Write a run of several ranks; the first has a tensor that cores share."""
    for rank in range(RANKS):
        rng = np.random.default_rng(rank)
        with RunWriter(run, task="tensor", rank=rank) as writer:
            writer.start_step(0)
            for call in range(CALLS):
                values = rng.standard_normal(600, dtype=np.float32)
                values[::5] *= 1 + shift * (call > 300 + rank)
                add(writer, call, values)
            if rank == 0:
                add(writer, CALLS, np.resize(rng.standard_normal(9999) * (1 + shift), LARGEST).astype(np.float16))


def add(writer: RunWriter, call: int, values: np.ndarray) -> None:
    tensor = HostTensor.from_numpy(values)
    leaf = TensorLeaf(dtype=tensor.dtype, shape=tensor.shape)
    record = Record(name=f"Torch.exp.{call}.forward", direction="forward", output=[leaf])
    writer.add(record, {"output.0": tensor})


def start(folder: Path, output: str, *options: str, **others) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torchparity", "compare", "candidate", "baseline", "-o", output]
    command += ["--format", "csv,json", *options]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **others)


def answer(process: subprocess.Popen[str], folder: Path, output: str) -> tuple[str, dict[str, bytes], str]:
    """Return what a comparison printed and every file that it wrote, without the time in their names; and stderr."""
    printed, problems = process.communicate(timeout=300)
    assert process.returncode == 0, problems
    files = {re.sub(r"_\d{14}", "", file.name): file.read_bytes() for file in (folder / output).iterdir()}
    printed = "".join(line for line in printed.splitlines(keepends=True) if not line.startswith(f"  {output}/"))
    return printed, files, problems


def test_a_cluster_gives_the_bits_of_threads_also_when_a_worker_is_killed(tmp_path):
    write(tmp_path / "candidate", 1e-3)
    write(tmp_path / "baseline", 0.0)
    damaged = max((tmp_path / "candidate" / "step0" / "rank1").rglob("*.safetensors"))
    damaged.write_bytes(damaged.read_bytes()[:-4] + b"\0\0\0\0")
    printed, tables, problems = answer(start(tmp_path, "local"), tmp_path, "local")

    with two_nodes() as cluster:
        options = ("--engine", "ray", "--address", cluster.address)
        of_cluster = answer(start(tmp_path, "ray", *options, env=cluster.environment), tmp_path, "ray")
        comparing = start(tmp_path, "killed", *options, env=cluster.environment)
        killed = kill_a_busy_worker(cluster, "measure_block", comparing)
        of_survivors = answer(comparing, tmp_path, "killed")

    assert "First divergence: Torch.exp.301.forward" in printed
    assert sum(table.count(b"have changed since they were written") for table in tables.values()) > 0
    assert len(tables) >= 3 * RANKS  # two tables and the advisor's file of each
    assert of_cluster == (printed, tables, problems)
    assert killed is not None
    assert of_survivors[:2] == (printed, tables)  # Ray may have a word about the worker on stderr


@pytest.mark.parametrize("listens", [False, True], ids=["nobody", "somebody else"])
def test_a_cluster_that_cannot_be_reached_is_one_sentence(listens, linear_run):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1] if listens else 1}"
        command = [sys.executable, "-m", "torchparity", "compare", linear_run, linear_run]
        done = subprocess.run([*command, "--engine", "ray", "--address", address], capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"no Ray cluster can be reached at {address}" in done.stderr
