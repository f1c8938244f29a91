"""Names of records and items, as text and as parts.

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
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from torchparity.errors import RecordNameError
from torchparity.spellings import canonical_operator

Direction = Literal["forward", "backward", "parameters_grad", "debug"]

OPTIMIZER: Final = "optimizer"  # stands for the enclosing module of the calls that an optimizer makes
RECOMPUTE: Final = "recompute"  # marks a forward done again for activation checkpointing
RECOMPUTE_MARK: Final = f"#{RECOMPUTE}"  # as a name ends with it

# Texts, which `re` compiles and keeps when they are first used: reading a run needs few of them.
_API = r"(?a)(?P<type>\w+)\.(?P<operator>.+)\.(?P<call>\d{1,18})\.(?P<direction>forward|backward)"
_MODULE = (
    r"(?a)Module\.(?:(?P<path>.+)\.)?(?P<cls>[^.]+)\."
    r"(?:(?P<direction>forward|backward)\.(?P<call>\d{1,18})|(?P<grad>parameters_grad)(?:\.(?P<event>\d{1,18}))?)"
)
_MODULE_AS_API = r"(?a)(?P<module>Module\..+)\.(?P<call>\d{1,18})(?:\.(?P<direction>forward|backward))?"
_DEBUG = r"(?a)(?P<operator>.+)\.(?P<call>\d{1,18})\.debug"
_PTDBG = r"(?a)(?P<type>[A-Za-z][A-Za-z0-9]*)_(?P<operator>.+)_(?P<call>\d{1,18})_(?P<direction>forward|backward)"
_GRADIENT_ITEM = r"(?a)(?P<record>Module\..+\.parameters_grad(?:\.\d{1,18})?)\.(?P<item>[^.]+(?:\..+)?)"
_DEBUG_ITEM = r"(?a)(?P<record>.+\.\d+\.debug)(?:\.(?P<item>.+))?"
_MARKED = r"(?a)(?P<name>[^#]+)#(?P<mark>\d{1,9}|recompute)"
_CALL_NAME = re.compile(r".+\.\d+\.(forward|backward)|Module\..+\.(forward|backward)\.\d+")
# The end of a name: only there is a direction a direction, a module or an operator may be called `forward` too.
_ENDING = re.compile(
    r"(?:\.\d{1,18})?\.(?P<direction>forward|backward|parameters_grad)(?:\.\d{1,18})?(?P<mark>#[^#.]*)?\Z",
    re.ASCII,
)
_LONGEST_NAME = 4096  # matching takes quadratic time in the worst case
_PARSED_NAMES = 4096  # parsed names that are cached: a run of a model has a few thousand


class RecordName(msgspec.Struct, frozen=True, gc=False):
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
        call = "" if self.call is None else str(self.call)
        if self.direction == "debug":
            parts = [self.operator, call, self.direction]
        elif self.module_class is None:
            parts = [self.api_type, self.operator, call, self.direction]
        else:
            parts = ["Module", self.operator, self.module_class, self.direction, call]
        return ".".join(part for part in parts if part)

    @property
    def is_module(self) -> bool:
        """True where this is a record of a module, not of an API or of a single point."""
        return self.module_class is not None

    @property
    def is_recompute(self) -> bool:
        """True where the call was done again for activation checkpointing."""
        return self.mark == RECOMPUTE

    @property
    def forward(self) -> RecordName:
        """The forward record of this call; a second backward through it belongs to the same forward."""
        return replace(self, direction="forward", mark=self.mark if self.is_recompute else None)

    @property
    def backward(self) -> RecordName:
        """The first backward record of this call."""
        return replace(self, direction="backward")

    @property
    def without_call(self) -> str:
        """The name without the number of the call: `Functional.conv2d.forward`."""
        return str(replace(self, call=None))

    @property
    def family(self) -> str:
        """The name that all calls share in both directions: `Functional.conv2d`, `Module.layer1.0.Conv2d`."""
        return ".".join(part for part in (self.api_type, self.operator, self.module_class) if part)

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


@lru_cache(maxsize=_PARSED_NAMES)
def parse_record(text: str) -> RecordName:
    """Return the parts of a record name in either spelling; raise `RecordNameError` if it is neither."""
    if len(text) > _LONGEST_NAME:
        raise RecordNameError(f"a name of {len(text)} characters is too long; it begins {text[:60]!r}.")
    if "#" in text and (parts := re.fullmatch(_MARKED, text)):
        return replace(parse_record(parts["name"]), mark=parts["mark"])
    if is_module_name(text) and (parts := re.fullmatch(_MODULE, text)):
        call = parts["call"] or parts["event"]
        direction: Any = parts["direction"] or parts["grad"]
        return RecordName("Module", parts["path"] or "", int(call) if call else None, direction, parts["cls"])
    for grammar in (_API, _PTDBG):
        if parts := re.fullmatch(grammar, text):
            direction = parts["direction"]
            return RecordName(parts["type"], parts["operator"], int(parts["call"]), direction)
    if parts := re.fullmatch(_DEBUG, text):
        return RecordName("", parts["operator"], int(parts["call"]), "debug")
    raise RecordNameError(
        f"{text!r} is not the name of a record; names look like 'Functional.conv2d.0.forward', "
        "'Module.layer1.Conv2d.forward.0' or 'hidden.0.debug'."
    )


def is_module_name(text: str) -> bool:
    """Tell whether a record's name is that of a module; it is not checked further."""
    return text.startswith("Module.")


