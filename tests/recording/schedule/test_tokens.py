"""token_range: some of the calls that an inference makes of its model."""

from __future__ import annotations

import copy
import threading
import types

import msgspec
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from torchparity import ParityError, open_run
from torchparity.recording import PrecisionDebugger, capture


@pytest.fixture
def debugger(tmp_path):
    yield PrecisionDebugger(dump_path=str(tmp_path), task="tensor", level="mix")
    PrecisionDebugger.close()


def decode(model, tokens):
    """Call the model once for each token, and do something with what it returns."""
    x = torch.ones(1, 2)
    torch.sin(x)
    for token in range(tokens):
        torch.cos(model(x * token))


def without_origins(record):
    """Return the items of a record; origins are numbers of records, of which a part has fewer."""
    return record.replace_tensors(lambda name, leaf: msgspec.structs.replace(leaf, origin=None)).items()


def received(path, record):
    part = open_run(path).part()
    return part.tensor(part.records[record].input_args[0]).array.ravel().tolist()


def test_the_calls_in_the_range_are_recorded_and_what_follows_each(tmp_path, debugger):
    model = nn.Sequential(nn.Linear(2, 2))
    debugger.start(model, token_range=[1, 2])
    decode(model, 5)
    debugger.stop()
    debugger.step()
    PrecisionDebugger.close()

    records = open_run(tmp_path).part().records
    assert received(tmp_path, "Module.Sequential.forward.1") == [1, 1]
    assert received(tmp_path, "Module.0.Linear.forward.2") == [2, 2]
    assert [name for name in records if "Module.Sequential" in name] == [
        f"Module.Sequential.forward.{n}" for n in (1, 2)
    ]
    assert [name for name in records if name.startswith("Torch.cos")] == ["Torch.cos.1.forward", "Torch.cos.2.forward"]
    assert not any(name.startswith("Torch.sin") for name in records)  # it came before
    assert not model._forward_pre_hooks


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_range_that_the_inference_does_not_reach_records_nothing(tmp_path, level, capsys):
    model = nn.Sequential(nn.Linear(2, 2))
    with capture(tmp_path, model=model, level=level, token_range=(7, 9)):
        decode(model, 3)

    line = capsys.readouterr().out
    assert "recorded nothing" in line and "token_range [7, 9] was not reached: 3 calls of the model came" in line
    assert not model._forward_pre_hooks and torch._C._len_torch_function_stack() == 0


def test_each_start_counts_from_0(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2))
    with capture(tmp_path, model=model, level="L0", task="tensor", token_range=(1, 1)) as recording:
        decode(model, 3)
        recording.step()
        decode(model, 2)

    run = open_run(tmp_path)
    assert run.steps == [0, 1]
    for step in run.steps:
        part = run.part(step=step)
        assert [name for name in part.records if "Sequential" in name] == ["Module.Sequential.forward.1"]


def test_what_changed_before_the_range_is_looked_at(tmp_path):
    model, x = nn.Identity(), torch.ones(2)
    with capture(tmp_path, model=model, level="L0", task="tensor", token_range=[1, 1]):
        model(x)
        x.data.fill_(5)
        model(x)

    assert received(tmp_path, "Module.Identity.forward.1") == [5, 5]


def test_a_copy_of_the_model_does_not_count(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2))
    with capture(tmp_path, model=model, level="L0", task="tensor", token_range=[0, 0]):
        copy.deepcopy(model)(torch.zeros(1, 2))
        model(torch.ones(1, 2))

    assert received(tmp_path, "Module.Sequential.forward.0") == [1, 1]


@pytest.mark.parametrize("wanted", [3, [1], [2, 1], [-1, 2], ["0", "1"], [0, 1, 2], [True, True]])
def test_what_is_no_range_is_refused(debugger, wanted):
    with pytest.raises(ParityError, match=r"token_range is .* it must be \[first, last\]"):
        debugger.start(nn.Identity(), token_range=wanted)


def test_a_range_needs_the_model(tmp_path):
    with (
        pytest.raises(ParityError, match="token_range counts the calls of the model"),
        capture(tmp_path, level="L1", token_range=[0, 1]),
    ):
        pass


def test_numbers_are_those_of_the_whole_inference(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2))
    with capture(tmp_path / "whole", model=model):
        decode(model, 5)
    with capture(tmp_path / "part", model=model, token_range=[2, 3]):
        decode(model, 5)

    whole, part = (open_run(tmp_path / name).part() for name in ("whole", "part"))
    assert part.records and part.records.keys() < whole.records.keys()
    for name, record in part.records.items():
        assert without_origins(record) == without_origins(whole.records[name])


