"""What `scope`, `list`, `data_mode` and `module_dump` leave out; numbers of calls do not depend on it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.support.runs import names_of
from torchparity import open_run
from torchparity.recording import PrecisionDebugger, capture


def gradients_of(path, step=0):
    return [name for name in open_run(path).part(step=step).records if ".parameters_grad." in name]


def model():
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))


def step_of(net):
    net(torch.ones(1, 2)).sum().backward()


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        pytest.param({}, ["Module.2.Linear.parameters_grad.0", "Module.0.Linear.parameters_grad.0"], id="everything"),
        pytest.param(
            {"scope": ["Module.0.Linear.forward.0", "Module.1.ReLU.forward.0"]},
            ["Module.0.Linear.parameters_grad.0"],
            id="scope",
        ),
        pytest.param({"list": ["Module.2"]}, ["Module.2.Linear.parameters_grad.0"], id="list"),
        pytest.param({"list": ["relu"]}, [], id="list-of-another"),
        pytest.param(
            {"list": ["0.Linear.parameters_grad"]}, ["Module.0.Linear.parameters_grad.0"], id="list-names-the-gradient"
        ),
        pytest.param(
            {"list": ["Linear"], "scope": ["Module.1.ReLU.forward.0", "Module.2.Linear.forward.0"]},
            ["Module.2.Linear.parameters_grad.0"],
            id="scope-and-list",
        ),
    ],
)
@pytest.mark.parametrize("level", ["L0", "mix"])
def test_parameter_gradients_are_of_modules_whose_calls_are_taken(tmp_path, settings, wanted, level):
    net = model()
    with capture(tmp_path, model=net, level=level, **settings) as recording:
        for _ in range(2):
            step_of(net)
            recording.step()

    assert sorted(gradients_of(tmp_path, step=0)) == sorted(gradients_of(tmp_path, step=1)) == sorted(wanted)


def test_a_list_that_matches_nothing_records_nothing(tmp_path, capsys):
    net = model()
    with capture(tmp_path, model=net, list=["rellu"]):
        step_of(net)

    assert capsys.readouterr().out.startswith("torchparity: recorded nothing")


def test_gradients_keep_their_numbers_when_some_are_left_out(tmp_path):
    net = model()
    with capture(tmp_path, model=net, level="L0", scope=["Module.0.Linear.forward.1", "Module.2.Linear.forward.1"]):
        step_of(net)
        step_of(net)

    assert sorted(gradients_of(tmp_path)) == ["Module.0.Linear.parameters_grad.1", "Module.2.Linear.parameters_grad.1"]


def test_within_module_dump_only_that_modules_gradients_are_taken(tmp_path):
    net = model()
    debugger = PrecisionDebugger(dump_path=tmp_path, level="L0")
    debugger.start(net)
    debugger.module_dump(net[0], "chosen")
    step_of(net)
    debugger.module_dump_end()
    debugger.close()

    assert gradients_of(tmp_path) == ["Module.chosen.Linear.parameters_grad.0"]


def test_parameters_of_a_module_that_is_never_called_have_gradients(tmp_path):
    attention = nn.MultiheadAttention(2, 1)  # uses the weights of its out_proj without calling it
    x = torch.ones(1, 1, 2)
    with capture(tmp_path, model=attention, level="L0"):
        attention(x, x, x)[0].sum().backward()

    assert any("out_proj" in name for name in gradients_of(tmp_path))


def test_numbers_do_not_depend_on_what_is_selected(tmp_path):
    x = torch.randn(3)
    with capture(tmp_path, settings={"statistics": {"list": ["Torch.exp.1.forward", "relu"]}}):
        for _ in range(3):
            torch.relu(torch.exp(x))

    assert names_of(tmp_path) == [
        "Torch.relu.0.forward",
        "Torch.exp.1.forward",
        "Torch.relu.1.forward",
        "Torch.relu.2.forward",
    ]


def test_a_scope_is_a_closed_range(tmp_path):
    x = torch.randn(3)
    with capture(tmp_path, settings={"statistics": {"scope": ["Torch.exp.1.forward", "Torch.relu.1.forward"]}}):
        for _ in range(3):
            torch.relu(torch.exp(x))

    assert names_of(tmp_path) == ["Torch.exp.1.forward", "Torch.relu.1.forward"]


def test_data_mode_selects_directions_and_roles(tmp_path):
    x = torch.randn(3, requires_grad=True)
    with capture(tmp_path, settings={"statistics": {"data_mode": ["forward", "output"]}}):
        torch.exp(x).sum().backward()

    part = open_run(tmp_path).part()

    assert names_of(tmp_path, "backward") == []
    assert [item.name for item in part.records["Torch.exp.0.forward"].items()] == ["output.0"]


def test_a_module_called_backward_can_be_asked_for(tmp_path):
    model = nn.ModuleDict({"backward_net": nn.Linear(2, 2)})
    wanted = "Module.backward_net.Linear.backward.0"
    with capture(tmp_path, model=model, level="L0", settings={"statistics": {"list": [wanted]}}):
        model["backward_net"](torch.ones(1, 2)).sum().backward()

    assert wanted in open_run(tmp_path).part().records


def test_backward_alone_leaves_no_empty_forward_records(tmp_path):
    x = torch.ones(3, requires_grad=True)
    with capture(tmp_path, model=nn.Linear(3, 2), level="mix", data_mode=["backward"]):
        (x * 2).exp().sum().backward()

    records = open_run(tmp_path).part().records
    assert records and not any(".forward" in name for name in records)
