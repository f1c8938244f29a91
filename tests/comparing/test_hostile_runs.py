"""What no tool should write: a sentence or a cell, never a traceback."""

from __future__ import annotations

import json

import pytest

from tests.support.dumps import tensor, write_dump
from torchparity.cli import main

FORMATS = "csv,xlsx,json,parquet"


def record(*inputs, **changed):
    return {"input_args": [tensor(), *inputs], "input_kwargs": {}, "output": [tensor(**changed)]}


@pytest.fixture
def compare(tmp_path, capsys):
    """Compare two runs given as records; return the exit code and what was printed."""

    def run(candidate, baseline, *more):
        left, right = write_dump(tmp_path / "candidate", candidate), write_dump(tmp_path / "baseline", baseline)
        code = main(["compare", str(left), str(right), *map(str, more)])
        return code, capsys.readouterr()

    return run


NAME = "Torch.exp.0.forward"
HUGE = 10**400


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(record(Max=HUGE, Min=-HUGE), id="statistic"),
        pytest.param(record({"type": "int", "value": HUGE}), id="argument"),
    ],
)
def test_a_whole_number_beyond_all_floats(compare, side, entry, tmp_path):
    plain = record({"type": "int", "value": 3})
    candidate, baseline = ({NAME: entry}, {NAME: plain})[:: 1 if side == 0 else -1]

    code, printed = compare(candidate, baseline, "-o", tmp_path, "-hl", "-da", "--format", FORMATS)

    assert code == 0, printed.err


@pytest.mark.parametrize("place", ['"torch.float32', '{"Torch.'])
def test_half_a_character_is_a_question_mark(compare, place, tmp_path):
    text = json.dumps({NAME: record()}).replace(place, f"{place}\\ud800")

    code, printed = compare(text, {NAME: record()}, "-o", tmp_path, "-da", "--format", FORMATS)

    assert code == 0, printed.err
    assert "?" in next(tmp_path.glob("*.csv")).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param("[" * 5000 + "]" * 5000, "is not valid YAML", id="deep"),
        pytest.param("2001-99-99: x", "which the candidate does not have", id="no date"),
        pytest.param("1: 2", "which the candidate does not have", id="numbers"),
        pytest.param("a: [b, c]", "must have one 'candidate name: baseline name'", id="list"),
        pytest.param("a: &a {b: c}\nd: {<<: *a}", "must have one 'candidate name: baseline name'", id="merge"),
    ],
)
def test_a_mapping_that_is_none_gets_one_sentence(compare, content, said, tmp_path):
    mapping = tmp_path / "map.yaml"
    mapping.write_text(content)

    code, printed = compare({NAME: record()}, {NAME: record()}, "-dm", mapping)

    assert code == 2 and said in printed.err and "Traceback" not in printed.err


def test_a_name_of_two_lines_stays_on_one(tmp_path, capsys):
    name = "Torch.exp\nThe runs agree.0.forward"
    asked = tmp_path / "compare.json"
    left, right = write_dump(tmp_path / "a", {name: record(Max=9.0)}), write_dump(tmp_path / "b", {name: record()})
    asked.write_text(json.dumps({"npu_path": str(left), "bench_path": str(right)}))

    code, printed = main(["compare", "-i", str(asked), "-o", str(tmp_path)]), capsys.readouterr()

    assert code == 0
    assert not any(line.startswith("The runs agree") for line in (printed.out + printed.err).splitlines())
