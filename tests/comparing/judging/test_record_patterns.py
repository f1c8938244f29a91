"""Patterns that name records, and the refusal of those that name none."""

from __future__ import annotations

import pytest

from tests.support.runs import write_linear_run
from torchparity import compare
from torchparity.comparing.judging.limits import Limits
from torchparity.comparing.judging.record_patterns import matches
from torchparity.errors import ConfigError

LINEAR, BLOCK = "Functional.linear.0.forward", "Module.layers.0.mlp.MLP.forward.0"
ENCLOSING = {LINEAR: "Module.layers.0.mlp.up.Linear.forward.0", "Module.layers.0.mlp.up.Linear.forward.0": BLOCK}


@pytest.mark.parametrize(
    ("pattern", "record", "expected"),
    [
        pytest.param(LINEAR, LINEAR, True, id="record"),
        pytest.param("Functional.linear.1.forward", LINEAR, False, id="another-call"),
        pytest.param("Functional.linear", LINEAR, False, id="part-of-a-record"),
        pytest.param("layers.0.mlp", BLOCK, True, id="module"),
        pytest.param("layers.0.mlp.MLP", BLOCK, True, id="module-with-its-class"),
        pytest.param("layers.0.mlp", LINEAR, True, id="inside-of-a-module"),
        pytest.param("layers.0", LINEAR, True, id="deep-inside"),
        pytest.param("layers.0.ml", BLOCK, False, id="part-of-a-path"),
        pytest.param("layers.1", LINEAR, False, id="another-module"),
        pytest.param("*.linear.*", LINEAR, True, id="shell-pattern"),
        pytest.param("*.linear.?.backward", LINEAR, False, id="shell-pattern-of-others"),
        pytest.param("layers.*.mlp", LINEAR, True, id="shell-pattern-of-modules"),
    ],
)
def test_a_pattern_names_a_record_or_what_it_lies_in(pattern, record, expected):
    assert matches(pattern, record, ENCLOSING) == expected


def test_modules_that_enclose_each_other_end():
    assert not matches("c", "Module.a.A.forward.0", {"Module.a.A.forward.0": "Module.a.A.forward.0"})


@pytest.mark.parametrize("option", ["ignore", "after"])
def test_a_pattern_that_names_nothing_is_refused_with_the_nearest(option, tmp_path):
    run = write_linear_run(tmp_path / "run")
    pattern = "Functional.lienar.0.forward"

    with pytest.raises(ConfigError, match=r"names no record and no module .* Did you mean 'Functional\.linear\.0\.fo"):
        compare(run, run, **{option: [pattern] if option == "ignore" else pattern})
    with pytest.raises(ConfigError, match="Did you mean 'fc'"):
        compare(run, run, **{option: "fcc"})


@pytest.mark.parametrize("tolerance", [-1e-3, float("nan"), float("inf")])
def test_a_tolerance_that_is_no_deviation_is_refused(tolerance, tmp_path):
    run = write_linear_run(tmp_path / "run")

    with pytest.raises(ConfigError, match="is no relative deviation; give a number from 0 on"):
        compare(run, run, tolerance=tolerance)


@pytest.mark.parametrize("pattern", ["layers", "layers.0.mlp", "layers.0.mlp.MLP", "layers.*.mlp", LINEAR])
def test_the_judge_goes_past_what_is_not_refused(pattern):
    assert Limits(ignore=(pattern,)).ignores(LINEAR, ENCLOSING)
