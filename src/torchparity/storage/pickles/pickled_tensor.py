"""Reading the pickle inside a .pt file as data: opcodes are decoded, nothing is called.

A tensor saved by torch needs a handful of opcodes and names. Anything else is refused
by its name, so a file that asks for `os.system` is answered with a sentence.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchparity.errors import DamagedFileError, UnsafeFileError
from torchparity.tensors import DTYPES

_LONGEST_PICKLE = 1 << 20
_MOST_DIMENSIONS = 64
_STORAGES = {
    "BoolStorage": "torch.bool",
    "ByteStorage": "torch.uint8",
    "CharStorage": "torch.int8",
    "ShortStorage": "torch.int16",
    "IntStorage": "torch.int32",
    "LongStorage": "torch.int64",
    "HalfStorage": "torch.float16",
    "BFloat16Storage": "torch.bfloat16",
    "FloatStorage": "torch.float32",
    "DoubleStorage": "torch.float64",
    "ComplexFloatStorage": "torch.complex64",
    "ComplexDoubleStorage": "torch.complex128",
}


@dataclass(frozen=True)
class PickledTensor:
    """A view into a storage: which file of the archive, and how its elements are laid out."""

    dtype: str
    storage: str
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    conjugate: bool = False
    negative: bool = False


@dataclass(frozen=True)
class _Name:
    text: str


@dataclass(frozen=True)
class _Storage:
    dtype: str | None
    key: str


class _Refused(Exception):
    """The pickle contains something that a tensor does not need."""


def read_pickle(content: bytes, path: Path | str) -> PickledTensor:
    """Return the one tensor a pickle describes; raise for anything that is not exactly that."""
    if len(content) > _LONGEST_PICKLE:
        raise UnsafeFileError(path, f"its pickle has {len(content)} bytes, far more than one tensor needs")
    try:
        result = _run(content)
    except _Refused as refusal:
        raise UnsafeFileError(path, f"its pickle {refusal}, which a tensor does not need; nothing was run") from None
    except (ValueError, IndexError, KeyError, TypeError, UnicodeDecodeError, OverflowError) as error:
        raise DamagedFileError(path, f"its pickle cannot be read ({str(error)[:120]})") from None
    if not isinstance(result, PickledTensor):
        raise DamagedFileError(path, f"it holds {_kind(result)}, not one tensor")
    return result


@lru_cache(maxsize=1024)
def _run(content: bytes) -> Any:
    """Run a pickle; cached, since tensors of one dtype and shape have identical pickles."""
    return _Machine().run(content)


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}" if isinstance(value, (dict, list, tuple)) else "something else"


class _Machine:
    """A pickle machine with the opcodes that build data, and none that could run code."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._actions: dict[str, Callable[[Any], None]] = {
            "GLOBAL": self._global,
            "STACK_GLOBAL": self._stack_global,
            "BINPERSID": self._binpersid,
            "REDUCE": self._reduce,
            "BUILD": lambda _: self._drop(),
            "MARK": lambda _: self._marks.append(len(self._stack)),
            "TUPLE": lambda _: self._stack.append(tuple(self._since_mark())),
            "TUPLE1": lambda _: self._tuple(1),
            "TUPLE2": lambda _: self._tuple(2),
            "TUPLE3": lambda _: self._tuple(3),
            "SETITEM": lambda _: self._set_items([self._stack.pop(), self._stack.pop()][::-1]),
            "SETITEMS": lambda _: self._set_items(self._since_mark()),
            "APPEND": lambda _: self._append([self._stack.pop()]),
            "APPENDS": lambda _: self._append(self._since_mark()),
            "BINPUT": self._put,
            "LONG_BINPUT": self._put,
            "MEMOIZE": lambda _: self._put(len(self._memo)),
            "BINGET": lambda slot: self._stack.append(self._memo[slot]),
            "LONG_BINGET": lambda slot: self._stack.append(self._memo[slot]),
        }

    def run(self, content: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(content):
            if opcode.name in _LITERALS:
                self._stack.append(argument)
            elif opcode.name in _CONSTANTS:
                self._stack.append(_CONSTANTS[opcode.name]())
            elif opcode.name == "STOP":
                return self._stack.pop()
            elif opcode.name in self._actions:
                self._actions[opcode.name](argument)
            elif opcode.name not in ("PROTO", "FRAME"):
                raise _Refused(f"uses the opcode {opcode.name}")
        raise ValueError("it does not end")

    def _global(self, argument: str) -> None:
        self._stack.append(_Name(_allowed(argument.replace(" ", "."))))

    def _stack_global(self, _: Any) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise ValueError("a name is not a text")
        self._stack.append(_Name(_allowed(f"{module}.{name}")))

    def _binpersid(self, _: Any) -> None:
        self._stack.append(_storage(self._stack.pop()))

    def _reduce(self, _: Any) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        if not isinstance(function, _Name) or not isinstance(arguments, tuple) or function.text not in _REBUILD:
            raise _Refused(f"calls {getattr(function, 'text', 'something')!r}")
        self._stack.append(_REBUILD[function.text](*arguments))

    def _drop(self) -> None:
        self._stack.pop()  # attributes of a tensor (hooks, names) say nothing about its values

    def _tuple(self, size: int) -> None:
        if len(self._stack) < size:
            raise ValueError("a tuple lacks entries")
        self._stack[-size:] = [tuple(self._stack[-size:])]

    def _set_items(self, pairs: list[Any]) -> None:
        if not isinstance(self._stack[-1], dict):
            raise ValueError("it sets an entry of something that is no mapping")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            self._stack[-1][_plain(key)] = value

    def _append(self, values: list[Any]) -> None:
        if not isinstance(self._stack[-1], list):
            raise ValueError("it appends to something that is no list")
        self._stack[-1].extend(values)

    def _put(self, slot: int) -> None:
        self._memo[slot] = self._stack[-1]

    def _since_mark(self) -> list[Any]:
        at = self._marks.pop()
        values = self._stack[at:]
        del self._stack[at:]
        return values


_NUMBERS = ("BININT", "BININT1", "BININT2", "LONG1", "INT", "LONG", "BINFLOAT")
_TEXTS = ("BINUNICODE", "SHORT_BINUNICODE", "UNICODE", "SHORT_BINSTRING")
_LITERALS = frozenset((*_NUMBERS, *_TEXTS))
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}


