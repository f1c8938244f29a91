"""The writer reports what it wrote, so that nobody has to read it again."""

from __future__ import annotations

import shutil
import time

import numpy as np
import pytest

from torchparity import HostTensor, Record, RunWriter, TensorLeaf
from torchparity.errors import RunWriteError
from torchparity.records import ValueLeaf

LEAF = TensorLeaf(dtype="torch.float32", shape=(1000,))


def values(seed):
    return HostTensor.from_numpy(np.random.default_rng(seed).normal(size=1000).astype(np.float32))


def record(number, leaf=LEAF):
    return Record(name=f"Torch.exp.{number}.forward", direction="forward", input_args=[leaf])


@pytest.mark.parametrize("tensor_format", ["safetensors", "pt"])
def test_a_report_has_the_size_of_the_files_and_the_number_of_records(tmp_path, tensor_format):
    writer = RunWriter(tmp_path, task="tensor", tensor_format=tensor_format)
    for step in (0, 3):
        writer.start_step(step)
        for number in range(step + 1):
            writer.add(record(number), {"input.0": values(number)})
        writer.add(Record(name="loss.0.debug", direction="debug", value=ValueLeaf("int", 1)))
        writer.finish_step()
    reports = writer.close()

    assert reports == writer.reports
    assert [(step, report.records) for step, report in reports.items()] == [(0, 2), (3, 5)]
    for step, report in reports.items():
        assert report.folder == tmp_path / f"step{step}" / "rank0"
        assert report.bytes == sum(file.stat().st_size for file in report.folder.rglob("*") if file.is_file())
        assert (report.left_out, report.valueless) == ((), 0)


def test_a_report_names_the_records_that_could_not_be_written(tmp_path):
    with RunWriter(tmp_path, skip_unwritable=True) as writer:
        writer.start_step(0)
        writer.add(record(0, leaf=object()))
        writer.add(record(1))
        writer.finish_step(missing=["a sentence of the caller's."])
    (report,) = writer.reports.values()

    assert report.records == 1
    (sentence,) = report.left_out
    assert sentence.startswith("Torch.exp.0.forward could not be written")


def test_a_step_that_failed_has_no_report_and_the_one_before_has(tmp_path):
    writer = RunWriter(tmp_path)
    for step in (0, 1):
        writer.start_step(step)
        writer.add(record(0))
        if step:
            deadline = time.monotonic() + 30
            while not (tmp_path / "step1" / "rank0" / "journal.jsonl").exists():
                assert time.monotonic() < deadline
                time.sleep(0.001)
            shutil.rmtree(tmp_path / "step1")
        writer.finish_step()
    with pytest.raises(RunWriteError, match=r"step1/rank0/\S+: no such file or directory"):
        writer.close()

    assert list(writer.reports) == [0]
    assert writer.reports[0].is_on_disk()
    assert not (tmp_path / "step1").exists()


def test_a_report_notices_that_its_step_was_removed(tmp_path):
    with RunWriter(tmp_path) as writer:
        writer.start_step(0)
    (report,) = writer.reports.values()
    assert report.is_on_disk()

    shutil.rmtree(tmp_path / "step0")

    assert not report.is_on_disk()
