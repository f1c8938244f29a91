"""Arguments of a call as one flat list of tensors, and a form that says where each of them was.

A form has the nesting of the arguments: tuples, which the garbage collector does not walk as it does
lists, and mappings, in which an int stands for the tensor of that index, a range for a list of many
tensors, and everything else for itself, described as records describe it. One walk serves everybody: who
measures the tensors, who looks for gradients, and who writes the record when the step is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec
import torch

from torchparity.descriptions import describe
from torchparity.records import GroupLeaf

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
MANY = 8  # plain tensors in one list, as optimizers hand them over: looked at together
POINT_TO_POINT: tuple[Any, ...] = (torch.distributed.P2POp,) if torch.distributed.is_available() else ()
_NO_KEYWORDS: dict[str, Any] = {}
_SCALARS = frozenset({bool, int, float, str})
_DEEPEST = 32
_MOST_CONTAINERS = 100_000  # within one argument


class Flat(msgspec.Struct, eq=False, gc=False):
    """Some arguments, walked by the first who asks: their tensors in the order in which they are met, and forms.

    `ranges` are the places of long lists of plain tensors. Not tracked by the garbage collector, like all that
    a call makes and keeps: walking thousands of such objects would cost more than making them.
    """

    args: Sequence[Any]
    kwargs: dict[str, Any]
    tensors: Sequence[torch.Tensor] = ()
    ranges: tuple[range, ...] = ()
    args_form: tuple[Any, ...] | None = None
    kwargs_form: Any = None

    def walked(self) -> Flat:
        """Return the arguments with their tensors and forms."""
        if self.args_form is None:
            tensors: list[torch.Tensor] = []
            self.tensors = tensors
            self.args_form = self._add_all(self.args, tensors)
            if self.kwargs:
                self.kwargs_form = self._add(self.kwargs, tensors)
        return self

    def let_go(self) -> None:
        """Drop the user's objects; forms stay."""
        self.args, self.kwargs, self.tensors = (), _NO_KEYWORDS, ()

    def _add_all(self, values: Sequence[Any], tensors: list[torch.Tensor]) -> tuple[Any, ...]:
        if len(values) >= MANY and _is_list_of_tensors(values):
            return tuple(self._add_range(values, tensors))
        forms: list[Any] = []
        for value in values:
            if type(value) in PLAIN:
                forms.append(len(tensors))
                tensors.append(value)
            else:
                forms.append(None if value is None else self._add(value, tensors))
        return tuple(forms)

    def _add(self, value: Any, tensors: list[torch.Tensor], around: _Around | None = None) -> Any:
        kind = type(value)
        if kind in PLAIN or isinstance(value, torch.Tensor):
            tensors.append(value)
            return len(tensors) - 1
        if value is None or kind in _SCALARS:
            return describe(value)
        if isinstance(value, (list, tuple)) and len(value) >= MANY and _is_list_of_tensors(value):
            return self._add_range(value, tensors)
        if isinstance(value, torch.distributed.ProcessGroup):
            return _group(value)
        entries = _entries(value)
        around = around or _Around()
        if entries is None or not around.enter(value):
            return describe(value)
        form: Any = (
            {key: self._add(entry, tensors, around) for key, entry in entries.items()}
            if isinstance(entries, Mapping)
            else tuple([self._add(entry, tensors, around) for entry in entries])
        )
        around.leave()
        return form

    def _add_range(self, values: Sequence[Any], tensors: list[torch.Tensor]) -> range:
        place = range(len(tensors), len(tensors) + len(values))
        tensors += values
        self.ranges += (place,)
        return place


def flat_output(output: Any) -> Flat:
    """Return what a call returned as if it were arguments: several outputs are a tuple or list."""
    is_several = isinstance(output, (tuple, list)) and not isinstance(output, torch.Size)
    return Flat(output if is_several else (output,), {})


def _is_list_of_tensors(values: Sequence[Any]) -> bool:
    return set(map(type, values)) <= PLAIN


class _Around:
    """The containers around an argument: objects may refer to one another in a circle."""

    __slots__ = ("_inside", "_left")

    def __init__(self) -> None:
        self._inside: list[int] = []
        self._left = _MOST_CONTAINERS

    def enter(self, container: Any) -> bool:
        """Go into a container, unless it is around already, too deep inside, or one of far too many."""
        if id(container) in self._inside or len(self._inside) >= _DEEPEST or not self._left:
            return False
        self._left -= 1
        self._inside.append(id(container))
        return True

    def leave(self) -> None:
        self._inside.pop()


def _entries(value: Any) -> Sequence[Any] | Mapping[str, Any] | None:
    """Return what a container holds, by place or by name; None for what is no container."""
    if isinstance(value, (list, tuple)):
        return None if isinstance(value, torch.Size) else value
    if isinstance(value, Mapping):
        return _named(value)
    if isinstance(value, POINT_TO_POINT):
        return {"op": value.op.__name__, "tensor": value.tensor, "peer": value.peer, "group": value.group}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in fields(value)}  # one may not be there
    return None


def _named(entries: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a mapping with keys that can be parts of item names, in which a dot separates; no two become one."""
    named: dict[str, Any] = {}
    for key, entry in entries.items():
        name = str(key).replace(".", "_")
        while name in named:
            name += "_"
        named[name] = entry
    return named


def _group(group: Any) -> GroupLeaf:
    ranks = torch.distributed.get_process_group_ranks(group)
    return GroupLeaf(ranks=tuple(ranks), id=getattr(group, "group_name", None))


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors among arguments, in lists and mappings too, each of which is looked into once."""
    waiting, visited = [value], set[int]()
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, torch.Tensor):
            yield entry
        elif isinstance(entry, (list, tuple, Mapping)) and id(entry) not in visited:
            visited.add(id(entry))
            waiting += [*(entry.values() if isinstance(entry, Mapping) else entry)][::-1]
        elif isinstance(entry, POINT_TO_POINT):
            yield entry.tensor
