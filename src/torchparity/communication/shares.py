"""One rank's part in a communication: what it sent, what it received, and with whom, read from its record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from torchparity.communication.operators import Argument, Kind, Operator, operator_of
from torchparity.communication.transfers import communicates
from torchparity.naming import family_of, flatten
from torchparity.records import LEAF_TYPES, GroupLeaf, Nest, Record, TensorLeaf, ValueLeaf
from torchparity.storage import RunPart

_REDUCTIONS = {"sum": "sum", "avg": "avg", "mean": "avg", "max": "max", "min": "min", "product": "product"}
_NOT_RETURNED = (frozenset({"group", "async_op"}), frozenset({"async_op"}))  # torchparity's runs, msprobe's


class Sent(msgspec.Struct, frozen=True):
    """A tensor that a rank sent or received, with its item's name."""

    item: str
    leaf: TensorLeaf


class Share(msgspec.Struct, frozen=True):
    """One rank's part in one communication; a batch of sends and receives has several.

    `group` is what the record says: ranks, a name, both or nothing, which is the default group. `root` is a rank of
    the whole job, or with `is_root_in_group` one counted within the group; of a send or receive it is the other rank.
    """

    rank: int
    position: int  # of the record in its part
    record: Record
    kind: Kind
    operator: Operator
    group: GroupLeaf | None
    sent: tuple[Sent, ...]
    received: tuple[Sent, ...]
    reduction: str = ""
    root: int | None = None
    is_root_in_group: bool = False
    tag: int = 0
    splits: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # of what is received, of what is sent


def shares_of(part: RunPart) -> tuple[list[Share], dict[str, str]]:
    """Return the shares of one rank in the order of its records, and why other communications have none."""
    shares: list[Share] = []
    left_out: dict[str, str] = {}
    for position, record in enumerate(part.records.values()):
        if record.direction != "forward" or not communicates(record.name):
            continue
        operator = operator_of(record.name)
        if operator is None:
            left_out[record.name] = f"nothing is known of {family_of(record.name)}"
        elif record.error is not None:
            left_out[record.name] = "the call raised an error"
        elif operator.kind == "batch":
            shares += _of_batch(part.rank, position, record, operator)
        else:
            shares.append(_share(part.rank, position, record, operator))
    return shares, left_out


def items_sent(record: Record, rank: int) -> frozenset[str] | None:
    """Return the items of a communication that this rank sends; None where nobody can tell.

    A buffer that the call fills is none of them: of a broadcast those of all ranks but one, of a batch the receiving.
    """
    operator = operator_of(record.name)
    if operator is None:
        return None
    if operator.kind == "batch":
        shares = list(_of_batch(rank, 0, record, operator))
        return frozenset(sent.item for share in shares for sent in share.sent) if shares else None
    share = _share(rank, 0, record, operator)
    if operator.kind == "broadcast" and share.root is not None:
        ranks = share.group.ranks if share.group is not None else ()
        root = ranks[share.root] if share.is_root_in_group and share.root < len(ranks) else share.root
        if root != rank and (ranks or not share.is_root_in_group or share.group is None):
            return frozenset()
    return frozenset(sent.item for sent in share.sent)


def _share(rank: int, position: int, record: Record, operator: Operator) -> Share:
    root, is_in_group = _root(record, operator)
    tag = _number(_argument(record, Argument(3, "tag"))) if operator.kind in ("send", "receive") else None
    return Share(
        rank,
        position,
        record,
        operator.kind,
        operator,
        _group(record, operator),
        _sent(record, operator),
        _received(record, operator),
        _reduction(record, operator),
        root,
        is_in_group,
        tag or 0,
        _splits(record, operator),
    )


