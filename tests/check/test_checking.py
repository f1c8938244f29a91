"""One call checked: its row, and the reason where it is skipped."""

from __future__ import annotations

import msgspec
import pytest
import torch
from torch.nn import functional as F

from tests.check.recorded_calls import recorded_cases
from torchparity.check.checking import check_case
from torchparity.check.judging import Status
from torchparity.check.selection import Selection
from torchparity.records import Statistics, TensorLeaf, ValueLeaf

CPU = torch.device("cpu")


def checked(work, name):
    return check_case(recorded_cases(work)[name], CPU).result


def test_a_right_call_passes_in_both_directions():
    values = torch.randn(4, 5, requires_grad=True)

    result = checked(lambda: F.gelu(values).sum().backward(), "Functional.gelu.0")

    assert (result.forward, result.backward) == (Status.PASS, Status.PASS)
    names = [row.name for row in result.details]
    assert names == ["Functional.gelu.0.forward.output.0", "Functional.gelu.0.backward.output.0"]


def test_without_a_backward_pass_the_direction_is_blank():
    assert checked(lambda: F.gelu(torch.randn(4)), "Functional.gelu.0").backward is None


@pytest.mark.parametrize(
    ("work", "name", "reason"),
    [
        (lambda: torch.empty(3), "Torch.empty.0", "nobody has written"),
        (lambda: torch.randn(3).cpu(), "Tensor.cpu.0", "computes nothing"),
        (lambda: torch.zeros(2).resize_(4), "Tensor.resize_.0", "nobody has written"),
    ],
    ids=["empty", "cpu", "resize_"],
)
def test_a_skip_has_its_reason(work, name, reason):
    result = checked(work, name)

    assert result.forward is Status.SKIP
    assert reason in result.message


@pytest.mark.parametrize(
    ("api", "reason"),
    [("Functional.glue", "this torch has no Functional.glue"), ("Distributed.all_reduce", "it is a collective")],
)
def test_an_api_that_cannot_be_run_here_is_skipped(api, reason):
    case = recorded_cases(lambda: F.gelu(torch.randn(2)))["Functional.gelu.0"]
    renamed = type(case)(f"{api}.0", api, api.partition(".")[2], case.forward, None, case.part)

    assert reason in check_case(renamed, CPU).result.message


def test_tensors_that_do_not_fit_are_a_reason_and_not_an_attempt():
    case = recorded_cases(lambda: F.gelu(torch.randn(2)), task="statistics")["Functional.gelu.0"]
    huge = case.forward.replace_tensors(lambda _, leaf: msgspec.structs.replace(leaf, shape=(1 << 40,)))

    result = check_case(type(case)(case.name, case.api, case.operator, huge, None, case.part), CPU).result

    assert "are free" in result.message


def test_an_empty_tensor_without_elements_is_judged():
    assert checked(lambda: torch.empty(0), "Torch.empty.0").forward is Status.PASS


def test_indices_of_a_pool_are_not_drawn():
    values, gradient = torch.randn(1, 2, 4, 4), torch.ones(1, 2, 2, 2)
    indices = F.max_pool2d(values, 2, return_indices=True)[1]

    def work():
        torch.ops.aten.max_pool2d_with_indices_backward(
            gradient, values, [2, 2], [2, 2], [0, 0], [1, 1], False, indices
        )

    name = "Aten.max_pool2d_with_indices_backward.0"
    drawn = check_case(recorded_cases(work, task="statistics")[name], CPU).result

    assert checked(work, name).forward is Status.PASS
    assert drawn.forward is Status.SKIP
    assert "needs real data" in drawn.message


def test_gradients_that_the_device_does_not_have_are_skipped_with_its_words():
    class NoGradient(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is torch.ops.aten.sigmoid_backward.default and args[0].dtype == torch.float32:
                raise NotImplementedError("sigmoid_backward is not here.")
            return func(*args, **(kwargs or {}))

    values = torch.randn(4, requires_grad=True)
    case = recorded_cases(lambda: torch.sigmoid(values).sum().backward())["Torch.sigmoid.0"]
    with NoGradient():
        result = check_case(case, CPU).result

    assert (result.forward, result.backward) == (Status.PASS, Status.SKIP)
    assert result.message == "No gradients: it raised NotImplementedError: sigmoid_backward is not here."


def test_dropout_is_judged_by_its_share_of_zeros():
    values = torch.ones(4000, requires_grad=True)

    result = checked(lambda: F.dropout(values, 0.3).sum().backward(), "Functional.dropout.0")

    assert result.forward is Status.PASS


@pytest.mark.parametrize(
    ("selection", "is_run"),
    [
        (Selection(white_list=("gelu",)), True),
        (Selection(white_list=("Functional.gelu",)), True),
        (Selection(white_list=("relu",)), False),
        (Selection(black_list=("gelu",)), False),
        (Selection(white_list=("gelu",), black_list=("relu",)), True),
        (Selection(white_list=("gelu",), black_list=("gelu",)), False),
    ],
)
def test_lists_choose_what_is_run(selection, is_run):
    case = recorded_cases(lambda: F.gelu(torch.randn(2)))["Functional.gelu.0"]

    result = check_case(case, CPU, selection).result

    assert (result.forward is Status.PASS) is is_run
    assert is_run or "black list" in result.message


def test_a_record_that_names_a_program_is_not_run(tmp_path):
    case = recorded_cases(lambda: F.gelu(torch.randn(2)))["Functional.gelu.0"]
    victim = tmp_path / "victim"
    asking = msgspec.structs.replace(case.forward, input_args=[ValueLeaf("str", f"touch {victim}")])

    result = check_case(type(case)("Torch.os.system.0", "Torch.os.system", "os.system", asking, None, case.part), CPU)

    assert "no operator of torch" in result.result.message
    assert not victim.exists()


@pytest.mark.parametrize(
    "leaf",
    [
        ValueLeaf("complex", [1.0]),
        ValueLeaf("slice", None),
        ValueLeaf("torch.Size", ["a"]),
        ValueLeaf("torch.dtype", "torch.exp"),
        ValueLeaf("torch.memory_format", "torch.nowhere"),
        ValueLeaf("float", "many"),
        TensorLeaf(dtype="torch.float32", shape=(-3,), statistics=Statistics(1.0, 0.0, 0.5, 1.0)),
        TensorLeaf(dtype="torch.float32", shape=(3,), statistics=Statistics("high", "low", None, None)),
        TensorLeaf(dtype="torch.load", shape=(3,), statistics=Statistics(1.0, 0.0, 0.5, 1.0)),
        TensorLeaf(dtype="torch.float32", shape=(3,), layout="torch.sparse_coo"),
        [],
        None,
    ],
    ids=str,
)
def test_an_argument_that_no_call_had_is_a_reason(leaf):
    case = recorded_cases(lambda: F.gelu(torch.randn(2)))["Functional.gelu.0"]
    odd = msgspec.structs.replace(case.forward, input_args=[leaf])

    result = check_case(type(case)(case.name, case.api, case.operator, odd, None, case.part), CPU).result

    assert result.forward is Status.SKIP
    assert result.message