def _allowed(name: str) -> str:
    if name in _REBUILD or name == "torch.storage.UntypedStorage" or name in DTYPES:
        return name
    if name.removeprefix("torch.") in _STORAGES:
        return name
    raise _Refused(f"names {name[:100]!r}")


def _plain(key: Any) -> str | int:
    if isinstance(key, (str, int)):
        return key
    raise ValueError("a key is neither text nor a number")


def _storage(reference: Any) -> _Storage:
    if not isinstance(reference, tuple) or len(reference) != 5 or reference[0] != "storage":
        raise _Refused("refers to something outside the file")
    kind, key = reference[1], reference[2]
    if not isinstance(kind, _Name) or not isinstance(key, str):
        raise ValueError("a storage has no type or no name")
    return _Storage(_STORAGES.get(kind.text.removeprefix("torch.")), key)


def _tensor(
    storage: Any,
    offset: Any,
    shape: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    dtype: Any = None,
    metadata: Any = None,
) -> PickledTensor:
    if isinstance(dtype, dict):  # the older form has metadata at this place
        dtype, metadata = None, dtype
    name = dtype.text if isinstance(dtype, _Name) else getattr(storage, "dtype", None)
    if not isinstance(storage, _Storage) or name not in DTYPES:
        raise ValueError("a tensor has no storage or an unknown dtype")
    if not _is_geometry(shape) or not _is_geometry(stride) or not _is_geometry((offset,)) or len(shape) != len(stride):
        raise ValueError("a tensor's offset, shape or stride is not one")
    flags = metadata if isinstance(metadata, dict) else {}
    return PickledTensor(
        name, storage.key, offset, tuple(shape), tuple(stride), flags.get("conj") is True, flags.get("neg") is True
    )


def _is_geometry(numbers: Any) -> bool:
    """Tell whether these are sizes. Checked before anything is printed: nested references can be endless."""
    if not isinstance(numbers, (tuple, list)) or len(numbers) > _MOST_DIMENSIONS:
        return False
    return all(type(number) is int and 0 <= number < 1 << 63 for number in numbers)


def _parameter(data: Any, *_: Any) -> Any:
    return data


def _mapping(*_: Any) -> dict[Any, Any]:
    return {}


_REBUILD: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor,
    "torch._utils._rebuild_parameter": _parameter,
    "collections.OrderedDict": _mapping,
}
