"""Damaged and hostile runs: one sentence that names the file, and the rest stays readable."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests.support.runs import leaf_of, write_linear_run
from torchparity import HostTensor, Record, RunWriter, TensorLeaf, open_run
from torchparity.errors import DamagedFileError, NotRecordedError, ParityError, RunNotFoundError, UnsafeFileError

RECORD = "Functional.linear.0.forward"


def shard_of(run):
    return next(run.rglob("*.safetensors"))


def edit_dump(run, change):
    """Load dump.json, let `change` edit its data, write it back."""
    file = next(run.rglob("dump.json"))
    document = json.loads(file.read_text())
    change(document["data"][RECORD])
    file.write_text(json.dumps(document))
    return file


def rewrite_header(shard, change):
    content = shard.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    shard.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])


def test_a_missing_path_is_named(tmp_path):
    with pytest.raises(RunNotFoundError, match=r"nowhere does not exist"):
        open_run(tmp_path / "nowhere")


def test_an_empty_folder_holds_no_run(tmp_path):
    with pytest.raises(RunNotFoundError, match="holds no run"):
        open_run(tmp_path)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("free_benchmark.csv", "the table of task free_benchmark, with a row for each result beyond its threshold"),
        ("significance.csv", "the table of significant bits that task free_benchmark counted"),
        ("accuracy_checking_result.csv", "the table of torchparity check, with a row for each call"),
        ("compare_result_20260131120000.xlsx", "the table of torchparity compare, with a row for each item"),
    ],
)
def test_results_that_are_taken_for_a_run_are_named(tmp_path, name, table):
    (tmp_path / name).write_text("")

    with pytest.raises(RunNotFoundError) as of_folder:
        open_run(tmp_path)
    with pytest.raises(RunNotFoundError) as of_file:
        open_run(tmp_path / name)

    assert str(of_folder.value) == f"{tmp_path} holds no run but {table}; open {tmp_path / name} in a spreadsheet."
    assert str(of_file.value) == f"{tmp_path / name} is no run but {table}; open it in a spreadsheet, or name a run."


def test_a_folder_is_no_table_whatever_its_name(tmp_path):
    (tmp_path / "compare_results").mkdir()

    with pytest.raises(RunNotFoundError, match=r"holds no run: no dump\.json"):
        open_run(tmp_path)


def test_a_folder_of_many_runs_names_some(tmp_path):
    for name in "abcdefg":
        write_linear_run(tmp_path / name, steps=1)

    with pytest.raises(RunNotFoundError, match=r"There are runs in it: a, b, c, d, e and 2 more\.$"):
        open_run(tmp_path)


def test_a_file_that_is_no_run_says_what_would_be(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")

    with pytest.raises(RunNotFoundError, match=r"name its folder, dump\.json"):
        open_run(tmp_path / "notes.txt")


def test_a_truncated_dump_gives_the_records_before_the_damage(golden, tmp_path):
    shutil.copytree(golden / "runs" / "att-tensor-mix-base", tmp_path / "run")
    file = next((tmp_path / "run").rglob("dump.json"))
    whole = list(open_run(tmp_path / "run").part().records)
    text = file.read_text()
    file.write_text(text[: len(text) // 2])

    part = open_run(tmp_path / "run").part()

    assert list(part.records) == whole[: len(part.records)]
    assert len(whole) // 3 < len(part.records) < len(whole)
    assert len(part.problems) == 1
    assert str(file) in part.problems[0]


def test_one_damaged_byte_costs_one_record(golden, tmp_path):
    for name in ("conv-tensor-L1-base", "att-md5-mix-base"):
        run = tmp_path / name
        shutil.copytree(golden / "runs" / name, run)
        file = next(run.rglob("dump.json"))
        whole = list(open_run(run).part().records)
        text = file.read_text()
        at = text.index('"shape"', len(text) // 3)
        file.write_text(text[:at] + "#" + text[at + 1 :])

        part = open_run(run).part()

        assert len(whole) - 1 == len(part.records)
        assert part.problems


def test_strangers_in_the_run_folder_do_not_hide_it(tmp_path):
    run = write_linear_run(tmp_path / "run", steps=2)
    (run / "profile.pkl").write_bytes(b"\x80\x04.")
    (run / "rank0").mkdir()

    assert open_run(run).steps == [0, 1]


def test_a_step_folder_without_a_rank_folder_keeps_its_number(tmp_path):
    run = write_linear_run(tmp_path / "run", steps=5)
    for step in (3, 4):
        for file in (run / f"step{step}" / "rank0").iterdir():
            file.rename(run / f"step{step}" / file.name)
        (run / f"step{step}" / "rank0").rmdir()

    assert open_run(run).steps == [0, 1, 2, 3, 4]
    assert open_run(run).part(step=4).verify() == []


def test_a_dump_of_garbage_is_refused(linear_run):
    next(linear_run.rglob("dump.json")).write_bytes(b"\xff\xfe garbage")

    with pytest.raises(DamagedFileError, match=r"dump\.json: it is not valid JSON"):
        _ = open_run(linear_run).part().records


def test_one_bad_rank_does_not_hide_the_others(tmp_path):
    for rank in (0, 1):
        write_linear_run(tmp_path / "run", rank=rank)
    (tmp_path / "run" / "step0" / "rank0" / "dump.json").write_text("{")

    good = open_run(tmp_path / "run").part(rank=1)

    assert good.verify() == []


def test_one_bad_record_does_not_hide_the_others(linear_run):
    file = next(linear_run.rglob("dump.json"))
    document = json.loads(file.read_text())
    document["data"]["Functional.relu.0.forward"] = {"input_args": [{"type": "torch.Tensor", "shape": [-1]}]}
    file.write_text(json.dumps(document))

    part = open_run(linear_run).part()

    assert list(part.records) == [RECORD]
    assert "Functional.relu.0.forward" in part.problems[0]


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_truncated_shard_is_named(linear_run, keep):
    shard = shard_of(linear_run)
    shard.write_bytes(shard.read_bytes()[:keep])

    problems = open_run(linear_run).part().verify()

    assert problems
    assert all(str(shard) in problem for problem in problems)
    assert open_run(linear_run).part().look()


def test_a_shard_that_ends_early_is_one_sentence_for_all_its_tensors(tmp_path):
    with RunWriter(tmp_path / "run", task="tensor") as writer:
        writer.start_step(0)
        for call in range(50):
            values = HostTensor.from_numpy(np.full(16, call, np.float32))
            record = Record(name=f"Torch.sin.{call}.forward", direction="forward", output=[leaf_of(values)])
            writer.add(record, {"output.0": values})
        writer.finish_step()
    shard = shard_of(tmp_path / "run")
    shard.write_bytes(shard.read_bytes()[:-2000])

    (said,) = open_run(tmp_path / "run").part().look()

    assert "before all tensors that it names" in said and " more tensors: " in said


def test_a_flipped_bit_in_a_shard_is_noticed_and_the_other_tensors_are_read(linear_run):
    shard = shard_of(linear_run)
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)

    problems = open_run(linear_run).part().verify()

    assert len(problems) == 1
    assert "have changed since they were written" in problems[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(lambda header: header["0"].update(dtype="Q4"), "unknown dtype code 'Q4'", id="dtype-code"),
        pytest.param(lambda header: header["0"].update(dtype="F64"), "does not fit", id="another-dtype"),
        pytest.param(lambda header: header["0"].update(dtype="I32"), "stored as torch.int32", id="dtype-of-same-size"),
        pytest.param(lambda header: header["0"].update(shape=[4, 4]), "does not fit its 48 bytes", id="shape"),
        pytest.param(lambda header: header["0"].update(shape=[-4, -3]), "does not fit", id="negative-sizes"),
        pytest.param(lambda header: header["0"].update(shape=[2**62, 2**62]), "does not fit", id="huge-sizes"),
        pytest.param(
            lambda header: header["0"].update(data_offsets=[0, 2**62]),
            "before all tensors that it names",
            id="huge-offset",
        ),
        pytest.param(
            lambda header: header["0"].update(data_offsets=[-8, 40]), "claims bytes -8 to 40", id="before-start"
        ),
        pytest.param(lambda header: header.pop("0"), "holds no tensor '0'", id="missing-key"),
        pytest.param(lambda header: header.update({"0": 3}), "header cannot be read", id="not-an-entry"),
    ],
)
def test_a_header_that_lies_is_refused(linear_run, change, said):
    rewrite_header(shard_of(linear_run), change)
    part = open_run(linear_run).part()
    leaf = next(leaf for _, leaf in part.tensors() if leaf.stored_in.key == "0")

    with pytest.raises(DamagedFileError, match=re.escape(said)):
        part.tensor(leaf)


@pytest.mark.parametrize(
    ("shape", "named"),
    [([0, 2**70], "data-00000.safetensors"), ([0] * 60, "data-00000.safetensors"), ([2**40, 2**40], "dump.json")],
)
def test_a_recorded_shape_that_no_tensor_has_is_refused(linear_run, shape, named):
    edit_dump(linear_run, lambda record: record["input_args"][0].update(shape=shape))

    problems = open_run(linear_run).part().verify()

    assert len(problems) == 1
    assert named in problems[0]


def test_two_items_that_share_bytes_are_each_held_to_their_own_checksum(linear_run):
    def share(record):
        record["input_args"][1] = {**record["input_args"][0], "stored_in": {**record["input_args"][0]["stored_in"]}}
        record["input_args"][1]["stored_in"]["crc32"] = "00000000"

    edit_dump(linear_run, share)

    assert len(open_run(linear_run).part().verify()) == 1


def test_reading_all_values_stops_at_the_damaged_tensor_with_its_sentence(tmp_path):
    with RunWriter(tmp_path / "run", task="tensor") as writer:
        writer.start_step(0)
        for index in range(100):
            values = HostTensor.from_numpy(np.full(500, index, np.float32))
            leaf = TensorLeaf(dtype=values.dtype, shape=values.shape)
            writer.add(
                Record(name=f"Torch.a.{index}.forward", direction="forward", output=[leaf]), {"output.0": values}
            )
    part = open_run(tmp_path / "run").part()
    read = list(part.values())
    assert [name for name, _ in read] == [name for name, _ in part.tensors()]
    assert [tensor.array.tolist() for _, tensor in read] == [[index] * 500 for index in range(100)]

    shard = shard_of(tmp_path / "run")
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1  # of the last tensor
    shard.write_bytes(content)
    values = open_run(tmp_path / "run").part().values()

    assert len([next(values) for _ in range(99)]) == 99
    with pytest.raises(DamagedFileError, match="have changed since they were written"):
        next(values)


def test_a_header_longer_than_the_file_is_refused(linear_run):
    shard = shard_of(linear_run)
    shard.write_bytes((2**63).to_bytes(8, "little") + shard.read_bytes()[8:])

    assert "claims 9223372036854775808 bytes" in open_run(linear_run).part().verify()[0]


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "a/../../b", "..", "", "x\0y", "sub\\file"])
def test_a_shard_outside_its_folder_is_refused(linear_run, name):
    (linear_run / "step0" / "rank0" / "secret.safetensors").write_bytes(shard_of(linear_run).read_bytes())
    edit_dump(linear_run, lambda record: record["input_args"][0]["stored_in"].update(file=name))

    problems = open_run(linear_run).part().verify()

    assert len(problems) == 1
    assert "not a plain name inside this folder" in problems[0]


@pytest.mark.parametrize("name", ["../dump.json", "/etc/passwd"])
def test_a_pt_outside_its_folder_is_refused(tmp_path, name):
    run = write_linear_run(tmp_path / "run", tensor_format="pt")
    edit_dump(run, lambda record: record["input_args"][0].update(data_name=name))

    assert "not a plain name inside this folder" in open_run(run).part().verify()[0]


def test_a_link_inside_a_run_is_not_followed(linear_run, tmp_path):
    shard = shard_of(linear_run)
    shard.rename(tmp_path / "outside.safetensors")
    shard.symlink_to(tmp_path / "outside.safetensors")

    with pytest.raises(UnsafeFileError, match="symbolic link"):
        part = open_run(linear_run).part()
        part.tensor(next(leaf for _, leaf in part.tensors()))


def test_a_pipe_in_place_of_a_file_does_not_hang(linear_run):
    shard = shard_of(linear_run)
    shard.unlink()
    os.mkfifo(shard)

    assert "not a plain file" in open_run(linear_run).part().verify()[0]


def test_missing_tensors_are_named_and_the_records_stay(linear_run):
    shard_of(linear_run).unlink()

    part = open_run(linear_run).part()

    assert list(part.records) == [RECORD]
    assert "data-00000.safetensors does not exist" in part.verify()[0]
    assert part.verify() == part.look()


@pytest.mark.parametrize("name", ["stack.json", "construct.json"])
def test_a_damaged_side_file_is_said_and_the_records_stay(linear_run, name):
    (linear_run / "step0" / "rank0" / name).write_text("{")

    part = open_run(linear_run).part()

    assert list(part.records) == [RECORD]
    assert name in part.verify()[0]


def test_deep_nesting_is_refused(linear_run):
    nested = []
    for _ in range(200):
        nested = [nested]
    edit_dump(linear_run, lambda record: record.update(input_args=nested))

    part = open_run(linear_run).part()

    assert "nested more than 64 deep" in part.problems[0]


def test_unknown_names_are_answered_with_the_nearest(linear_run):
    run = open_run(linear_run)

    with pytest.raises(NotRecordedError, match=rf"Did you mean '{RECORD}'"):
        run.part().record("Functional.linaer.0.forward")
    with pytest.raises(NotRecordedError, match=r"has no step '7'\. It has: 0"):
        run.part(step=7)
    with pytest.raises(NotRecordedError, match="has no rank '3'"):
        run.part(rank=3)
    with pytest.raises(NotRecordedError, match=rf"has no record 'linear'\..* It has: {RECORD}\."):
        run.part().record("linear")


def test_a_rank_that_another_step_has_is_not_suggested(tmp_path):
    write_linear_run(tmp_path / "run", steps=1, rank=1)
    write_linear_run(tmp_path / "run", steps=2)

    with pytest.raises(NotRecordedError, match=r"^step 1 has no rank '1'\. It has: 0\.$"):
        open_run(tmp_path / "run").part(step=1, rank=1)


def test_a_rank_of_several_steps_is_named_once(tmp_path):
    write_linear_run(tmp_path / "run", steps=2)

    with pytest.raises(NotRecordedError, match=r"has no rank '3'\. It has: 0\.$"):
        open_run(tmp_path / "run").select(rank=3)


def test_the_folder_of_all_runs_says_what_is_in_it(tmp_path):
    for name in ("monday", "tuesday"):
        write_linear_run(tmp_path / name)

    with pytest.raises(RunNotFoundError, match="There are runs in it: monday, tuesday"):
        open_run(tmp_path)


WITHOUT_OVERRIDE = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]


@pytest.mark.parametrize(
    ("unreadable", "others"),
    [
        ("step0/rank0/dump.json", 1),
        ("step0/rank0/dump_tensor_data", 1),
        ("step0/rank0", 1),
        ("step0", 1),
    ],
)
def test_no_permission_is_said_and_the_rest_shown(tmp_path, unreadable, others):
    run = write_linear_run(tmp_path / "run", steps=2)
    target = run / unreadable
    before = target.stat().st_mode
    prefix = WITHOUT_OVERRIDE if os.geteuid() == 0 else []  # root reads everything while it may override
    if prefix and not shutil.which(prefix[0]):
        pytest.skip("root cannot give up reading everything without setpriv")
    target.chmod(0o000)
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "torchparity", "show", str(run)], capture_output=True, text=True
    )
    target.chmod(before)

    assert done.returncode == 2, done.stderr
    assert "Permission denied" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.count("complete") == others


def test_every_error_here_is_a_parity_error_with_exit_code_2():
    assert {error.exit_code for error in (RunNotFoundError, DamagedFileError, UnsafeFileError, NotRecordedError)} == {2}
    assert issubclass(RunNotFoundError, ParityError)
