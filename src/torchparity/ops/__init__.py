"""Facts about torch's functions: record names both ways, in-place writes, views, factories, randomness."""

from torchparity.ops.effects import Effect
from torchparity.ops.names import (
    full_name,
    function_called,
    is_function_of_torch,
    is_in_a_name_of_torch,
    is_torch_family,
    names_of_family,
    nearest_function,
    record_name,
    respelt,
)
from torchparity.ops.op import Kind, Op, describe_function
from torchparity.ops.randomness import draws_where_its_tensors_are, may_draw
from torchparity.ops.writes import certain_writes, possible_writes, writes_in_part

__all__ = [
    "Effect",
    "Kind",
    "Op",
    "certain_writes",
    "describe_function",
    "draws_where_its_tensors_are",
    "full_name",
    "function_called",
    "is_function_of_torch",
    "is_in_a_name_of_torch",
    "is_torch_family",
    "may_draw",
    "names_of_family",
    "nearest_function",
    "possible_writes",
    "record_name",
    "respelt",
    "writes_in_part",
]
