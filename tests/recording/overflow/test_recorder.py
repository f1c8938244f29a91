"""Task overflow_check: which calls are recorded, and what of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import checkpoint

from torchparity import PrecisionDebugger, capture, open_run
from torchparity.errors import ConfigError
from torchparity.records import TensorLeaf

HUGE = torch.tensor([1e300], dtype=torch.float64)
LARGE = torch.full((2, 2), 300.0, dtype=torch.float16)


def leaf(value, dtype=torch.float32):
    return torch.tensor(value, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize(
    ("program", "records"),
    [
        pytest.param(lambda: torch.matmul(LARGE, LARGE), ["Torch.matmul.0.forward"], id="a-product-too-large"),
        pytest.param(lambda: torch.log(torch.zeros(3)), ["Torch.log.0.forward"], id="infinite-by-definition"),
        pytest.param(lambda: LARGE.clone().mul_(LARGE), ["Tensor.mul_.0.forward"], id="in-place"),
        pytest.param(
            lambda: torch.mul(LARGE, LARGE, out=torch.full_like(LARGE, torch.nan)), ["Torch.mul.0.forward"], id="out"
        ),
        pytest.param(lambda: HUGE.to(torch.float32), ["Tensor.to.0.forward"], id="a-conversion"),
        pytest.param(lambda: torch.zeros(1).__setitem__(0, HUGE[0]), ["Tensor.__setitem__.0.forward"], id="an-entry"),
        pytest.param(
            lambda: torch.view_as_complex(torch.full((2, 2), 1e30)) ** 2, ["Tensor.__pow__.0.forward"], id="complex"
        ),
        pytest.param(lambda: torch.matmul(LARGE, LARGE).relu().sum(), ["Torch.matmul.0.forward"], id="what-follows"),
        pytest.param(lambda: torch.full((2,), -torch.inf), [], id="asked-for-by-a-number"),
        pytest.param(lambda: LARGE.masked_fill(LARGE > 0, -torch.inf), [], id="a-mask"),
        pytest.param(lambda: torch.exp(LARGE.float() / 10), [], id="large-and-finite"),
        pytest.param(
            lambda: torch.empty(2, dtype=torch.int16).fill_(0x7C00).view(torch.float16) + 1, [], id="from-memory"
        ),
        pytest.param(lambda: LARGE.int() * 1000, [], id="whole-numbers"),
    ],
)
def test_a_forward_call_is_recorded_where_it_makes_what_is_not_finite(overflowing, program, records):
    assert [name for names in overflowing(program).values() for name in names] == records


def nested():
    return torch.nested.nested_tensor([torch.tensor([1.0, 0.0]), torch.tensor([2.0])])


@pytest.mark.filterwarnings("ignore:.*prototype:UserWarning")
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(lambda: torch.log(torch.ones(2, 2).to_sparse()._values()), id="values-of-sparse"),
        pytest.param(lambda: torch.relu(torch.eye(2).to_sparse()), id="sparse"),
        pytest.param(lambda: torch.nn.functional.relu(nested()), id="nested"),
        pytest.param(lambda: torch.exp(torch.ones(2, device="meta")), id="meta"),
        pytest.param(lambda: torch.func.vmap(torch.exp)(torch.ones(2, 2)), id="vmap"),
        pytest.param(lambda: torch.func.grad(lambda x: torch.exp(x).sum())(torch.ones(2)), id="grad-transform"),
        pytest.param(lambda: torch.ones(2).to(torch.float8_e4m3fn), id="eight-bits"),
        pytest.param(lambda: torch.exp(torch.ones(0)), id="empty"),
        pytest.param(lambda: torch.exp(torch.ones(1).expand(1 << 40)[:2]), id="expanded"),
        pytest.param(lambda: torch.inference_mode()(torch.exp)(torch.ones(2)), id="inference"),
    ],
)
def test_tensors_of_every_kind_are_looked_at_without_a_complaint(overflowing, caplog, program):
    assert overflowing(program) == {}
    assert not caplog.records, caplog.text


def test_memory_that_nobody_has_written_is_no_overflow(overflowing):
    torch.full((1 << 12,), torch.nan)  # what `empty` may be given next

    assert overflowing(lambda: [torch.empty(1 << 12) for _ in range(8)]) == {}


def test_arguments_and_result_are_kept_with_their_values(overflowing, tmp_path):
    x = LARGE.clone()
    overflowing(lambda: x.mul_(LARGE))

    part = open_run(tmp_path / "run").part()
    values = {name: tensor.array.astype(np.float32).tolist() for name, tensor in part.values()}
    assert values["Tensor.mul_.0.forward.input.0"] == [[300.0] * 2] * 2
    assert values["Tensor.mul_.0.forward.output.0"] == [[np.inf] * 2] * 2
    assert part.info.task == "overflow_check"
    assert "test_recorder.py" in part.stack_of("Tensor.mul_.0.forward")[0]
    assert part.verify() == []


@pytest.mark.parametrize(
    ("program", "records"),
    [
        pytest.param(
            lambda: torch.sqrt(leaf([0.0, 1.0])).sum().backward(),
            ["Torch.sqrt.0.forward", "Torch.sqrt.0.backward"],
            id="infinite-slope",
        ),
        pytest.param(
            lambda: torch.mul(leaf([3e4], torch.float16), 3e4).mul(0.0).sum().backward(),
            ["Torch.mul.0.forward"],
            id="its-forward-did-before",
        ),
        pytest.param(
            lambda: torch.mul(leaf([1e-4], torch.float16), 6e4).backward(torch.full((1,), 6e4).half()),
            ["Torch.mul.0.forward", "Torch.mul.0.backward"],
            id="a-product-of-slopes",
        ),
        pytest.param(lambda: (leaf([1.0]) * 2).sum().backward(torch.tensor(torch.inf)), [], id="infinite-from-outside"),
    ],
)
def test_a_backward_call_is_recorded_with_the_arguments_of_its_forward(overflowing, program, records):
    assert [name for names in overflowing(program).values() for name in names] == records


def test_gradients_and_forward_arguments_have_values(overflowing, tmp_path):
    overflowing(lambda: torch.sqrt(leaf([0.0, 1.0])).sum().backward())

    part = open_run(tmp_path / "run").part()
    values = {name: tensor.array.tolist() for name, tensor in part.values()}
    assert values["Torch.sqrt.0.forward.input.0"] == [0.0, 1.0]
    assert values["Torch.sqrt.0.backward.input.0"] == [1.0, 1.0]
    assert values["Torch.sqrt.0.backward.output.0"] == [np.inf, 0.5]
    output = part.records["Torch.sqrt.0.forward"].output[0]
    assert isinstance(output, TensorLeaf)
    assert output.statistics is None


def test_arguments_that_were_overwritten_before_backward_are_recorded_without_numbers(overflowing, tmp_path):
    def program():
        hidden = leaf([1e-4], torch.float16) * 1.0
        made = torch.mul(hidden, 6e4)
        hidden.add_(1.0)
        made.backward(torch.full((1,), 6e4).half())

    assert overflowing(program) == {0: ["Torch.mul.0.forward", "Torch.mul.0.backward"]}
    part = open_run(tmp_path / "run").part()
    tensor, factor = part.records["Torch.mul.0.forward"].input_args
    assert (tensor.dtype, tensor.statistics, factor.value) == ("torch.float16", None, 6e4)
    assert part.verify() == []


def test_what_backward_is_done_with_is_let_go(overflowing):
    is_gone = []

    def program():
        hidden = leaf([1.0, 2.0]) * 2.0
        memory = StorageWeakRef(hidden.untyped_storage())
        made = torch.exp(hidden + 1.0).sum()
        del hidden
        is_gone.append(memory.expired())
        made.backward()
        is_gone.append(memory.expired())

    overflowing(program)

    assert is_gone == [False, True]


def test_a_second_pass_through_a_graph_is_looked_at_too(overflowing):
    def program():
        made = torch.mul(leaf([1e-4], torch.float16), 6e4)
        made.backward(torch.ones(1).half(), retain_graph=True)
        made.backward(torch.full((1,), 6e4).half())

    assert overflowing(program) == {0: ["Torch.mul.0.forward", "Torch.mul.0.backward#2"]}


def checkpointed(use_reentrant, is_gone):
    def block(x):
        hidden = x * 1.0
        is_gone.append(StorageWeakRef(hidden.untyped_storage()))
        return torch.sqrt(hidden) * 2

    def program():
        made = checkpoint(block, leaf([0.0, 1.0]), use_reentrant=use_reentrant)
        is_gone[:] = [memory.expired() for memory in is_gone]
        made.sum().backward()

    return program


def test_a_call_that_reentrant_checkpointing_recomputes_is_recorded_under_that_name(overflowing):
    names = overflowing(checkpointed(True, []))[0]

    assert names == ["Torch.sqrt.0.forward#recompute", "Torch.sqrt.0.backward#recompute"]


def test_what_checkpointing_does_not_save_is_not_kept_alive(overflowing, tmp_path):
    is_gone = []

    assert overflowing(checkpointed(False, is_gone)) == {0: ["Torch.sqrt.0.forward", "Torch.sqrt.0.backward"]}
    assert is_gone[0]
    argument = open_run(tmp_path / "run").part().records["Torch.sqrt.0.forward"].input_args[0]
    assert (argument.shape, argument.statistics, argument.data_name) == ((2,), None, None)


@pytest.mark.parametrize(("asked", "steps"), [(1, [0]), (2, [0, 1]), (-1, [0, 1, 2])])
def test_after_the_last_overflow_asked_for_nothing_more_is_looked_for(overflowing, asked, steps):
    found = overflowing(lambda: torch.matmul(LARGE, LARGE), steps=3, overflow_nums=asked)

    assert list(found) == steps


def test_within_a_step_the_rest_is_left_out_too(overflowing):
    found = overflowing(lambda: [torch.matmul(LARGE, LARGE) for _ in range(3)], overflow_nums=2)

    assert found == {0: ["Torch.matmul.0.forward", "Torch.matmul.1.forward"]}


def test_a_training_without_overflow_leaves_no_file(overflowing, tmp_path, capsys):
    overflowing(lambda: torch.exp(torch.ones(2)))

    assert not list(tmp_path.glob("*.json"))
    assert "no overflow to report" in capsys.readouterr().out


def test_the_debugger_takes_the_task_from_config_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "config.json"
    config.write_text('{"task": "overflow_check", "dump_path": "run", "overflow_check": {"overflow_nums": 1}}')
    debugger = PrecisionDebugger(config_path=config)
    for _ in range(2):
        debugger.start()
        torch.matmul(LARGE, LARGE)
        debugger.stop()
        debugger.step()
    debugger.close()

    assert open_run(tmp_path / "run").steps == [0]
    assert len(list(tmp_path.glob("forward_info_*.json"))) == 1


def test_modules_alone_have_no_overflows(tmp_path):
    with pytest.raises(ConfigError, match="level 'L0' has none"), capture(tmp_path, level="L0", task="overflow_check"):
        pass
