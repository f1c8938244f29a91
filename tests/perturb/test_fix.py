"""handler_type fix: the perturbed result takes the place of the API's own, and training goes on with it."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.support.perturbing import perturbing, product_in_bfloat16, same, wrong_kernel
from torchparity import PrecisionDebugger

STEPS = 20


def losses(dtype, **fields):
    """Train with one product in a dtype, the rest in float32; return the loss of each step."""
    torch.manual_seed(0)
    wide, narrow = torch.rand(600, 8).requires_grad_(), torch.randn(8, 1).requires_grad_()
    optimizer = torch.optim.SGD([wide, narrow], lr=0.05)
    inputs = torch.rand(16, 600) / 200
    labels = torch.randn(16, 1)
    debugger = PrecisionDebugger(task="free_benchmark", **fields) if fields else None
    curve = []
    for _ in range(STEPS):
        if debugger is not None:
            debugger.start()
        optimizer.zero_grad()
        hidden = torch.matmul(inputs.to(dtype), wide.to(dtype)).float()
        loss = F.mse_loss(hidden.matmul(narrow), labels)
        loss.backward()
        optimizer.step()
        if debugger is not None:
            debugger.stop()
            debugger.step()
        curve.append(loss.item())
    PrecisionDebugger.close()
    return torch.tensor(curve)


def test_a_loss_that_goes_wrong_through_one_api_recovers_when_that_is_fixed(tmp_path):
    with wrong_kernel("mm", product_in_bfloat16):
        right = losses(torch.float32)
        wrong = losses(torch.bfloat16)
        fixed = losses(torch.bfloat16, dump_path=tmp_path, handler_type="fix", list=["Torch.matmul"])

    assert ((wrong - right).abs() / right).max() > 0.05
    assert ((fixed - right).abs() / right).max() < 0.01


@pytest.mark.parametrize("handler", ["check", "fix"])
def test_the_closing_line_names_a_folder_only_where_it_was_written(handler, tmp_path, capsys):
    with perturbing(tmp_path / "out", handler_type=handler):
        F.normalize(torch.randn(4, 64).bfloat16())

    assert (
        (f"; see {tmp_path / 'out'}" in capsys.readouterr().out) == (tmp_path / "out").exists() == (handler == "check")
    )


def test_the_result_keeps_dtype_and_is_that_of_float32():
    values = torch.randn(4, 64).bfloat16()

    with perturbing("unused", handler_type="fix"):
        fixed = F.normalize(values)

    assert fixed.dtype is torch.bfloat16
    assert same(fixed, F.normalize(values.float()).bfloat16())
    assert not same(fixed, F.normalize(values))


def test_its_backward_is_in_the_raised_precision():
    values = torch.randn(4, 64).bfloat16().requires_grad_()
    raised = values.detach().float().requires_grad_()
    weight = torch.randn(4, 64).bfloat16().float()
    (F.normalize(raised) * weight).sum().backward()

    with perturbing("unused", handler_type="fix", list=["normalize"]):
        result = F.normalize(values)
    (result.float() * weight).sum().backward()

    assert same(values.grad, raised.grad.bfloat16())


def test_an_in_place_api_is_fixed_in_the_tensor_that_it_writes():
    base, other = (torch.randn(64).bfloat16().requires_grad_() for _ in range(2))
    raised = [tensor.detach().float().requires_grad_() for tensor in (base, other)]
    expected = (raised[0] * 3).bfloat16().float().addcmul(raised[1], raised[1], value=0.3)
    expected.sum().backward()

    with perturbing("unused", handler_type="fix", list=["addcmul_"]):
        written = base * 3
        returned = written.addcmul_(other, other, value=0.3)
    assert returned is written
    written.float().sum().backward()

    assert same(written.detach(), expected.detach().bfloat16())
    assert same(other.grad, raised[1].grad.bfloat16())
    assert same(base.grad, raised[0].grad.bfloat16())


def test_parameters_that_an_optimizer_writes_stay_parameters():
    layer = torch.nn.Linear(4, 2).bfloat16()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    with perturbing("unused", handler_type="fix"):
        layer(torch.randn(3, 4).bfloat16()).sum().backward()
        optimizer.step()

    assert all(parameter.requires_grad and parameter.is_leaf for parameter in layer.parameters())


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_forward_that_is_done_again_for_its_gradients_is_fixed_both_times(reentrant):
    values = torch.randn(4, 64).bfloat16().requires_grad_()

    def gradient(run):
        values.grad = None
        with perturbing("unused", handler_type="fix", list=["normalize"]):
            run(lambda tensor: F.normalize(tensor * 3).exp()).float().sum().backward()
        return values.grad

    plain = gradient(lambda block: block(values))

    assert same(gradient(lambda block: checkpoint(block, values, use_reentrant=reentrant)), plain)


def test_what_cannot_be_replaced_stays(capsys):
    values = torch.randn(8).bfloat16()
    with perturbing("unused", handler_type="fix", list=["dropout", "mul_"]):
        kept = F.dropout(values, training=False)
        F.dropout(values)
        whole = torch.randn(4, 4).bfloat16()
        expected = whole[0] * 3
        whole[0].mul_(3)

    assert kept is values
    assert same(whole[0].clone(), expected)
    said = capsys.readouterr().out
    assert said.startswith("torchparity: nothing was replaced by improve_precision")
    for reason in ("it returns its input", "it draws random numbers", "it writes into a view"):
        assert reason in said


def test_results_in_a_named_tuple_are_replaced_in_it():
    values = torch.randn(4, 64).bfloat16()

    with perturbing("unused", handler_type="fix", list=["max"]):
        largest = torch.max(values, dim=1)

    assert type(largest) is torch.return_types.max
    assert same(largest.values, values.max(dim=1).values)
    assert same(largest.indices, values.max(dim=1).indices)


def test_what_is_written_without_gradients_keeps_the_graph_that_it_has():
    weight = torch.randn(8).bfloat16().requires_grad_()

    def gradient():
        weight.grad = None
        hidden = weight * 3
        with torch.no_grad():
            hidden.mul_(2)
        hidden.float().sum().backward()
        return weight.grad

    bare = gradient()
    with perturbing("unused", handler_type="fix", list=["mul_"]):
        fixed = gradient()

    assert same(fixed, bare)


def test_what_is_written_and_what_is_returned_are_both_fixed():
    rows, weight = torch.tensor([1, 2, 1]), torch.randn(10, 64).bfloat16() * 3
    raised, own = weight.float(), weight.clone()
    expected = F.embedding(rows, raised, max_norm=1.0).bfloat16()
    assert not same(F.embedding(rows, own, max_norm=1.0), expected)

    with perturbing("unused", handler_type="fix", list=["embedding"]):
        fixed = F.embedding(rows, weight, max_norm=1.0)

    assert same(fixed, expected)
    assert same(weight, raised.bfloat16())


def test_running_statistics_are_fixed_with_the_result():
    values, statistics = torch.randn(64, 8).bfloat16(), (torch.zeros(8).bfloat16(), torch.ones(8).bfloat16())
    raised = [each.float() for each in statistics]
    expected = F.batch_norm(values.float(), *raised, training=True).bfloat16()

    with perturbing("unused", handler_type="fix", list=["batch_norm"]):
        fixed = F.batch_norm(values, *statistics, training=True)

    assert same(fixed, expected)
    assert same(list(statistics), [each.bfloat16() for each in raised])


@pytest.mark.gpu
def test_to_cpu_computes_result_and_gradient_on_the_cpu(cuda):
    values = torch.randn(4, 64, device=cuda, requires_grad=True)
    on_cpu = values.detach().cpu().requires_grad_()
    F.softmax(on_cpu, -1).square().sum().backward()

    with perturbing("unused", handler_type="fix", pert_mode="to_cpu", fuzz_device="cpu", list=["softmax"]):
        result = F.softmax(values, -1)
    result.square().sum().backward()

    assert result.device == values.device
    assert same(result.detach().cpu(), F.softmax(on_cpu, -1).detach())
    assert torch.allclose(values.grad.cpu(), on_cpu.grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda halves: torch.nan_to_num(halves), id="nan_to_num"),
        pytest.param(lambda halves: torch.ops.aten.view_copy.dtype(halves, torch.int16), id="view_copy"),
        pytest.param(lambda halves: torch.nextafter(halves.bfloat16(), torch.zeros(2).bfloat16()), id="nextafter"),
    ],
)
def test_what_depends_on_the_dtype_is_left_as_it_is(call, tmp_path):
    halves = torch.tensor([float("inf"), 1.0], dtype=torch.float16)
    bare = call(halves)

    with perturbing(tmp_path, pert_mode="improve_precision", handler_type="fix"):
        fixed = call(halves)

    assert same(fixed, bare)
