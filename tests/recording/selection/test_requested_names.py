"""Names that cannot come up are refused at start."""

from __future__ import annotations

import pytest
import torch

from tests.support.models import linear_and_relu
from tests.support.runs import names_of
from torchparity import ParityError, open_run
from torchparity.errors import ConfigError
from torchparity.recording import capture


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        pytest.param(
            {"list": ["Module.0.Linaer.forward.0"], "level": "L0"},
            ["'Module.0.Linaer.forward.0'", "Did you mean 'Module.0.Linear.forward.0'?"],
            id="module-in-list",
        ),
        pytest.param(
            {"scope": ["Module.0.Linear.forward.0", "Module.7.ReLU.forward.2"], "level": "mix"},
            ["'Module.7.ReLU.forward.2'", "Did you mean 'Module.1.ReLU.forward.2'?"],
            id="module-in-scope",
        ),
        pytest.param(
            {"tensor_list": ["Functional.linaer.0.forward"], "level": "mix"},
            ["'Functional.linaer.0.forward'", "Did you mean 'Functional.linear.0.forward'?"],
            id="api-in-tensor-list",
        ),
        pytest.param(
            {"scope": ["Torch.exp.0.forward", "Tensor.ad.3.backward"]}, ["'Tensor.ad.3.backward'"], id="api-in-scope"
        ),
        pytest.param({"list": ["Lineer"], "level": "L0"}, ["'Lineer'"], id="part-of-a-module-name"),
        pytest.param({"list": ["Torch.exp.0.forward"], "level": "L0"}, ["'L0'", "'mix'"], id="api-at-L0"),
        pytest.param(
            {"scope": ["Module.0.Linear.forward.0", "Module.1.ReLU.forward.0"], "level": "L1"},
            ["'Module.0.Linear.forward.0'", "'L1' records APIs only", "'L0' or 'mix'"],
            id="module-in-scope-at-L1",
        ),
        pytest.param(
            {"list": ["Module.0.Linear.backward.0"], "level": "L1"}, ["'L0' or 'mix'"], id="backward-of-a-module-at-L1"
        ),
        pytest.param({"list": ["Module.0"], "level": "L1"}, ["'Module.0'", "'L0' or 'mix'"], id="part-at-L1"),
        pytest.param(
            {"tensor_list": ["Module.0.Linear.forward.0"], "level": "L1"}, ["'L0' or 'mix'"], id="tensor-list-at-L1"
        ),
        pytest.param(
            {"scope": ["Torch.exp.2.forward", "Torch.exp.1.forward"]},
            ["'Torch.exp.2.forward'", "comes after", "swap them"],
            id="reversed-apis",
        ),
        pytest.param(
            {"scope": ["Module.0.Linear.forward.10", "Module.0.Linear.forward.9"], "level": "L0"},
            ["'Module.0.Linear.forward.10'", "swap them"],
            id="reversed-calls-of-a-module",
        ),
        pytest.param(
            {"scope": ["Torch.exp.0.backward", "Torch.exp.1.forward"]},
            ["'Torch.exp.0.backward'", "use 'Torch.exp.0.forward'"],
            id="scope-from-a-backward",
        ),
    ],
)
def test_a_name_that_cannot_come_up_is_refused_at_start(tmp_path, settings, wanted):
    with pytest.raises(ConfigError) as raised, capture(tmp_path / "run", model=linear_and_relu(), **settings):
        pass

    for text in wanted:
        assert text in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_a_module_cannot_be_asked_for_without_a_model(tmp_path):
    with (
        pytest.raises(ConfigError, match="start\\(\\) needs the model"),
        capture(tmp_path, list=["Module.0.Linear.forward.0"]),
    ):
        pass


def test_a_module_in_the_list_selects_the_apis_inside_it_at_L1_too(tmp_path):
    net = linear_and_relu()
    with capture(tmp_path, model=net, level="L1", list=["Module.1.ReLU.forward.0"]):
        net(torch.ones(1, 2))

    assert list(open_run(tmp_path).part().records) == ["Functional.relu.0.forward"]


@pytest.mark.parametrize("scope", [["Torch.exp.1.forward"] * 2, ["Torch.exp.9.forward", "Torch.exp.10.forward"]])
def test_a_scope_in_order_is_not_refused(tmp_path, scope):
    x = torch.ones(1)
    with capture(tmp_path, scope=scope):
        for _ in range(11):
            torch.exp(x)

    assert names_of(tmp_path) == list(dict.fromkeys(scope))


def test_parts_of_names_and_foreign_names_are_not_refused(tmp_path):
    names = ["reluu", "Mine.fused.0.forward", "NPU.npu_gelu.0.forward", "Module.0"]
    model = linear_and_relu()
    with capture(tmp_path, model=model, list=names):
        torch.exp(torch.ones(1))
        model(torch.ones(1, 2))

    assert names_of(tmp_path) == ["Module.0.Linear.forward.0"]


def test_a_scope_cannot_end_in_a_backward(tmp_path):
    scope = ["Functional.relu.0.forward", "Functional.linear.0.backward"]
    with (
        pytest.raises(ParityError, match=r"scope ends with .* use 'Functional.linear.0.forward'"),
        capture(tmp_path, level="L1", scope=scope),
    ):
        pass
