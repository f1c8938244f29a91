"""Names of records and items, as text and as parts; canonical operator names.

Functional.conv2d.1.forward                an API: type, operator, call, direction
Module.layer1.0.Conv2d.forward.0           a module: path, class, direction, call
Module.fc.Linear.parameters_grad[.0]       gradients of a module's parameters
hidden.0.debug                             a single point saved by the user
Functional_conv2d_1_forward                ptdbg's spelling of an API
    Functional.conv2d.1.backward#2             the second backward through that call
    Functional.conv2d.0.forward#recompute      a forward done again for activation checkpointing
<record>.input.0.key                       an item: role, then the path inside the argument
<ptdbg record>_input.0                     ptdbg's spelling of an item
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from torchparity.errors import RecordNameError

Direction = Literal["forward", "backward", "parameters_grad", "debug"]

_API = re.compile(r"(?P<type>\w+)\.(?P<operator>.+)\.(?P<call>\d{1,18})\.(?P<direction>forward|backward)", re.ASCII)
_MODULE = re.compile(
    r"Module\.(?:(?P<path>.+)\.)?(?P<cls>[^.]+)\."
    r"(?:(?P<direction>forward|backward)\.(?P<call>\d{1,18})|(?P<grad>parameters_grad)(?:\.(?P<event>\d{1,18}))?)",
    re.ASCII,
)
_DEBUG = re.compile(r"(?P<operator>.+)\.(?P<call>\d{1,18})\.debug", re.ASCII)
_PTDBG = re.compile(
    r"(?P<type>[A-Za-z][A-Za-z0-9]*)_(?P<operator>.+)_(?P<call>\d{1,18})_(?P<direction>forward|backward)", re.ASCII
)
_GRADIENT_ITEM = re.compile(
    r"(?P<record>Module\..+\.parameters_grad(?:\.\d{1,18})?)\.(?P<item>[^.]+(?:\..+)?)", re.ASCII
)
_DEBUG_ITEM = re.compile(r"(?P<record>.+\.\d+\.debug)(?:\.(?P<item>.+))?", re.ASCII)

_MARKED = re.compile(r"(?P<name>[^#]+)#(?P<mark>\d{1,9}|recompute)", re.ASCII)
_LONGEST_NAME = 4096  # matching takes quadratic time in the worst case


@dataclass(frozen=True)
class RecordName:
    """The parts of a record's name; `str()` gives msprobe's spelling, `ptdbg()` the older one.

    For a module `operator` is its path inside the model ("" for the model itself)
    and `module_class` its class. `call` is None only where the tool wrote no number
    (parameters_grad of msprobe 8). `mark` tells records apart that would share a name:
    "2" is the second backward through the same call, "recompute" a forward done again for
    activation checkpointing.
    """

    api_type: str
    operator: str
    call: int | None
    direction: Direction
    module_class: str | None = None
    mark: str | None = None

    def __str__(self) -> str:
        return self._plain() + (f"#{self.mark}" if self.mark else "")

    def _plain(self) -> str:
        if self.direction == "debug":
            return f"{self.operator}.{self.call}.debug"
        if self.module_class is None:
            return f"{self.api_type}.{self.operator}.{self.call}.{self.direction}"
        parts = [
            "Module",
            self.operator,
            self.module_class,
            self.direction,
            "" if self.call is None else str(self.call),
        ]
        return ".".join(part for part in parts if part)

    def ptdbg(self) -> str:
        """Return the underscore spelling, which exists for APIs only."""
        if self.module_class is not None or self.direction not in ("forward", "backward"):
            raise RecordNameError(f"{self} has no spelling with underscores; only APIs have one.")
        return f"{self.api_type}_{self.operator}_{self.call}_{self.direction}"

    @property
    def canonical(self) -> RecordName:
        """The same record with its operator's canonical name."""
        if self.module_class is not None or self.direction == "debug":
            return self
        return replace(self, operator=canonical_operator(self.operator))


