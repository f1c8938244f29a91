"""Engines: threads by default, blocks that any worker can measure, and one sentence for what cannot be."""

from __future__ import annotations

import pickle
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest

import torchparity
from tests.support.processes import run_python
from tests.support.runs import leaf_of, write_linear_run
from torchparity import HostTensor, Record, RunWriter, open_run
from torchparity.comparing.measuring.pair_blocks import blocks_of, measure_block
from torchparity.comparing.measuring.pair_reader import PairReader
from torchparity.errors import ConfigError, UnknownPluginError

CALLS = 1100  # of small tensors: more than two blocks


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("engines") / "run"
    with RunWriter(path, task="tensor") as writer:
        writer.start_step(0)
        for call in range(CALLS):
            tensor = HostTensor.from_numpy(np.random.default_rng(call).standard_normal(20, dtype=np.float32))
            record = Record(name=f"Torch.exp.{call}.forward", direction="forward", output=[leaf_of(tensor)])
            writer.add(record, {"output.0": tensor})
    return path


@pytest.fixture
def reader(run) -> PairReader:
    """Each tensor of the run with the one of the next call."""
    part = open_run(run).part()
    tensors = [leaf for _, leaf in part.tensors()]
    return PairReader(part, part, pairwise(tensors))


def test_blocks_have_every_pair_once_and_in_order(reader):
    blocks = list(blocks_of(reader))

    assert len(blocks) == 3
    assert [place for places, _ in blocks for place in places] == list(reader.wanted)
    assert [pair[0].stored_in for _, block in blocks for pair in block.pairs] == [
        mine.stored_in for mine, _ in reader.wanted.values()
    ]


def test_a_block_sent_to_another_process_has_the_bits_of_this_one(reader):
    for places, block in blocks_of(reader):
        sent = pickle.loads(pickle.dumps(block))
        result = pickle.loads(pickle.dumps(measure_block(sent)))

        assert result.problem == ""
        assert result.metrics == [reader.metrics(*reader.wanted[place]) for place in places]


def test_a_tensor_that_a_worker_cannot_read_is_left_to_whoever_asked(reader):
    _, block = next(blocks_of(reader))
    mine, other = block.pairs[0]
    changed = msgspec.structs.replace(mine, stored_in=msgspec.structs.replace(mine.stored_in, crc32="00000000"))

    result = measure_block(block._replace(pairs=[(changed, other), *block.pairs[1:]]))

    assert result.metrics[0] is None
    assert None not in result.metrics[1:]


def test_a_worker_that_cannot_measure_says_why(reader, tmp_path):
    _, block = next(blocks_of(reader))
    elsewhere = type(block.candidate)(tmp_path / "elsewhere")

    assert "install the same everywhere" in measure_block(block._replace(version="0.0")).problem
    assert f"does not see {tmp_path / 'elsewhere'}" in measure_block(block._replace(baseline=elsewhere)).problem


def test_nothing_is_sent_where_the_tensors_are_gone(tmp_path):
    path = write_linear_run(tmp_path / "run")
    part = open_run(path).part()
    leaves = [leaf for _, leaf in part.tensors()]
    for file in part.tensor_folder.iterdir():
        file.unlink()
    part.tensor_folder.rmdir()

    assert list(blocks_of(PairReader(part, part, [(leaf, leaf) for leaf in leaves]))) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is mapped")
def test_a_part_that_is_compared_keeps_no_file_open(run):
    done = torchparity.compare(run, run)

    assert done.rows_compared()["values"] == CALLS
    assert str(run) not in Path("/proc/self/maps").read_text()


def test_an_engine_that_does_not_exist_is_answered_with_those_that_do(run):
    with pytest.raises(UnknownPluginError, match=r"no engine named 'rey'. Did you mean 'ray'\? Available: local, ray."):
        torchparity.compare(run, run, engine="rey")


def test_threads_have_no_address(run):
    with pytest.raises(ConfigError, match="the engine local has no use for the address 'here:1'"):
        torchparity.compare(run, run, address="here:1")


def test_ray_that_is_not_installed_is_one_sentence(run):
    code = (
        "import sys; sys.modules['ray'] = None\n"
        "from torchparity.cli import main\n"
        "sys.exit(main(['compare', sys.argv[1], sys.argv[1], '--engine', 'ray']))"
    )

    done = run_python(code, run)

    assert (done.returncode, done.stdout) == (2, "")
    sentence = "the engine ray is not installed here; `pip install torchparity[ray]` adds it."
    assert done.stderr == f"torchparity: {sentence}\n"


def test_threads_load_no_ray(run):
    code = "import sys, torchparity\ntorchparity.compare(sys.argv[1], sys.argv[1])\nprint('ray' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code, run], capture_output=True, text=True)

    assert done.stdout == "False\n", done.stderr