def is_call_name(text: str) -> bool:
    """Tell the whole name of a call's record, of whatever family, from a part of one."""
    return _CALL_NAME.fullmatch(text) is not None


def is_forward_name(text: str) -> bool:
    """Tell whether a record's name is that of a forward call."""
    ending = _ENDING.search(text)
    return ending is not None and ending["direction"] == "forward"


def is_parameter_gradient(text: str) -> bool:
    """Tell whether a record's name is that of gradients of a module's parameters."""
    ending = _ENDING.search(text)
    return ending is not None and ending["direction"] == "parameters_grad"


def backward_of(forward: str) -> str:
    """Return the name of the first backward record of a forward call; a name without a direction stays as it is."""
    return _turned(forward, "forward", "backward")


def forward_of(backward: str) -> str:
    """Return the name of the forward call of a backward record; a name without a direction stays as it is."""
    name, _, mark = backward.partition("#")
    return _turned(name if mark.isdecimal() else backward, "backward", "forward")


def _turned(name: str, direction: str, other: str) -> str:
    if name.endswith(f".{direction}"):  # most names
        return f"{name[: -len(direction)]}{other}"
    ending = _ENDING.search(name)
    if ending is None or ending["direction"] != direction:
        return name
    return name[: ending.start("direction")] + other + name[ending.end("direction") :]


def call_of(forward: str) -> str:
    """Return a call's name without its direction, as forward_info has it: `Functional.conv2d.0`; a mark stays."""
    name, hash_sign, mark = forward.partition("#")
    return f"{name.removesuffix('.forward')}{hash_sign}{mark}"


def forward_of_call(call: str) -> str:
    """Return the forward record of a call named without a direction, whether dots, `*` or underscores part its name."""
    name, hash_sign, mark = call.replace("*", ".").partition("#")
    dotted = f"{name}.forward{hash_sign}{mark}"
    try:
        return str(parse_record(dotted))
    except RecordNameError:
        return str(parse_record(f"{name}_forward"))


def without_call(name: str) -> str:
    """Return a record's name without the number of its call; direction and mark stay."""
    ending = _ENDING.search(name)
    return name if ending is None else f"{name[: ending.start()]}.{ending['direction']}{ending['mark'] or ''}"


def family_of(name: str) -> str:
    """Return what all calls share in both directions, as `RecordName.family`; a name of no grammar stays as it is."""
    ending = _ENDING.search(name)
    return name if ending is None else name[: ending.start()]


def call_spellings(beginning: str) -> list[str]:
    """Return a beginning of names as records spell it: modules have the direction before the number of the call.

    `Module.fc.Linear.0.forward`, in the order of an API's name, stands for `Module.fc.Linear.forward.0` too.
    """
    parts = re.fullmatch(_MODULE_AS_API, beginning) if is_module_name(beginning) else None
    if parts is None:
        return [beginning]
    directions = [parts["direction"]] if parts["direction"] else ["forward", "backward"]
    return [beginning, *(f"{parts['module']}.{direction}.{parts['call']}" for direction in directions)]


def split_item(text: str) -> tuple[RecordName, str]:
    """Split an item's full name into its record and the item's name inside the record."""
    if len(text) > _LONGEST_NAME:
        raise RecordNameError(f"a name of {len(text)} characters is too long; it begins {text[:60]!r}.")
    if "parameters_grad" in text and (parts := re.fullmatch(_GRADIENT_ITEM, text)):
        return parse_record(parts["record"]), parts["item"]
    for record, item in _item_splits(text):
        try:
            return parse_record(record), item
        except RecordNameError:
            continue
    if parts := re.fullmatch(_DEBUG_ITEM, text):
        return parse_record(parts["record"]), parts["item"] or ""
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