def parse_record(text: str) -> RecordName:
    """Return the parts of a record name in either spelling; raise `RecordNameError` if it is neither."""
    if len(text) > _LONGEST_NAME:
        raise RecordNameError(f"a name of {len(text)} characters is too long; it begins {text[:60]!r}.")
    if found := _MARKED.fullmatch(text):
        return replace(parse_record(found["name"]), mark=found["mark"])
    if text.startswith("Module.") and (found := _MODULE.fullmatch(text)):
        call = found["call"] or found["event"]
        direction: Any = found["direction"] or found["grad"]
        return RecordName("Module", found["path"] or "", int(call) if call else None, direction, found["cls"])
    for grammar in (_API, _PTDBG):
        if found := grammar.fullmatch(text):
            direction = found["direction"]
            return RecordName(found["type"], found["operator"], int(found["call"]), direction)
    if found := _DEBUG.fullmatch(text):
        return RecordName("", found["operator"], int(found["call"]), "debug")
    raise RecordNameError(
        f"{text!r} is not the name of a record; names look like 'Functional.conv2d.0.forward', "
        "'Module.layer1.Conv2d.forward.0' or 'hidden.0.debug'."
    )


def split_item(text: str) -> tuple[RecordName, str]:
    """Split an item's full name into its record and the item's name inside the record."""
    if len(text) > _LONGEST_NAME:
        raise RecordNameError(f"a name of {len(text)} characters is too long; it begins {text[:60]!r}.")
    if "parameters_grad" in text and (found := _GRADIENT_ITEM.fullmatch(text)):
        return parse_record(found["record"]), found["item"]
    for record, item in _item_splits(text):
        try:
            return parse_record(record), item
        except RecordNameError:
            continue
    if found := _DEBUG_ITEM.fullmatch(text):
        return parse_record(found["record"]), found["item"] or ""
    raise RecordNameError(
        f"{text!r} is not the name of an item; items look like 'Functional.conv2d.0.forward.input.0' "
        "or 'Module.fc.Linear.forward.0.parameters.bias'."
    )


def _item_splits(text: str) -> Iterator[tuple[str, str]]:
    """Yield every way to cut `text` in front of a role: a module may itself be called `input`."""
    for cut in re.finditer(r"[._](?=(?:input|output|parameters)(?:\.|$))", text):
        yield text[: cut.start()], text[cut.end() :]


def flatten(prefix: str, value: Any, is_leaf: type | tuple[type, ...]) -> Iterator[tuple[str, Any]]:
    """Yield (item name, leaf) for every leaf of a nested argument.

    List elements append `.j`, mapping entries `.key`; an empty list or mapping is a leaf,
    as is everything that `is_leaf` names, None, and anything that is not a container.
    """
    entries: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        entries = value.items()
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        entries = enumerate(value)
    if isinstance(value, is_leaf) or not entries or not len(value):
        yield prefix, value
        return
    for key, entry in entries:
        yield from flatten(f"{prefix}.{key}", entry, is_leaf)


def canonical_operator(operator: str) -> str:
    """Return the one name of an operator that tools and torch aliases spell differently.

    `__add__` and `__radd__` are add, `__iadd__` is add_, `multiply` is mul. Reflected
    operators that do not commute keep their r: `__rsub__` is rsub.
    """
    namespace, dot, name = operator.rpartition(".")
    return namespace + dot + _canonical(name)


def _canonical(name: str) -> str:
    if name.startswith("__") and name.endswith("__") and len(name) > 4:
        name = name[2:-2]
        if name in _SPELLING:
            return _SPELLING[name]
        if name[:1] == "i" and (name[1:] in _SPELLING or name[1:] in _ARITHMETIC):
            return _SPELLING.get(name[1:], name[1:]) + "_"
        if name[:1] == "r" and name[1:] in _COMMUTING:
            return _SPELLING.get(name[1:], name[1:])
        return {"rtruediv": "rdiv", "rfloordiv": "rfloor_divide", "rmod": "rremainder"}.get(name, name)
    stem, in_place = (name[:-1], "_") if name.endswith("_") and not name.endswith("__") else (name, "")
    return _ALIAS.get(stem, stem) + in_place


_ARITHMETIC = {"add", "sub", "mul", "matmul", "pow"}
_COMMUTING = {"add", "mul", "and", "or", "xor"}
_SPELLING = {
    "truediv": "div",
    "div": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
    "invert": "bitwise_not",
    "pos": "positive",
}
_ALIAS = {
    "true_divide": "div",
    "divide": "div",
    "multiply": "mul",
    "subtract": "sub",
    "negative": "neg",
    "absolute": "abs",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctanh": "atanh",
    "arctan2": "atan2",
    "concat": "cat",
    "concatenate": "cat",
    "clip": "clamp",
    "fix": "trunc",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "moveaxis": "movedim",
    "ger": "outer",
    "inverse": "inv",
}