def _of_batch(rank: int, position: int, record: Record, operator: Operator) -> Iterator[Share]:
    """Yield a share for each send and receive of a batch."""
    entries = _argument(record, Argument(0, "p2p_op_list"))
    returned = record.output[0] if record.output and isinstance(record.output[0], list) else []
    base = Share(rank, position, record, "batch", operator, None, (), ())
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if not isinstance(entry, dict):
            continue
        word, leaf = _text(entry.get("op")), entry.get("tensor")
        group = entry.get("group")
        after = returned[index].get("tensor") if index < len(returned) and isinstance(returned[index], dict) else None
        is_send = "send" in word
        tensor = Sent(f"input.0.{index}.tensor", leaf) if isinstance(leaf, TensorLeaf) else None
        arrived = Sent(f"output.0.{index}.tensor", after) if isinstance(after, TensorLeaf) else None
        yield msgspec.structs.replace(
            base,
            kind="send" if is_send else "receive",
            group=group if isinstance(group, GroupLeaf) else None,
            sent=(tensor,) if is_send and tensor else (),
            received=(arrived,) if arrived and not is_send else (),
            root=_number(entry.get("peer")),
            tag=_number(entry.get("tag")) or 0,
        )


def _argument(record: Record, argument: Argument | None) -> Nest:
    if argument is None:
        return None
    if argument.place < len(record.input_args):
        return record.input_args[argument.place]
    return record.input_kwargs.get(argument.keyword)


def _sent(record: Record, operator: Operator) -> tuple[Sent, ...]:
    argument = operator.sent
    if argument is None:
        return ()
    name = argument.place if argument.place < len(record.input_args) else argument.keyword
    return _tensors(f"input.{name}", _argument(record, argument))


def _received(record: Record, operator: Operator) -> tuple[Sent, ...]:
    argument = operator.received
    if argument is None:
        return _tensors("output.0", record.output[0]) if operator.is_functional and record.output else ()
    before = [sent.leaf.shape for sent in _tensors("", _argument(record, argument))]
    for index in _places(record, argument):
        after = _tensors(f"output.{index}", record.output[index]) if index < len(record.output) else ()
        if after and [sent.leaf.shape for sent in after] == before:
            return after
    return ()


def _places(record: Record, argument: Argument) -> Iterator[int]:
    """Yield where the written argument may stand among what the call returned: those by keyword follow the others."""
    if argument.place < len(record.input_args):
        yield argument.place
        return
    for left_out in _NOT_RETURNED:
        keywords = [keyword for keyword in record.input_kwargs if keyword not in left_out]
        if argument.keyword in keywords:
            yield len(record.input_args) + keywords.index(argument.keyword)


def _tensors(name: str, nest: Nest) -> tuple[Sent, ...]:
    leaves = flatten(name, nest, LEAF_TYPES)
    return tuple(Sent(item, leaf) for item, leaf in leaves if isinstance(leaf, TensorLeaf))


def _group(record: Record, operator: Operator) -> GroupLeaf | None:
    leaf = _argument(record, operator.group)
    if isinstance(leaf, GroupLeaf):
        return leaf
    name = _text(leaf)
    return GroupLeaf(ranks=(), id=name) if name else None


def _root(record: Record, operator: Operator) -> tuple[int | None, bool]:
    if operator.root is None:
        return None, False
    in_group = record.input_kwargs.get(operator.root.group_keyword)
    if in_group is not None:
        return _number(in_group), True
    return _number(_argument(record, operator.root)), operator.is_functional


def _reduction(record: Record, operator: Operator) -> str:
    if operator.reduction is None:
        return ""
    leaf = _argument(record, operator.reduction)
    if leaf is None:
        return "sum"
    name = _text(leaf).rpartition(".")[2]
    return _REDUCTIONS.get(name.lower(), name or "unknown")


def _splits(record: Record, operator: Operator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    received, sent = operator.splits or (None, None)
    return _sizes(_argument(record, received)), _sizes(_argument(record, sent))


def _sizes(nest: Nest) -> tuple[int, ...]:
    sizes = nest if isinstance(nest, list) else []
    return tuple(number for number in map(_number, sizes) if number is not None)


def _number(leaf: Any) -> int | None:
    return leaf.value if isinstance(leaf, ValueLeaf) and isinstance(leaf.value, int) else None


def _text(leaf: Any) -> str:
    return leaf.value if isinstance(leaf, ValueLeaf) and isinstance(leaf.value, str) else ""
