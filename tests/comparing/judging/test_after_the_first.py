"""Programs with two faults or other environments: what is told beside the first answer, and how to go past it."""

from __future__ import annotations

import contextlib
import json
import re

import pytest
import torch
from torch import nn

import torchparity
from tests.faultbed.plant import wrong_output
from tests.support.golden import needs_golden
from tests.support.planting import planted
from torchparity.cli import main

FIRST, SECOND = "Functional.gelu.0.forward", "Torch.tanh.0.forward"


class Branches(nn.Module):
    """Two branches that do not meet before the loss."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        return nn.functional.gelu(self.left(x)), torch.tanh(self.right(x))


def two_branches(*factors):
    """Return a program in which gelu and tanh return so many times what they should."""

    def program():
        model, x = Branches(), torch.randn(4, 16)
        changes = [wrong_output(lambda y, factor=factor: y * factor) for factor in factors] or [None, None]

        def step():
            with planted(FIRST, changes[0]), planted(SECOND, changes[1]):
                left, right = model(x)
                (left.square().mean() + right.square().mean()).backward()

        return model, step

    return program


@pytest.fixture(params=["statistics", "tensor"])
def runs(request, record, capsys):
    paths = [
        str(record("candidate", two_branches(1.01, 1.002), task=request.param)),
        str(record("baseline", two_branches(), task=request.param)),
    ]
    capsys.readouterr()
    return paths


def test_the_second_fault_is_told_beside_the_first(runs, capsys):
    main(["compare", *runs])

    first, *others = capsys.readouterr().out.splitlines()
    assert FIRST in first
    also = [line for line in others if line.startswith("Also: ")]
    assert len(also) == 1 and SECOND in also[0]


@pytest.mark.parametrize("option", ["--ignore", "--after"])
@pytest.mark.parametrize("pattern", [FIRST, "*gelu*"])
def test_going_past_the_first_leads_to_the_second(runs, option, pattern, capsys):
    main(["compare", *runs, option, pattern])

    assert f"First divergence: {SECOND} " in capsys.readouterr().out.splitlines()[0]


def test_going_past_both_leads_to_an_agreement(runs, capsys):
    code = main(["compare", *runs, "--ignore", FIRST, "--ignore", SECOND, "--fail-on", "divergence"])

    assert code == 0 and capsys.readouterr().out.startswith("The runs agree")


@pytest.mark.parametrize(("tolerance", "named"), [("0.005", FIRST), ("0.05", None)])
def test_a_tolerance_takes_larger_deviations_for_rounding(runs, tolerance, named, capsys):
    code = main(["compare", *runs, "--tolerance", tolerance, "--fail-on", "divergence", "--json"])

    told = json.loads(capsys.readouterr().out)
    assert told["also"] == [] and code == (named is not None)
    assert (told["first"] or {"record": None})["record"] == named


def test_losses_of_both_runs_are_told(runs, capsys):
    main(["compare", *runs])

    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step 0: loss ")]
    mine, other = map(float, re.findall(r"[\d.]+(?:e-?\d+)?", line.removeprefix("step 0: loss ")))
    assert mine != other and mine == pytest.approx(other, rel=0.1)


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def test_an_environment_that_bears_on_the_answer_is_told(record, tmp_path, capsys):
    with deterministic():
        record("candidate", two_branches(1.01, 1.002))
    record("baseline", two_branches())

    found = torchparity.compare(tmp_path / "candidate", tmp_path / "baseline").verdict
    main(["show", str(tmp_path / "candidate")])

    assert any("deterministic algorithms are on in the candidate alone" in remark for remark in found.remarks)
    shown = capsys.readouterr().out.partition("environment")[2]
    assert re.search(r"^ *deterministic +on", shown, re.MULTILINE), shown
    assert torch.__version__ in shown


def test_the_same_environment_is_no_remark(runs):
    assert torchparity.compare(*runs).verdict.remarks == ()


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("epsilon", [1.001e-5, 2e-12], ids=["rounding", "no effect"])
def test_another_argument_is_told_however_small_its_effect(verdict, task, epsilon):
    def program(eps):
        model, x = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16, eps=eps), nn.Linear(16, 4)), torch.randn(4, 16)
        return model, lambda: model(x).square().mean().backward()

    other = 1e-5 if epsilon > 1e-6 else 1e-12
    found = verdict(lambda: program(epsilon), lambda: program(other), task=task)

    (told,) = [text for text in (found.sentence, *found.remarks) if "eps" in text]
    assert "Functional.layer_norm.0.forward" in told and str(epsilon) in told and str(other) in told


@needs_golden
@pytest.mark.parametrize("model", ["att-statistics-mix", "att-tensor-mix", "conv-tensor-L1"])
@pytest.mark.parametrize("fault", ["extra", "perturb"])
def test_runs_without_data_flow_say_that_content_was_matched(golden, model, fault):
    found = torchparity.compare(golden / "runs" / f"{model}-{fault}", golden / "runs" / f"{model}-base").verdict

    assert not found.first.is_certain
    assert "tell no data flow, so this is matched by content" in found.sentence


def test_runs_with_data_flow_do_not(runs):
    assert "matched by content" not in torchparity.compare(*runs).headline()


def chain(factor, epsilon, approximate):
    """Return a program in which tanh returns so many times what it should, with a norm and a gelu behind it."""

    def program():
        model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.LayerNorm(16, eps=epsilon), nn.GELU(approximate))
        x = torch.randn(4, 16)

        def step():
            with planted(SECOND, wrong_output(lambda y: y * factor) if factor != 1 else None):
                model(x / x.max().item()).square().mean().backward()

        return model, step

    return program


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize(
    ("epsilon", "approximate", "named"),
    [
        (1e-3, "none", "Functional.layer_norm.0.forward in Module.2.LayerNorm.forward.0: called with input.eps=0.001"),
        (1e-5, "tanh", "Functional.gelu.0.forward in Module.3.GELU.forward.0: called with input.approximate='tanh'"),
        (1e-5, "none", "The runs agree"),
    ],
)
def test_an_argument_behind_what_is_ignored_is_named(record, task, epsilon, approximate, named, capsys):
    paths = [
        str(record("candidate", chain(1.5, epsilon, approximate), task=task)),
        str(record("baseline", chain(1, 1e-5, "none"), task=task)),
    ]
    capsys.readouterr()

    main(["compare", *paths, "--ignore", SECOND])

    assert named in capsys.readouterr().out.splitlines()[0]


class Behind(nn.Module):
    """A layer whose result tanh changes, and what becomes of it."""

    def __init__(self, end):
        super().__init__()
        self.first, self.end = nn.Linear(16, 16), end

    def forward(self, x):
        return self.end(torch.tanh(self.first(x)))


def behind(factor, end):
    def program():
        model, x = Behind(end), torch.randn(4, 16)

        def step():
            with planted(SECOND, wrong_output(lambda y: y * factor) if factor != 1 else None):
                model(x).square().mean().backward()

        return model, step

    return program


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda y: y * y.detach().max().item(), id="item"),
        pytest.param(lambda y: y * float(y.detach().max()), id="float"),
        pytest.param(lambda y: y * int(1000 * y.detach().max()), id="int"),
        pytest.param(lambda y: y * y.detach().max().tolist(), id="list"),
        pytest.param(lambda y: y * float(y.detach().numpy().max()), id="numpy"),
        pytest.param(lambda y: y * len(y[y > 0.6]), id="shape"),
    ],
)
def test_a_number_that_follows_from_what_is_ignored_is_no_difference(record, task, end, capsys):
    paths = [str(record(name, behind(factor, end), task=task)) for name, factor in (("a", 1.5), ("b", 1))]
    capsys.readouterr()

    main(["compare", *paths, "--ignore", SECOND])

    assert capsys.readouterr().out.startswith("The runs agree")


class Scaled(nn.Module):
    def forward(self, values, factor):
        return values * factor


class ScaledByItself(nn.Module):
    """Reads a number out of a tensor and hands it to a module."""

    def __init__(self):
        super().__init__()
        self.scaled = Scaled()

    def forward(self, values):
        return self.scaled(values, values.detach().max().item())


def test_a_number_that_was_read_unrecorded_is_no_difference(record, capsys):
    settings = {"statistics": {"list": ["tanh", "linear", "mul"]}}
    programs = [("a", behind(1.5, ScaledByItself())), ("b", behind(1, ScaledByItself()))]
    paths = [str(record(name, program, level="L1", settings=settings)) for name, program in programs]
    capsys.readouterr()

    assert main(["compare", *paths, "--ignore", SECOND]) == 0

    assert "called with" not in capsys.readouterr().out


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize(
    ("wrong", "right", "named"),
    [
        pytest.param(lambda y: y.softmax(0), lambda y: y.softmax(1), "input.1=0", id="dim"),
        pytest.param(lambda y: y * 3, lambda y: y * 2, "input.1=3", id="whole number"),
        pytest.param(lambda y: y * 0.5, lambda y: y * 1.0, "input.1=0.5", id="fraction"),
        pytest.param(lambda y: y / 7**0.5, lambda y: y / 2.0, "input.1=2.6457513110645907", id="many digits"),
    ],
)
def test_a_number_that_nothing_was_read_for_is_named_behind_what_is_ignored(record, task, wrong, right, named, capsys):
    paths = [str(record("a", behind(1.5, wrong), task=task)), str(record("b", behind(1, right), task=task))]
    capsys.readouterr()

    main(["compare", *paths, "--ignore", SECOND])

    assert f"called with {named}, the baseline with" in capsys.readouterr().out.splitlines()[0]
