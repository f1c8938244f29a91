"""The advisor's file tells the verdict: its suspect, advice for its kind, and where else to look."""

from __future__ import annotations

import pytest
import torch

import torchparity
from tests.support.dumps import call, constant, tensor, write_dump
from torchparity.comparing import Kind
from torchparity.comparing.judging.wording.advice import advice

EXP, SIN = "Torch.exp.0.forward", "Torch.sin.0.forward"


@pytest.fixture
def told(tmp_path):
    """Compare two dumps; return the three lines of the advisor's file, and the comparison."""

    def compare(candidate, baseline):
        done = torchparity.compare(
            write_dump(tmp_path / "candidate", candidate), write_dump(tmp_path / "baseline", baseline)
        )
        return lines_of(done, tmp_path / "tables"), done

    return compare


def lines_of(done, folder, part="*"):
    done.write(folder)
    (file,) = folder.glob(f"advisor_{part}.txt")
    line, suspect, what_to_do = file.read_text().split("\n", 2)
    return line.removeprefix("Line: "), suspect.removeprefix("Suspect Nodes: "), what_to_do


def test_the_suspect_is_the_finding_not_the_first_row_that_fails_msprobes_rule(told):
    # What sin returns is far off, and msprobe's rule has nothing against exp, which is off by a hundredth.
    runs = [
        {EXP: call([constant(1.0)], [constant(value)]), SIN: call([constant(value)], [constant(result)])}
        for value, result in ((2.02, 9.0), (2.0, 3.0))
    ]

    (line, suspect, what_to_do), done = told(*runs)

    assert done.frame["Result"].to_list() == ["", "", "", "Warning"]
    assert (line, suspect) == ("1", f"{EXP}.output.0")
    assert "forward computation is wrong" in what_to_do


def test_rows_that_fail_msprobes_rule_by_rounding_alone_are_no_suspect(told):
    runs = [{EXP: call([constant(1.0)], [tensor(Min=least)])} for least in (1e-9, 2e-10)]

    (line, suspect, what_to_do), done = told(*runs)

    assert done.frame["Result"].to_list() == ["", "Warning"] and done.verdict.kind is Kind.AGREE
    assert (line, suspect) == ("NA", "NA")
    assert f"1 of 2 rows are Warning all the same, first {EXP}.output.0" in what_to_do
    assert "meets the accuracy requirements" not in what_to_do


def test_other_random_numbers_are_a_matter_of_seeds(tmp_path):
    for name, seed in (("candidate", 1), ("baseline", 2)):
        torch.manual_seed(seed)
        with torchparity.capture(tmp_path / name):
            torch.nn.functional.dropout(torch.ones(100), 0.5)
    done = torchparity.compare(tmp_path / "candidate", tmp_path / "baseline")

    _, suspect, what_to_do = lines_of(done, tmp_path / "tables")

    assert done.verdict.kind is Kind.RANDOM and suspect == "Functional.dropout.0.forward.output.0"
    assert "seed_all" in what_to_do and "higher precision" not in what_to_do


def test_a_step_without_the_first_difference_says_where_it_is(tmp_path):
    for name, value in (("candidate", 2.0), ("baseline", 3.0)):
        with torchparity.RunWriter(tmp_path / name) as writer:
            for step, output in ((0, 1.0), (1, value), (2, value)):
                writer.start_step(step)
                leaves = [
                    torchparity.TensorLeaf(dtype="torch.float32", shape=(1,), statistics=equal(n))
                    for n in (1.0, output)
                ]
                writer.add(torchparity.Record(name=EXP, direction="forward", input_args=leaves[:1], output=leaves[1:]))
                writer.finish_step()
    done = torchparity.compare(tmp_path / "candidate", tmp_path / "baseline")
    places = [lines_of(done, tmp_path / f"tables{step}", f"step{step}_*") for step in range(3)]

    elsewhere = f"The first difference is on rank 0, step 1: {EXP}."
    assert places[0][:2] == ("NA", "NA") and elsewhere in places[0][2]
    assert "Nothing here differs by more than rounding" in places[0][2]
    assert places[1][:2] == ("1", f"{EXP}.output.0")
    assert elsewhere in places[2][2]


def equal(number):
    from torchparity.records import Statistics

    return Statistics(max=number, min=number, mean=number, norm=number)


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.value)
def test_every_kind_has_its_own_advice(kind):
    assert advice(kind).endswith(".")
    assert sum(advice(other) == advice(kind) for other in Kind) == 1
