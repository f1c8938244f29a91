"""The writer: killed processes, full disks, runs that are already there."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.support.disks import mounted_disk
from tests.support.processes import ROOT
from tests.support.runs import write_linear_run
from torchparity import HostTensor, Record, RunWriter, TensorLeaf, open_run
from torchparity.errors import ConfigError, ParityError, RunExistsError, RunWriteError
from torchparity.records import StackGroup, ValueLeaf
from torchparity.storage import SharedTensor

KILLED = """
import sys
import numpy as np
from torchparity import HostTensor, Record, RunWriter, TensorLeaf

writer = RunWriter(sys.argv[1], task="tensor", tensor_format=sys.argv[2])
for step in range(1000):
    writer.start_step(step)
    for call in range(200):
        values = HostTensor.from_numpy(np.random.default_rng(step * 1000 + call).normal(size=2000).astype(np.float32))
        leaf = TensorLeaf(dtype="torch.float32", shape=(2000,))
        record = Record(name=f"Torch.exp.{call}.forward", direction="forward", input_args=[leaf])
        writer.add(record, {"input.0": values})
    writer.finish_step()
"""


@pytest.mark.parametrize("tensor_format", ["safetensors", "pt"])
def test_a_process_killed_in_step_5_leaves_steps_0_to_4_whole(tmp_path, tensor_format):
    run = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(run), tensor_format], cwd=ROOT)
    journal = run / "step5" / "rank0" / "journal.jsonl"
    while not journal.exists() and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()

    opened = open_run(run)

    assert opened.steps[:5] == [0, 1, 2, 3, 4]
    for step in range(5):
        part = opened.part(step=step)
        assert part.is_complete
        assert len(part.records) == 200
        assert part.verify() == []
        for call, (_, leaf) in enumerate(part.tensors()):
            expected = np.random.default_rng(step * 1000 + call).normal(size=2000).astype(np.float32)
            assert np.array_equal(part.tensor(leaf).array, expected)


def test_what_a_killed_process_had_of_its_step_is_recovered(tmp_path):
    writer = RunWriter(tmp_path, task="statistics", level="mix")
    writer.start_step(0)
    leaf = TensorLeaf(dtype="torch.float32", shape=(2,))
    for call in range(3):
        writer.add(Record(name=f"Torch.exp.{call}.forward", direction="forward", input_args=[leaf]))
    writer.close()  # without finish_step: the step stays a journal
    journal = tmp_path / "step0" / "rank0" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-10])

    part = open_run(tmp_path).part()

    assert list(part.records) == ["Torch.exp.0.forward", "Torch.exp.1.forward"]
    assert not part.is_complete
    assert part.info.level == "mix"
    assert "2 records of it could be recovered; the last one is cut off" in part.problems[0]


def test_an_exception_in_the_with_block_keeps_what_was_recorded(tmp_path):
    with pytest.raises(ZeroDivisionError), RunWriter(tmp_path) as writer:
        writer.start_step(0)
        writer.add(Record(name="Torch.exp.0.forward", direction="forward"))
        raise ZeroDivisionError

    part = open_run(tmp_path).part()

    assert list(part.records) == ["Torch.exp.0.forward"]
    assert not part.is_complete


def test_a_run_that_is_already_there_is_refused_unless_asked(tmp_path):
    write_linear_run(tmp_path / "run", steps=3)

    with pytest.raises(RunExistsError, match="already holds a run"):
        RunWriter(tmp_path / "run")
    with RunWriter(tmp_path / "run", overwrite=True) as writer:
        writer.start_step(1)

    assert open_run(tmp_path / "run").steps == [1]


def test_overwriting_leaves_other_ranks_and_other_files_alone(tmp_path):
    for rank in (0, 1):
        write_linear_run(tmp_path / "run", rank=rank)
    (tmp_path / "run" / "notes.txt").write_text("mine")

    with RunWriter(tmp_path / "run", rank=0, overwrite=True) as writer:
        writer.start_step(0)

    assert open_run(tmp_path / "run").part(rank=1).verify() == []
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


def test_ranks_write_into_one_run(tmp_path):
    for rank in (0, 1, 5):
        write_linear_run(tmp_path / "run", steps=2, rank=rank)

    run = open_run(tmp_path / "run")

    assert (run.steps, run.ranks) == ([0, 1], [0, 1, 5])
    assert all(part.verify() == [] for part in run.parts)


def test_misuse_is_answered_in_words(tmp_path):
    with RunWriter(tmp_path) as writer:
        with pytest.raises(ConfigError, match="call start_step first"):
            writer.add(Record(name="Torch.exp.0.forward", direction="forward"))
        with pytest.raises(ConfigError, match="no step to finish"):
            writer.finish_step()
        writer.start_step(0)
        with pytest.raises(ConfigError, match="before step 0 was finished"):
            writer.start_step(1)


TWO_BY_TWO = HostTensor.from_numpy(np.ones((2, 2), np.float32))

LEAF = TensorLeaf(dtype="torch.float32", shape=(2, 2))


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        pytest.param({"input.1": TWO_BY_TWO}, "has no tensor 'input.1'. Did you mean 'input.0'?", id="no-such-item"),
        pytest.param({"input.0": HostTensor("torch.int32", np.ones((2, 2), np.int32))}, "recorded as", id="dtype"),
        pytest.param({"input.0": HostTensor("torch.float32", np.ones(4, np.float32))}, "recorded as", id="shape"),
        pytest.param({"input.0": np.ones((2, 2))}, "from_torch", id="not-a-host-tensor"),
    ],
)
def test_values_that_nobody_could_read_again_are_refused(tmp_path, tensors, said):
    with RunWriter(tmp_path, task="tensor") as writer:
        writer.start_step(0)
        with pytest.raises(ConfigError, match=re.escape(said)):
            writer.add(Record(name="Torch.exp.0.forward", direction="forward", input_args=[LEAF]), tensors)


def test_a_name_is_used_once_in_a_step_and_a_step_once(tmp_path):
    record = Record(name="Torch.exp.0.forward", direction="forward")
    with RunWriter(tmp_path) as writer:
        for step in (0, 1):
            writer.start_step(step)
            writer.add(record)
            with pytest.raises(ConfigError, match="already has a record"):
                writer.add(record)
            writer.finish_step()
        with pytest.raises(ConfigError, match="step 0 was written already"):
            writer.start_step(0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"task": "tenosr"}, "Did you mean 'tensor'?"),
        ({"level": "L9"}, "There are: L0, L1"),
        ({"rank": -1}, "rank -1 is negative"),
        ({"tensor_format": "pkl"}, "can only be read"),
    ],
)
def test_what_no_run_has_is_refused_at_once(tmp_path, arguments, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        RunWriter(tmp_path, **arguments)


def nested(depth):
    value = None
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    "leaf",
    [3, object(), {1: {2}}, [TWO_BY_TWO], nested(3000)],
    ids=["int", "object", "set", "tensor", "deep"],
)
def test_a_leaf_that_is_none_fails_the_run_and_never_hangs(tmp_path, leaf):
    writer = RunWriter(tmp_path, queue_bytes=1 << 14)
    writer.start_step(0)
    with pytest.raises(ParityError):
        for call in range(1000):
            writer.add(Record(name=f"Torch.exp.{call}.forward", direction="forward", input_args=[leaf]))
    with pytest.raises(ParityError):
        writer.close()


def test_a_closed_writer_takes_nothing(tmp_path):
    writer = RunWriter(tmp_path)
    writer.start_step(0)
    writer.close()
    writer.close()

    with pytest.raises(ConfigError, match="is closed"):
        writer.add(Record(name="Torch.exp.0.forward", direction="forward"))
    with pytest.raises(ConfigError, match="is closed"):
        writer.start_step(1)


def test_what_the_writer_knows_to_be_missing_is_told_to_every_reader(tmp_path):
    with RunWriter(tmp_path) as writer:
        writer.start_step(0)
        writer.finish_step(missing=["the disk was full for a while."])

    assert "the disk was full for a while." in open_run(tmp_path).part().problems[0]


@pytest.mark.parametrize("tensor_format", ["safetensors", "pt"])
def test_a_process_that_ends_without_closing_has_its_steps(tmp_path, tensor_format):
    code = KILLED.replace("range(1000)", "range(3)") + "writer.start_step(3)\n"
    done = subprocess.run([sys.executable, "-c", code, tmp_path, tensor_format], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    run = open_run(tmp_path)
    assert [len(part.records) for part in run.parts if part.is_complete] == [200, 200, 200]
    assert all(part.verify() == [] for part in run.parts if part.is_complete)


def test_a_text_that_is_no_unicode_does_not_end_the_recording(tmp_path):
    with RunWriter(tmp_path) as writer:
        writer.start_step(0)
        record = Record(name="Torch.exp.0.forward", direction="forward", input_args=[ValueLeaf("str", "a\ud800b")])
        writer.add(record)

    (item,) = open_run(tmp_path).part().record("Torch.exp.0.forward").items()
    assert item.leaf == ValueLeaf("str", "a?b")


def test_overwriting_keeps_what_is_not_ours(tmp_path):
    run = write_linear_run(tmp_path / "run")
    (run / "step0" / "rank0" / "ckpt.pkl").write_bytes(b"mine")
    (tmp_path / "elsewhere" / "rank0").mkdir(parents=True)
    (tmp_path / "elsewhere" / "rank0" / "dump.json").write_text('{"data": {}}')
    (run / "step7").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(RunWriteError, match="symbolic link"):
        RunWriter(run, overwrite=True)
    (run / "step7").unlink()
    with RunWriter(run, overwrite=True) as writer:
        writer.start_step(0)

    assert (run / "step0" / "rank0" / "ckpt.pkl").read_bytes() == b"mine"
    assert (tmp_path / "elsewhere" / "rank0" / "dump.json").exists()
    assert open_run(run).part().records == {}


def test_a_path_that_cannot_be_a_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(RunWriteError, match="file"):
        RunWriter(tmp_path / "file" / "run")


@pytest.fixture
def small_disk(tmp_path):
    with mounted_disk(tmp_path / "disk", megabytes=5) as disk:
        yield disk


def fill(path: Path, tensor_format: str) -> None:
    """Write tensors until the disk refuses."""
    rng = np.random.default_rng(0)
    with RunWriter(path, task="tensor", tensor_format=tensor_format, queue_bytes=1 << 20) as writer:
        for step in range(100):
            writer.start_step(step)
            tensor = HostTensor.from_numpy(rng.normal(size=1 << 17))
            leaf = TensorLeaf(dtype=tensor.dtype, shape=tensor.shape)
            writer.add(Record(name="Torch.exp.0.forward", direction="forward", input_args=[leaf]), {"input.0": tensor})
            writer.finish_step()
            while not writer._thread.is_idle() and not writer._thread.failure:
                time.sleep(0.001)


@pytest.mark.parametrize("tensor_format", ["safetensors", "pt"])
def test_a_full_disk_is_one_sentence_and_finished_steps_stay(small_disk, tensor_format):
    with pytest.raises(RunWriteError, match=r"cannot write .*step\d+/rank0.*: "):
        fill(small_disk / "run", tensor_format)

    run = open_run(small_disk / "run")
    whole = [part for part in run.parts if part.is_complete]
    assert len(whole) >= 3
    assert all(part.verify() == [] for part in whole)
    assert not list(small_disk.rglob("*.part"))


def test_a_file_size_limit_is_one_sentence(tmp_path):
    """The same without a mount: a limit on file size refuses writes as a full disk does."""
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from tests.storage.writing.test_run_writer import fill\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19)); "
        "from torchparity.errors import RunWriteError\n"
        "try: fill(Path(sys.argv[1]), 'safetensors')\n"
        "except RunWriteError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "run"], capture_output=True, text=True, cwd=ROOT)

    assert re.fullmatch(r"cannot write .*data-00000\.safetensors: file too large\.\n", done.stdout), done.stderr


def test_the_writer_needs_little_memory_for_many_tensors(tmp_path):
    code = (
        "import sys, numpy as np; from torchparity import HostTensor, Record, RunWriter, TensorLeaf\n"
        "leaf = TensorLeaf(dtype='torch.float64', shape=(1 << 20,))\n"
        "with RunWriter(sys.argv[1], task='tensor', queue_bytes=32 << 20) as writer:\n"
        "    writer.start_step(0)\n"
        "    for call in range(200):\n"
        "        values = HostTensor.from_numpy(np.full(1 << 20, call, np.float64))\n"
        "        record = Record(name=f'Torch.exp.{call}.forward', direction='forward', input_args=[leaf])\n"
        "        writer.add(record, {'input.0': values})\n"
        # Not getrusage: a process inherits the peak of the one that started it.
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )

    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    # 1.6 GB went through; two shards of 128 MiB, one more while it is written, the queue and Python itself stay.
    assert int(done.stdout) < 650_000


def test_shards_may_be_read_by_whoever_may_read_the_run(tmp_path):
    run = write_linear_run(tmp_path / "run")

    modes = {file.name: file.stat().st_mode & 0o044 for file in run.rglob("*") if file.is_file()}

    assert len(set(modes.values())) == 1


@pytest.mark.parametrize("cores", [1, 3])
def test_tensors_stored_ahead_of_their_records_are_checked_whoever_computes_it(tmp_path, monkeypatch, cores):
    monkeypatch.setattr("torchparity.storage.writing.checksums_ahead.spare_cores", lambda: cores)
    contents = [HostTensor.from_numpy(np.full(1000, index % 7, np.float32)) for index in range(20)]
    ready = []
    with RunWriter(tmp_path, task="tensor") as writer:
        writer.start_step(0)
        shared = [SharedTensor(values, ready=lambda: ready.append(1)) for values in contents]
        for tensor in shared:
            writer.store(tensor)
        for index, tensor in enumerate(shared):
            leaf = TensorLeaf(dtype="torch.float32", shape=(1000,))
            record = Record(name=f"Tensor.exp.{index}.forward", direction="forward", output=[leaf])
            writer.add(record, {"output.0": tensor})

    part = open_run(tmp_path).part()
    assert ready
    assert len({leaf.stored_in for _, leaf in part.tensors()}) == 7
    for index, values in enumerate(contents):
        record = part.records[f"Tensor.exp.{index}.forward"]
        assert np.array_equal(part.tensor(record.output[0]).array, values.array)


def test_of_two_writers_of_one_rank_the_second_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "torchparity.storage.writing.run_writer.has_records", lambda folder: False
    )  # both look, then write
    first, second = RunWriter(tmp_path), RunWriter(tmp_path)  # both look, then write
    first.start_step(0)
    first.add(Record(name="Torch.exp.0.forward", direction="forward"))
    deadline = time.monotonic() + 60
    while not (tmp_path / "step0" / "rank0" / "journal.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(RunWriteError, match="another process records there as the same rank"):
        second.start_step(0)
        second.finish_step()
        second.close()
    first.finish_step()
    first.close()

    assert list(open_run(tmp_path).part().records) == ["Torch.exp.0.forward"]


def test_a_step_that_was_described_stays_so_when_it_is_finished(tmp_path):
    name = "Torch.sin.0.forward"
    with RunWriter(tmp_path) as writer:
        writer.start_step(0)
        writer.describe_step(stacks=[StackGroup([name], ["a.py"])], construct={name: "Module.a.A.forward.0"})
        writer.add(Record(name=name, direction="forward"))
    part = tmp_path / "step0/rank0"

    assert json.loads((part / "stack.json").read_text()) == {"0": [[name], ["a.py"]]}
    assert json.loads((part / "construct.json").read_text()) == {name: "Module.a.A.forward.0"}
    assert writer.reports[0].bytes == sum(file.stat().st_size for file in part.iterdir())


def test_only_a_step_in_hand_can_be_described(tmp_path):
    with RunWriter(tmp_path) as writer, pytest.raises(ConfigError, match="no step to describe"):
        writer.describe_step(stacks=None, construct=None)
