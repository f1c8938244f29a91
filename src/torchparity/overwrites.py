"""Arguments whose former content a call never reads, because it writes all of it: no input, and not compared.

`RAW_MEMORY` are the operators that return memory which nobody has written.

overwritten_items("Tensor.copy_.0.forward")             {"input.0", "input.out"}
is_overwritten("Torch.add.3.forward", "input.out")      True
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from torchparity.naming import family_of, is_forward_name


class Written(NamedTuple):
    """An argument that a collective writes; not `wholly` where its former content matters too."""

    place: int
    keyword: str
    wholly: bool = True


# Of torch.distributed. The tensor of `broadcast` is an input on the rank that sends it.
COLLECTIVES = {
    "all_reduce": Written(0, "tensor", wholly=False),
    "all_reduce_coalesced": Written(0, "tensors", wholly=False),
    "broadcast": Written(0, "tensor", wholly=False),
    "reduce": Written(0, "tensor", wholly=False),
    "all_gather": Written(0, "tensor_list"),
    "all_gather_coalesced": Written(0, "output_tensor_lists"),
    "all_gather_into_tensor": Written(0, "output_tensor"),
    "all_gather_single": Written(0, "output_tensor"),
    "_all_gather_base": Written(0, "output_tensor"),
    "gather": Written(1, "gather_list"),
    "scatter": Written(0, "tensor"),
    "reduce_scatter": Written(0, "output"),
    "reduce_scatter_tensor": Written(0, "output"),
    "reduce_scatter_single": Written(0, "output"),
    "_reduce_scatter_base": Written(0, "output"),
    "all_to_all": Written(0, "output_tensor_list"),
    "all_to_all_single": Written(0, "output"),
    "recv": Written(0, "tensor"),
    "irecv": Written(0, "tensor"),
}
SENDING = frozenset({"send", "isend"})  # write nothing
BATCH = "batch_isend_irecv"  # writes what its receives name
_FIRST = {
    "Tensor": frozenset(
        {
            *("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "exponential_", "geometric_"),
            *("cauchy_", "log_normal_", "bernoulli_"),
        }
    ),
    "Torch": frozenset(
        {
            *("fill_", "zero_", "_foreach_zero_", "_foreach_copy_", "nn.init.uniform_", "nn.init.normal_"),
            *("nn.init.constant_", "nn.init.kaiming_uniform_"),
        }
    ),
}
RAW_MEMORY = frozenset(
    {
        *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"),
        *("resize", "resize_as"),
    }
)
_FIRST_KEYWORDS = {"Tensor": (), "Torch": ("input.tensor", "input.self")}
_OUT = frozenset({"input.out"})


@lru_cache(maxsize=4096)
def overwritten_items(record: str) -> frozenset[str]:
    """Return the items of a record, or what they begin with, that its call overwrites wholly; for any record `out`."""
    if not is_forward_name(record):
        return frozenset()
    family, _, name = family_of(record).partition(".")
    if family == "Distributed" and name in COLLECTIVES:
        written = COLLECTIVES[name]
        return frozenset({f"input.{written.place}", f"input.{written.keyword}"}) if written.wholly else frozenset()
    if name in _FIRST.get(family, ()):
        return _OUT | {"input.0", *_FIRST_KEYWORDS[family]}
    return _OUT


def is_overwritten(record: str, item: str) -> bool:
    """Tell whether the former content of an input is no input of the call."""
    items = overwritten_items(record)
    return any(item == each or item.startswith(f"{each}.") for each in items)
