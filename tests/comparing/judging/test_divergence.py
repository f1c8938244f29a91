"""Where two runs part, and what is said when they do not or when nobody can know."""

from __future__ import annotations

import json

import pytest

import torchparity
from tests.support.dumps import call, constant, tensor, write_dump
from torchparity.cli import main


def number(kind, value):
    return {"type": kind, "value": value}


@pytest.fixture
def compare(tmp_path):
    def run(candidate, baseline, **settings):
        return torchparity.compare(
            write_dump(tmp_path / "candidate", candidate), write_dump(tmp_path / "baseline", baseline), **settings
        )

    return run


EXP, LOG, SIN = (f"Torch.{name}.0.forward" for name in ("exp", "log", "sin"))


@pytest.mark.parametrize("owner", ["candidate", "baseline"])
def test_a_call_that_one_run_leaves_out_is_named_and_whose_it_is(compare, owner):
    grown = constant(2.0, requires_grad=True)
    without = {EXP: call([constant(1.0)], [grown]), SIN: call([grown], [constant(3.0)])}
    with_call = {
        EXP: call([constant(1.0)], [grown]),
        LOG: call([grown], [constant(5.0)]),
        SIN: call([constant(5.0, requires_grad=True)], [constant(4.0)]),
    }

    done = compare(with_call, without) if owner == "candidate" else compare(without, with_call)

    assert done.first_divergence.kind == "another call" and done.first_divergence.partner == LOG
    assert f"its input differs after {LOG}, which only the {owner} has" in done.headline()
    assert done.advice().startswith(f"Only the {owner} calls {LOG}: ")


def test_what_a_module_receives_is_no_weight(compare):
    names = [f"Module.{path}.Linear.forward.0" for path in "ab"]
    first = call([constant(1.0)], [constant(2.0, requires_grad=True)])
    runs = [
        {names[0]: first, names[1]: call([constant(value, requires_grad=True)], [constant(value)])}
        for value in (3.0, 3.5)
    ]

    assert compare(*runs).first_divergence.kind == "unrecorded step"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param(number("float", 1e-5), number("float", 1e-3), id="eps"),
        pytest.param(number("int", 0), number("int", 1), id="dim"),
        pytest.param(number("int", 1000001), number("int", 1000002), id="large"),
        pytest.param(number("bool", True), number("bool", False), id="training"),
    ],
)
def test_another_argument_is_named_where_it_changes_the_output(compare, left, right):
    runs = [
        {
            EXP: call([constant(1.0), number("int", place)], [constant(2.0)]),
            SIN: call([constant(2.0), argument], [constant(output)]),
        }
        for place, argument, output in ((1, left, 3.0), (2, right, 4.0))
    ]

    done = compare(*runs)

    mine, other = left["value"], right["value"]
    found = done.first_divergence
    assert (found.kind, found.record, found.item) == ("argument", SIN, "input.1")
    assert found.values == (str(mine), str(other))
    assert f"{SIN}: called with input.1={mine}, the baseline with {other}" in done.headline()


def test_an_argument_that_came_from_a_tensor_may_be_rounded(compare):
    runs = [{EXP: call([constant(1.0)], [number("float", value)])} for value in (0.1, 0.10000000149)]

    assert compare(*runs).first_divergence is None


def test_the_coarser_of_two_dtypes_decides_what_rounding_is(compare):
    candidate = {EXP: call([constant(1.001, dtype="torch.bfloat16")], [constant(2.001, dtype="torch.bfloat16")])}

    assert compare(candidate, {EXP: call([constant(1.0)], [constant(2.0)])}).first_divergence is None


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param(constant(1.0), constant("inf"), id="finite-inf"),
        pytest.param(constant("inf"), constant("-inf"), id="inf-minus-inf"),
        pytest.param(constant("nan"), constant("inf"), id="nan-inf"),
        pytest.param(tensor(Min="nan"), tensor(), id="nan-min"),
        pytest.param(tensor(Norm="inf"), tensor(), id="inf-norm"),
    ],
)
def test_an_infinity_on_one_side_is_a_warning(compare, left, right):
    done = compare({EXP: call([constant(1.0)], [left])}, {EXP: call([constant(1.0)], [right])})

    assert done.frame["Result"].to_list() == ["", "Warning"]
    assert done.first_divergence.kind == "non-finite" and done.has_differences


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_the_same_on_both_sides_is_none(compare, value):
    runs = [{EXP: call([constant(1.0)], [constant(value)])}] * 2

    done = compare(*runs)

    assert done.frame["Result"].to_list() == ["", ""] and done.first_divergence is None


MASK = {"dtype": "torch.bool", "Mean": None, "Norm": None, "Min": False}


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        pytest.param(tensor(Max=True, **MASK), tensor(Max=False, **MASK), "operator", id="mask"),
        pytest.param(constant(1.0, shape=[2, 1]), constant(1.0), "shape", id="dimensions"),
        pytest.param(constant(1.0, shape=[3]), constant(1.0), "shape", id="shape"),
    ],
)
def test_outputs_that_are_not_alike_are_a_divergence(compare, left, right, kind):
    done = compare({EXP: call([constant(1.0)], [left])}, {EXP: call([constant(1.0)], [right])})

    assert done.first_divergence.kind == kind