def test_gradients_are_those_of_the_range(tmp_path):
    model = nn.Linear(2, 2)
    with capture(tmp_path, model=model, level="L0", task="tensor", token_range=[1, 1]) as recording:
        model(torch.ones(1, 2)).sum().backward()
        recording.step()
        for token in range(3):
            model.zero_grad()
            model(torch.full((1, 2), 10.0 * (token + 1))).sum().backward()

    run = open_run(tmp_path)
    assert run.steps == [1]
    part = run.part(step=1)
    gradients = [record for name, record in part.records.items() if "parameters_grad" in name]
    assert [part.tensor(record.gradients["weight"]).array.max() for record in gradients] == [20]


def test_a_range_may_end_in_another_thread(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2))
    with capture(tmp_path, model=model, token_range=[0, 0]):
        other = threading.Thread(target=decode, args=(model, 3))
        other.start()
        other.join()

    assert torch._C._len_torch_function_stack() == 0
    assert "Module.Sequential.forward.0" in open_run(tmp_path).part().records


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_what_is_recomputed_is_no_token(tmp_path, use_reentrant):
    model = nn.Sequential(nn.Linear(2, 2))
    with capture(tmp_path, model=model, level="L0", task="tensor", token_range=[1, 1]):
        for token in range(3):
            x = torch.full((1, 2), float(token), requires_grad=True)
            checkpoint(model, x, use_reentrant=use_reentrant).sum().backward()

    assert torch._C._len_torch_function_stack() == 0
    assert received(tmp_path, "Module.Sequential.forward.1") == [1, 1]
    assert "Module.Sequential.forward.2" not in open_run(tmp_path).part().records


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("make", [list, lambda: torch.jit.script(nn.Identity())])
def test_a_model_whose_calls_cannot_be_counted_is_refused(tmp_path, make):
    model = make()
    with pytest.raises(ParityError, match="model"), capture(tmp_path, model=model, token_range=[0, 1]):
        pass

    assert torch._C._len_torch_function_stack() == 0


class WithHelper(nn.Module):
    def __init__(self, library):
        super().__init__()
        self.library, self.fc = library, nn.Linear(3, 3)

    def forward(self, x):
        return torch.add(self.fc(self.library.shift(x)), 2).sum()


def shifting():
    library = types.SimpleNamespace(shift=lambda x: torch.add(x, 1), __name__="lib")
    return library, WithHelper(library)


def train(model):
    for token in range(3):
        model.zero_grad()
        model(torch.full((1, 3), float(token))).backward()


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_names_are_those_of_the_whole_training_with_functions_of_ones_own(tmp_path, level):
    library, model = shifting()
    parts = {}
    for name, wanted in (("whole", None), ("part", [1, 1])):
        debugger = PrecisionDebugger(dump_path=str(tmp_path / name), level=level)
        debugger.register_custom_api(library, "shift", "lib")
        debugger.start(model, token_range=wanted)
        train(model)
        debugger.stop()
        debugger.step()
        PrecisionDebugger.close()
        parts[name] = open_run(tmp_path / name).part()

    assert parts["part"].records.keys() < parts["whole"].records.keys()
    for name, record in parts["part"].records.items():
        assert without_origins(record) == without_origins(parts["whole"].records[name]), name


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_names_are_those_of_the_whole_while_one_module_is_recorded_alone(tmp_path, level):
    library, model = shifting()
    parts = {}
    for name in ("whole", "part"):
        debugger = PrecisionDebugger(dump_path=str(tmp_path / name), level="mix" if name == "whole" else level)
        debugger.register_custom_api(library, "shift", "lib")
        model.zero_grad()
        debugger.start(model)
        if name == "part":
            debugger.module_dump(model.fc, "fc")
        model(torch.ones(1, 3)).backward()
        if name == "part":
            debugger.module_dump_end()
        model.zero_grad()
        model(torch.ones(1, 3)).backward()
        debugger.stop()
        debugger.step()
        PrecisionDebugger.close()
        parts[name] = open_run(tmp_path / name).part()

    assert parts["part"].problems == []
    assert {"Module.fc.Linear.forward.0", "Module.fc.Linear.parameters_grad.0"} <= parts["part"].records.keys()
    assert parts["part"].records.keys() < parts["whole"].records.keys()
    for name, record in parts["part"].records.items():
        assert without_origins(record) == without_origins(parts["whole"].records[name]), name


def test_a_range_that_was_reached_in_every_step_is_not_said_to_lack(tmp_path, capsys):
    model = nn.Linear(3, 3)
    with capture(tmp_path, model=model, token_range=[0, 1]) as recording:
        for _ in range(2):
            for _ in range(3):
                model(torch.ones(2, 3))
            recording.step()

    assert "incomplete" not in capsys.readouterr().out
