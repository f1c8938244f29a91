"""Functions and the names their records have, both ways, in the torch at hand.

torch.nn.functional.linear      Functional.linear
torch.Tensor.add_               Tensor.add_
torch.matmul                    Torch.matmul
torch.distributed.all_reduce    Distributed.all_reduce
torch.ops.aten.add              Aten.add
torch.ops.mylib.attend          Ops.mylib.attend
torch_npu.npu_swiglu            NPU.npu_swiglu
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

import torch
from torch.overrides import resolve_name

from torchparity.errors import nearest

_RNN = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"})
_LISTED = ("Functional", "Tensor", "Torch", "Distributed")  # families of which all names are known
_FAMILIES = (("torch.nn.functional.", "Functional."), ("torch.Tensor.", "Tensor."))


def full_name(function: Any) -> str:
    """Return where a function is found: `torch.nn.functional.linear`, `aten.add.Tensor`."""
    name = resolve_name(function)
    if name is not None:
        return _own_spelling(str(name), function)
    module = getattr(function, "__module__", None) or "torch"
    return f"{module}.{getattr(function, '__name__', type(function).__name__)}"


def _own_spelling(name: str, function: Any) -> str:
    """Return the name that a function calls itself: torch has names for the same one, spmm for mm, and finds any."""
    home, _, last = name.rpartition(".")
    own = getattr(function, "__name__", last)
    return f"torch.{own}" if home == "torch" and own != last and getattr(torch, own, None) == function else name


def record_name(full: str) -> str:
    """Return the name that calls of the function called `full` are counted under."""
    for start, family in _FAMILIES:
        if full.startswith(start):
            return family + full.removeprefix(start)
    if full.startswith("aten."):
        return "Aten." + full.removeprefix("aten.").partition(".")[0]
    if full.startswith(("npu.", "torch_npu.")):
        return "NPU." + full.rpartition(".")[2]
    if full.startswith("torch.distributed."):
        return "Distributed." + full.rpartition(".")[2]
    if full.startswith("torch."):
        rest = full.removeprefix("torch.").removeprefix("_VF.")
        return f"VF.{rest}" if rest in _RNN else f"Torch.{rest}"
    namespace, _, operator = full.partition(".")
    return f"Ops.{namespace}.{operator.partition('.')[0]}"


def function_called(record_name: str) -> Callable[..., Any] | None:
    """Return the function that records of this name are calls of; None where this torch has none."""
    family, _, name = record_name.partition(".")
    for home in _homes(family):
        try:
            function = attrgetter(name)(home)
        except (AttributeError, RuntimeError):  # torch.ops raises the latter for a namespace it cannot make
            continue
        if callable(function):
            return function  # type: ignore[no-any-return]
        if hasattr(function, "__get__"):  # an attribute that shows a view: Tensor.real
            return function.__get__  # type: ignore[no-any-return]
    return None


def is_torch_family(family: str) -> bool:
    """Tell whether all names of a family are known: of vendors' and users' own functions there is no list."""
    return family in _LISTED


def respelt(record_name: str) -> str | None:
    """Return the name of a function of torch whose family has other capitals or lacks a letter, as `Functionl.linear`.

    What differs more may be a prefix of the user's.
    """
    family, _, name = record_name.partition(".")
    for right in _LISTED:
        letters = right.lower()
        misspelt = {letters, *(letters[:place] + letters[place + 1 :] for place in range(len(letters)))}
        spelt = f"{right}.{name}"
        if family != right and family.lower() in misspelt and function_called(spelt) is not None:
            return spelt
    return None


def names_of_family(family: str) -> Iterable[str]:
    """Yield the names of the functions of a family, for the nearest to a misspelt one."""
    for home in _homes(family):
        for name in dir(home):
            if callable(getattr(home, name, None)):
                yield f"{family}.{name}"


def is_function_of_torch(name: str) -> bool:
    """Tell whether torch has a function by this name, with its family, `Torch.relu`, or without."""
    apis = [name] if "." in name else [f"{family}.{name}" for family in _LISTED]
    return any(function_called(api) is not None for api in apis)


def is_in_a_name_of_torch(text: str) -> bool:
    """Tell whether a function of torch has a text in its name, `conv` say, or is called so."""
    return any(text.lower() in _lower_names(each) for each in _families_in(text)) or is_function_of_torch(text)


def nearest_function(text: str) -> str:
    """Return " Did you mean 'x'?" for the function of torch whose name is closest to a text that is in none.

    Nothing where a name has the text, or where the text names a family of which there is no list.
    """
    families = _families_in(text)
    if not families or is_in_a_name_of_torch(text):
        return ""
    known = [name for each in families for name in _names_of_listed(each)]
    names = dict.fromkeys(name.partition(".")[2] for name in known)
    return nearest(text.rpartition(".")[2], [name for name in names if not name.startswith("_")])


def _families_in(text: str) -> Sequence[str]:
    """Return the families of which a function with this text in its name may be."""
    family, dot, _ = text.partition(".")
    return [each for each in _LISTED if not dot or each.lower() == family.lower()]


@cache
def _names_of_listed(family: str) -> Sequence[str]:
    """Return the names of a family of which all are known; asking torch for thousands takes a millisecond or more."""
    return tuple(names_of_family(family))


@cache
def _lower_names(family: str) -> str:
    """Return all those names in one text, in small letters, a line each."""
    return "\n".join(_names_of_listed(family)).lower()


def _homes(family: str) -> list[Any]:
    """Return the modules and classes whose attributes a family's functions are."""
    homes: dict[str, list[Any]] = {
        "Functional": [torch.nn.functional],
        "Tensor": [torch.Tensor],
        "Torch": [torch],
        "VF": [torch._VF],
        "Distributed": [torch.distributed],
        "Aten": [torch.ops.aten],
        "NPU": [module for module in (sys.modules.get("torch_npu"), torch.ops.npu) if module is not None],
        "Ops": [torch.ops],
    }
    return homes.get(family, [])
