"""Collectives by name: which argument is sent, which is received, who the root is."""

from __future__ import annotations

from typing import Literal, NamedTuple

from torchparity.naming import family_of

Kind = Literal[
    "all_reduce",
    "reduce",
    "broadcast",
    "all_gather",
    "gather",
    "scatter",
    "reduce_scatter",
    "all_to_all",
    "send",
    "receive",
    "batch",
]


class Argument(NamedTuple):
    """An argument of a call; `group_keyword` gives the same number counted within the group."""

    place: int
    keyword: str
    group_keyword: str = ""


class Operator(NamedTuple):
    """A collective's arguments; a `joined` one has the parts of all ranks in one tensor, one after the other."""

    kind: Kind
    sent: Argument | None
    received: Argument | None  # None: it returns what it received
    group: Argument
    reduction: Argument | None = None
    root: Argument | None = None  # of a send or a receive: the other rank
    is_joined: bool = False
    splits: tuple[Argument, Argument] | None = None  # of what is received, of what is sent
    is_functional: bool = False


_TENSOR, _TENSORS = Argument(0, "tensor"), Argument(0, "tensors")
_SOURCE, _TARGET = Argument(1, "src", "group_src"), Argument(1, "dst", "group_dst")
_FLAT_GATHER = Operator(
    "all_gather", Argument(1, "input_tensor"), Argument(0, "output_tensor"), Argument(2, "group"), is_joined=True
)
_FLAT_SCATTER = Operator(
    "reduce_scatter",
    Argument(1, "input"),
    Argument(0, "output"),
    Argument(3, "group"),
    Argument(2, "op"),
    is_joined=True,
)
_SEND = Operator("send", _TENSOR, None, Argument(2, "group"), root=_TARGET)
_RECEIVE = Operator("receive", None, _TENSOR, Argument(2, "group"), root=_SOURCE)
_OP, _GROUP = Argument(1, "op"), Argument(2, "group")
_DISTRIBUTED = {
    "all_reduce": Operator("all_reduce", _TENSOR, _TENSOR, _GROUP, _OP),
    "all_reduce_coalesced": Operator("all_reduce", _TENSORS, _TENSORS, _GROUP, _OP),
    "reduce": Operator("reduce", _TENSOR, _TENSOR, Argument(3, "group"), Argument(2, "op"), _TARGET),
    "broadcast": Operator("broadcast", _TENSOR, _TENSOR, _GROUP, root=_SOURCE),
    "all_gather": Operator("all_gather", Argument(1, "tensor"), Argument(0, "tensor_list"), _GROUP),
    "all_gather_into_tensor": _FLAT_GATHER,
    "all_gather_single": _FLAT_GATHER,
    "_all_gather_base": _FLAT_GATHER,
    "gather": Operator(
        "gather", _TENSOR, Argument(1, "gather_list"), Argument(3, "group"), root=Argument(2, "dst", "group_dst")
    ),
    "scatter": Operator(
        "scatter", Argument(1, "scatter_list"), _TENSOR, Argument(3, "group"), root=Argument(2, "src", "group_src")
    ),
    "reduce_scatter": Operator(
        "reduce_scatter", Argument(1, "input_list"), Argument(0, "output"), Argument(3, "group"), Argument(2, "op")
    ),
    "reduce_scatter_tensor": _FLAT_SCATTER,
    "reduce_scatter_single": _FLAT_SCATTER,
    "_reduce_scatter_base": _FLAT_SCATTER,
    "all_to_all": Operator(
        "all_to_all", Argument(1, "input_tensor_list"), Argument(0, "output_tensor_list"), Argument(2, "group")
    ),
    "all_to_all_single": Operator(
        "all_to_all",
        Argument(1, "input"),
        Argument(0, "output"),
        Argument(4, "group"),
        is_joined=True,
        splits=(Argument(2, "output_split_sizes"), Argument(3, "input_split_sizes")),
    ),
    "send": _SEND,
    "isend": _SEND,
    "recv": _RECEIVE,
    "irecv": _RECEIVE,
    "batch_isend_irecv": Operator("batch", None, None, Argument(9, "")),
}
_INPUT = Argument(0, "input")
_REDUCE = Operator("all_reduce", _INPUT, None, Argument(2, "group_name"), Argument(1, "reduce_op"), is_functional=True)
_FUNCTIONAL = {
    "all_reduce": _REDUCE,
    "all_reduce_": _REDUCE,
    "all_gather_into_tensor": Operator(
        "all_gather", _INPUT, None, Argument(2, "group_name"), is_joined=True, is_functional=True
    ),
    "reduce_scatter_tensor": Operator(
        "reduce_scatter",
        _INPUT,
        None,
        Argument(3, "group_name"),
        Argument(1, "reduce_op"),
        is_joined=True,
        is_functional=True,
    ),
    "all_to_all_single": Operator(
        "all_to_all",
        _INPUT,
        None,
        Argument(3, "group_name"),
        is_joined=True,
        splits=(Argument(1, "output_split_sizes"), Argument(2, "input_split_sizes")),
        is_functional=True,
    ),
    "broadcast": Operator(
        "broadcast", _INPUT, None, Argument(2, "group_name"), root=Argument(1, "", "src"), is_functional=True
    ),
}


def operator_of(record: str) -> Operator | None:
    """Return what is known of a communication by the name of its record; None where nothing is."""
    family, _, name = family_of(record).rpartition(".")
    if record.startswith("Distributed."):
        return _DISTRIBUTED.get(name) if family == "Distributed" else None
    return _FUNCTIONAL.get(name)
