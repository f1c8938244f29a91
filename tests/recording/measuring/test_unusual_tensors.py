"""Tensors that are no plain memory: freed, wrapped, symbolic, sparse, or inside of torch.func."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_map

from tests.support.processes import run_python
from torchparity import open_run
from torchparity.recording import capture
from torchparity.records import TensorLeaf


def test_freed_storages_and_odd_arguments_cost_no_record(tmp_path):
    freed = torch.ones(4)
    freed.untyped_storage().resize_(0)
    with capture(tmp_path):
        torch.is_same_size(freed, freed)
        freed.shape  # noqa: B018
        torch.zeros_like(freed)
        torch.full((1,), 1.0).mul(float(10**300)).add(1, alpha=10**15)

    part = open_run(tmp_path).part()

    assert "Torch.zeros_like.0.forward" in part.records
    assert part.problems == []


def test_a_shape_that_is_a_symbol_is_left_out_and_said(tmp_path, capsys):
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    fake = FakeTensorMode(shape_env=ShapeEnv())
    x = fake.from_tensor(torch.ones(4, 5), symbolic_context=StatelessSymbolicContext([DimDynamic.DYNAMIC] * 2))
    assert isinstance(x.shape[0], torch.SymInt)
    with capture(tmp_path):
        y = torch.exp(x)
        torch.full((2,), 1.0).mul(3)

    part = open_run(tmp_path).part()
    assert y.shape == x.shape
    assert list(part.records) == ["Torch.full.0.forward", "Tensor.mul.0.forward"]
    (problem,) = part.problems
    assert "Torch.exp.0.forward could not be written" in problem
    line = capsys.readouterr().out
    assert "recorded 2 records" in line and "Torch.exp.0.forward could not be written" in line


class Boxed(torch.Tensor):
    """A wrapper without memory of its own, as quantised and distributed tensors are."""

    @staticmethod
    def __new__(cls, inner):
        kind = {"dtype": inner.dtype, "requires_grad": inner.requires_grad}
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, **kind)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args, kwargs = tree_map(lambda t: t.inner if isinstance(t, Boxed) else t, (args, kwargs or {}))
        return tree_map(lambda t: Boxed(t) if isinstance(t, torch.Tensor) else t, func(*args, **kwargs))


@pytest.mark.parametrize(
    "settings", [{}, {"task": "tensor"}, {"summary_mode": "md5"}, {"tensor_list": ["exp"]}], ids=str
)
def test_wrapper_subclasses_work_as_without_a_recording(tmp_path, settings):
    def work():
        x, weight = Boxed(torch.ones(3)), nn.Parameter(Boxed(torch.full((3,), 2.0)))
        out = torch.exp(x) * weight
        out.sum().backward()
        x.add_(1)
        return out.inner, weight.grad.inner, x.inner

    expected = work()
    with capture(tmp_path, **settings):
        got = work()

    assert all(torch.equal(mine, plain) for mine, plain in zip(got, expected, strict=True))
    part = open_run(tmp_path).part()
    assert part.problems == [] and part.verify() == []
    assert part.records["Torch.exp.0.forward"].output[0].shape == (3,)
    assert part.records["Tensor.mul.0.backward"]


def test_a_memory_that_was_made_smaller_than_its_tensor_is_not_read(tmp_path):
    class Shape(nn.Module):
        def forward(self, tensor):
            return tuple(tensor.shape)

    whole = torch.ones(10_000, 1_000)
    tensors = [whole, whole.T, whole[:, ::2]]
    whole.untyped_storage().resize_(8)
    model = Shape()
    with capture(tmp_path, model=model):
        for tensor in tensors:
            model(tensor)

    records = open_run(tmp_path).part().records
    assert [records[f"Module.Shape.forward.{number}"].input_args[0].statistics for number in range(3)] == [None] * 3


TRANSFORMED = """
import sys, torch
from torchparity import capture, open_run
other = torch.randn(6, dtype=getattr(torch, sys.argv[2]))
strided = torch.randn(12)[::2]
with capture(sys.argv[1], task=sys.argv[3]):
    torch.func.functionalize(lambda x: x + other)(torch.ones(6))
    torch.func.grad(lambda x: (x * strided * other).sum())(torch.ones(6))
run = open_run(sys.argv[1]).part()
assert run.problems == [], run.problems
print(run.records["Tensor.add.0.forward"].input_args[1].statistics.max == other.float().max().item())
"""


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_plain_tensors_inside_of_a_transform_are_measured(tmp_path, dtype, task):
    done = run_python(TRANSFORMED, tmp_path, dtype, task)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "True"


def test_sparse_meta_and_quantized_tensors_are_named_and_not_measured(tmp_path):
    with capture(tmp_path):
        torch.eye(3).to_sparse().coalesce()
        torch.empty(3, device="meta").add(1)
        torch.exp(torch.ones(1))

    part = open_run(tmp_path).part()
    leaf = part.records["Tensor.to_sparse.0.forward"].output[0]

    assert isinstance(leaf, TensorLeaf)
    assert (leaf.layout, leaf.statistics) == ("sparse_coo", None)
    assert part.records["Torch.exp.0.forward"].output[0].statistics is not None
    assert part.problems == []