@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        pytest.param({LOG: call([constant(1.0)], [constant(2.0)])}, "they have no record in common", id="other-model"),
        pytest.param({}, "they have no record in common", id="empty"),
        pytest.param(
            {EXP: call([tensor(Max=None, Min=None, Mean=None, Norm=None)], [])},
            "their common records hold nothing to compare",
            id="nothing-kept",
        ),
    ],
)
@pytest.mark.parametrize("fail_on", ["any", "divergence"])
def test_runs_that_cannot_be_compared_do_not_agree(tmp_path, candidate, said, fail_on, capsys):
    left = write_dump(tmp_path / "candidate", candidate)
    right = write_dump(tmp_path / "baseline", {EXP: call([constant(1.0)], [constant(2.0)])})

    code = main(["compare", str(left), str(right), "-o", str(tmp_path), "--fail-on", fail_on])

    printed = capsys.readouterr().out
    assert code == 1 and said in printed and "agree" not in printed
    assert "meets the accuracy requirements" not in next(tmp_path.glob("advisor_*")).read_text()


def test_records_of_one_run_alone_are_part_of_the_headline(compare):
    both = {EXP: call([constant(1.0)], [constant(2.0)])}

    done = compare(both | {LOG: call([constant(2.0)], [constant(3.0)])}, both)

    assert done.verdict.kind == "agree"
    assert done.headline().startswith("The runs agree")
    assert done.headline().endswith("; 1 record of one run alone could not be compared.")
    assert done.has_differences


def test_one_run_with_checksums_and_one_without_say_so(compare):
    keys = ("Max", "Min", "Mean", "Norm")
    checked = {key: value for key, value in tensor(md5="12345678").items() if key not in keys}

    done = compare({EXP: call([checked], [checked])}, {EXP: call([constant(1.0)], [constant(2.0)])})

    assert "cannot be compared" in done.headline()
    assert any("have nothing in common" in note for note in done.notes)


@pytest.mark.parametrize(
    ("least", "agrees"), [pytest.param(1e-30, True, id="underflow"), pytest.param(-0.5, False, id="relu")]
)
def test_a_smallest_value_of_zero_is_measured_by_the_largest(compare, least, agrees):
    runs = [{EXP: call([constant(1.0)], [tensor(Min=value)])} for value in (least, 0.0)]

    done = compare(*runs)

    assert (done.first_divergence is None) == agrees
    assert agrees or done.first_divergence.deviation == 0.5


def test_nothing_but_zeros_is_measured_by_what_there_is(compare):
    runs = [{EXP: call([constant(1.0)], [constant(value)])} for value in (1e-30, 0.0)]

    assert compare(*runs).first_divergence is None


def test_tensors_without_a_checksum_do_not_pass(compare):
    checked, unchecked = tensor(md5="12345678"), tensor()

    done = compare(*[{EXP: call([checked, unchecked, None], [checked])}] * 2)

    assert done.frame["Result"].to_list() == ["Pass", "N/A", "Pass", "Pass"]
    assert done.first_divergence is None


def gradients(flowing_in, flowing_out):
    return {"input": flowing_in, "output": flowing_out}


def test_a_gradient_that_is_nothing_but_rounding_is_no_divergence(compare):
    """The bias of a convolution before a batch norm: its gradient is a sum of 40,000 numbers that cancel."""
    backward, optimizer = "Functional.conv2d.0.backward", "Tensor.add_.0.forward"
    runs = []
    for bias in (1e-8, 3e-8):
        large, small = constant(1e-3, shape=[8, 16, 50, 50]), constant(bias, shape=[16])
        runs.append(
            {
                backward: gradients([large], [large, small]),
                optimizer: call([constant(0.5, shape=[16]), small], [constant(0.5, shape=[16])]),
            }
        )

    assert compare(*runs).first_divergence is None


def test_a_wrong_gradient_of_a_bias_is_a_divergence(compare):
    runs = [
        {
            "Functional.conv2d.0.backward": gradients(
                [constant(1e-3, shape=[8, 16, 50, 50])], [constant(bias, shape=[16])]
            )
        }
        for bias in (1e-5, 3e-5)
    ]

    assert compare(*runs).first_divergence.kind == "operator"


@pytest.mark.parametrize("received", [(1.0, 1.0), (1.0, 1.0000001)], ids=["equal", "rounded"])
@pytest.mark.parametrize(("written", "kind"), [((1.0, 1.5), "operator"), ((1.0, 1.0000001), None)])
def test_an_optimizer_is_excused_within_bounds(tmp_path, received, written, kind):
    runs = []
    for name, value, output in zip(("candidate", "baseline"), received, written, strict=True):
        runs.append(
            write_dump(tmp_path / name, {"Tensor.addcdiv_.0.forward": call([constant(value)], [constant(output)])})
        )
        construct = tmp_path / name / "step0" / "rank0" / "construct.json"
        construct.write_text('{"Tensor.addcdiv_.0.forward": "optimizer"}')
    found = torchparity.compare(*runs).first_divergence

    assert (found and found.kind) == kind


