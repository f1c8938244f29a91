"""Arguments whose former content is no input: the table against what torch does."""

from __future__ import annotations

import pytest
import torch

from torchparity.ops import function_called
from torchparity.overwrites import COLLECTIVES, is_overwritten, overwritten_items

GARBAGE = (float("nan"), 3.0)
FIRST = {
    "Tensor.copy_": (torch.arange(6.0).reshape(2, 3),),
    "Tensor.fill_": (2.0,),
    "Tensor.zero_": (),
    "Tensor.normal_": (),
    "Tensor.uniform_": (),
    "Tensor.random_": (),
    "Tensor.exponential_": (),
    "Tensor.geometric_": (0.5,),
    "Tensor.cauchy_": (),
    "Tensor.log_normal_": (),
    "Tensor.bernoulli_": (),
    "Torch.fill_": (2.0,),
    "Torch.zero_": (),
    "Torch.nn.init.uniform_": (),
    "Torch.nn.init.normal_": (),
    "Torch.nn.init.constant_": (1.0,),
    "Torch.nn.init.kaiming_uniform_": (),
}
READ = {
    "Tensor.add_": (torch.ones(2, 3),),
    "Tensor.masked_fill_": (torch.tensor([True, False, True]), 1.0),
    "Tensor.mul_": (2.0,),
    "Tensor.clamp_": (0.0, 1.0),
}


def results(function, arguments):
    """Return what a call makes of memory that held something else each time."""
    for garbage in GARBAGE:
        tensor = torch.full((2, 3), garbage)
        torch.manual_seed(0)
        function(tensor, *arguments)
        yield tensor


@pytest.mark.parametrize("name", FIRST)
def test_what_the_table_says_is_overwritten_does_not_depend_on_what_was_there(name):
    first, second = results(function_called(name), FIRST[name])

    assert torch.equal(first, second)
    assert is_overwritten(f"{name}.3.forward", "input.0")


@pytest.mark.parametrize("name", READ)
def test_what_a_call_reads_is_an_input(name):
    first, second = results(function_called(name), READ[name])

    assert not torch.equal(first, second)
    assert not is_overwritten(f"{name}.3.forward", "input.0")


@pytest.mark.parametrize("name", ["_foreach_zero_", "_foreach_copy_"])
def test_lists_are_overwritten_entry_by_entry(name):
    tensors, sources = [torch.full((2,), float("nan")) for _ in range(3)], [torch.ones(2) for _ in range(3)]
    getattr(torch, name)(tensors, *([sources] if "copy" in name else []))

    assert not any(tensor.isnan().any() for tensor in tensors)
    assert is_overwritten(f"Torch.{name}.0.forward", "input.0.2")
    assert not is_overwritten(f"Torch.{name}.0.forward", "input.1.2")


def test_out_is_what_schemas_say_it_is():
    outs = [
        argument.name
        for name in ("add", "matmul", "cumsum", "exp", "split_copy", "stack")
        for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}")
        for argument in schema.arguments
        if argument.is_out
    ]

    assert set(outs) == {"out"}
    assert is_overwritten("Torch.add.0.forward", "input.out")
    assert is_overwritten("Ops.fsdp.split_with_sizes_copy.2.forward", "input.out.0")


def test_gradients_are_never_overwritten():
    assert overwritten_items("Tensor.copy_.0.backward") == frozenset()


def test_collectives_have_the_arguments_of_the_table():
    import inspect

    for name, written in COLLECTIVES.items():
        function = getattr(torch.distributed, name, None)
        if function is not None:
            signature = inspect.signature(getattr(function, "__wrapped__", function))
            assert list(signature.parameters)[written.place] == written.keyword


@pytest.mark.parametrize(
    ("record", "item", "expected"),
    [
        ("Distributed.all_gather.0.forward", "input.0.1", True),
        ("Distributed.all_gather.0.forward", "input.1", False),
        ("Distributed.all_gather_into_tensor.0.forward", "input.output_tensor", True),
        ("Distributed.all_reduce.0.forward", "input.0", False),
        ("Distributed.broadcast.0.forward", "input.0", False),
        ("Distributed.scatter.0.forward", "input.tensor", True),
        ("Tensor.copy_.10.forward", "input.01", False),
        ("Module.net.copy_.forward.0", "input.0", False),
    ],
)
def test_collectives_and_others(record, item, expected):
    assert is_overwritten(record, item) is expected
