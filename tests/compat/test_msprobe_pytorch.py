"""msprobe.pytorch.compare: what it is given wrongly is answered in one sentence, before anything is written."""

from __future__ import annotations

import pytest
import torch

from torchparity import ParityError, capture
from torchparity.compat.msprobe_pytorch import compare, compare_distributed

NPU, BENCH = "npu_dump/step0/rank0/dump.json", "bench_dump/step0/rank0/dump.json"


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A folder with two runs; it is the current one."""
    monkeypatch.chdir(tmp_path)
    for name in ("npu_dump", "bench_dump"):
        with capture(name, level="L1"):
            torch.relu(torch.ones(2))
    return tmp_path


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("npu_dmp/step0/rank0/dump.json", "Did you mean 'npu_dump'? Recorded beside it: bench_dump, npu_dump."),
        ("npu_dump/step7/rank0/dump.json", "Did you mean 'step0'? Recorded beside it: step0."),
        ("npu_dump/step0/rank0/dumpp.json", "Did you mean 'dump.json'? Recorded beside it: dump.json."),
    ],
)
def test_a_file_that_was_never_written_is_answered_with_what_is_beside_it(runs, path, sentence):
    for paths in ((path, BENCH), (BENCH, path)):
        with pytest.raises(ParityError) as caught:
            compare(dict(zip(("npu_json_path", "bench_json_path"), paths, strict=True)), "output")
        assert str(caught.value) == f"no run was recorded at {path}. {sentence}"
    assert not (runs / "output").exists()


def test_a_step_that_was_never_written_is_answered_too(runs):
    with pytest.raises(ParityError, match=r"no run was recorded at npu_dmp/step0\. Did you mean 'npu_dump'\?"):
        compare_distributed("npu_dmp/step0", "bench_dump/step0", "output")


@pytest.mark.parametrize(
    ("input_param", "sentence"),
    [
        ("npu_dump", "compare takes a dict with npu_json_path and bench_json_path, not a str."),
        (
            {"npu_json_path": NPU, "bench_json_path": BENCH, "is_print_compare_log": "no"},
            "is_print_compare_log is True or False, not 'no'.",
        ),
        ({"bench_json_path": BENCH}, "compare needs 'npu_json_path' with the path of a dump.json or a step folder."),
    ],
)
def test_what_compare_cannot_take_is_refused_before_anything_is_written(runs, input_param, sentence):
    with pytest.raises(ParityError) as caught:
        compare(input_param, "output")

    assert str(caught.value) == sentence
    assert not (runs / "output").exists()


def test_paths_of_either_spelling_are_compared(runs):
    compare({"npu_path": NPU, "bench_path": BENCH}, "output")

    assert sorted(file.name.partition("_2")[0] for file in (runs / "output").iterdir()) == ["advisor", "compare_result"]