def test_bfloat16_hides_less_where_the_inputs_are_equal(compare):
    """Two parts in a hundred are within what rounding makes of rounding, and not of nothing."""

    def run(output):
        low = {"dtype": "torch.bfloat16"}
        return {
            EXP: call([constant(1.0, **low)], [constant(output, **low)]),
            SIN: call([constant(output, **low)], [constant(output, **low)]),
        }

    found = compare(run(1.02), run(1.0)).first_divergence

    assert found.record == EXP and found.kind == "operator"


def test_a_gradient_whose_sources_are_not_recorded_does_not_come_from_equals(compare):
    runs = [
        {"Module.c.Linear.parameters_grad": {"bias": [constant(value, dtype="torch.bfloat16")]}}
        for value in (1.0, 1.02)
    ]

    assert compare(*runs).first_divergence is None


def test_the_advisor_and_the_headline_name_the_same(compare, tmp_path):
    runs = [{EXP: call([constant(1.0)], [constant(output)])} for output in (2.0, 2.001)]
    done = compare(*runs)
    done.write(tmp_path / "tables")

    (advice,) = (tmp_path / "tables").glob("advisor_*.txt")
    assert f"Suspect Nodes: {EXP}.output.0" in advice.read_text()
    assert EXP in done.headline()


def test_an_argument_that_shows_later_alone_is_named(tmp_path):
    """The momentum of a batch norm changes its buffers, which the next step receives."""
    runs = []
    for name, momentum, buffer in (("candidate", 0.2, 2.0), ("baseline", 0.1, 1.0)):
        path = write_dump(tmp_path / name, {EXP: call([constant(1.0), number("float", momentum)], [constant(2.0)])})
        later = path / "step1" / "rank0"
        later.mkdir(parents=True)
        record = {EXP: call([constant(buffer), number("float", momentum)], [constant(buffer)])}
        (later / "dump.json").write_text(json.dumps({"task": "statistics", "level": "L1", "data": record}))
        runs.append(path)

    done = torchparity.compare(*runs)

    assert done.first_divergence.kind == "argument"
    assert done.headline().startswith(f"step 0, rank 0: First difference: {EXP}: called with input.1=0.2")


def test_gradients_of_parameters_that_are_nothing_but_rounding_are_no_divergence(compare):
    large = constant(1e-3, shape=[8, 16, 50, 50])
    runs = [
        {
            "Module.c.Conv2d.backward.0": gradients([large], [large]),
            "Module.c.Conv2d.parameters_grad": {"bias": [constant(bias, shape=[16])]},
        }
        for bias in (1e-8, 3e-8)
    ]

    assert compare(*runs).first_divergence is None


def test_a_table_can_be_a_file_and_its_numbers_numbers(compare, tmp_path):
    runs = [{EXP: call([constant(1.0), None], [constant(output)])} for output in (2.0, 2.5)]
    done = compare(*runs)

    (written,) = done.to_csv(tmp_path / "table.csv")
    assert written == tmp_path / "table.csv" and written.is_file()
    assert done.numbers["Max diff"].to_list() == [0.0, None, -0.5]
    assert done.headline() in repr(done)


@pytest.mark.parametrize(("mean", "agrees"), [(16.911535263, True), (16.9116, False)])
def test_sums_of_integers_may_be_those_of_float32(compare, mean, agrees):
    indices = {"dtype": "torch.int64", "shape": [64], "Max": 63, "Min": 0, "Norm": 150.5}
    runs = [{EXP: call([tensor(**{**indices, "Mean": value})], [constant(1.0)])} for value in (16.911534525, mean)]

    assert compare(*runs).headline().startswith("The runs agree") == agrees


def test_another_largest_integer_is_no_rounding(compare):
    indices = {"dtype": "torch.int64", "shape": [64], "Min": 0, "Mean": 3e9, "Norm": 1e12}
    runs = [{EXP: call([tensor(**{**indices, "Max": value})], [constant(1.0)])} for value in (10**12, 10**12 + 1)]

    assert not compare(*runs).headline().startswith("The runs agree")


@pytest.mark.parametrize("norms", [(-0.5, 0.5), (0.5, -0.5), (-0.5, -0.5)])
def test_the_norm_of_one_number_may_have_its_sign(compare, norms):
    one = {"shape": [1], "Max": -0.5, "Min": -0.5, "Mean": -0.5}
    runs = [{EXP: call([constant(1.0)], [tensor(**{**one, "Norm": value})])} for value in norms]

    assert compare(*runs).headline().startswith("The runs agree")
