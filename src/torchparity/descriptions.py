"""Leaves of a record for arguments that are neither tensors nor containers."""

from __future__ import annotations

from typing import Any

from torchparity.records import TensorLeaf, ValueLeaf

_SCALARS: dict[type, str] = {kind: kind.__name__ for kind in (bool, int, float, str)}


def describe(value: Any) -> ValueLeaf | TensorLeaf | None:
    """Return the leaf for an argument that is not a tensor, a process group or a container.

    Works on torch's own small types by their type's name, so torch is not imported.
    """
    if value is None:
        return None
    kind = type(value)
    if kind in _SCALARS:
        return ValueLeaf(_SCALARS[kind], value)
    if kind.__module__ == "numpy" and hasattr(value, "dtype"):
        return _describe_numpy(kind.__name__, value)
    if isinstance(value, (bool, int, float, str)):
        plain = next(kind for kind in (bool, int, float, str) if isinstance(value, kind))
        return ValueLeaf(plain.__name__, plain(value))
    if isinstance(value, complex):
        return ValueLeaf("complex", [value.real, value.imag])
    if isinstance(value, slice):
        return ValueLeaf("slice", [_bound(value.start), _bound(value.stop), _bound(value.step)])
    if value is Ellipsis:
        return ValueLeaf("Ellipsis")
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name == "torch.Size":
        return ValueLeaf(name, [int(size) for size in value])
    if name in ("torch.dtype", "torch.device", "torch.memory_format", "torch.layout"):
        return ValueLeaf(name, str(value))
    if name.endswith((".ReduceOp", ".RedOpType")):
        return ValueLeaf("torch.distributed.ReduceOp", str(getattr(value, "op", value)))
    return ValueLeaf(name)


def _describe_numpy(name: str, scalar: Any) -> ValueLeaf | TensorLeaf:
    """Return the leaf of an array, or of a NumPy scalar; complex ones become a pair, as `complex` does."""
    if name == "ndarray":
        return TensorLeaf(type="numpy.ndarray", dtype=str(scalar.dtype), shape=tuple(scalar.shape))
    plain = scalar.item()
    if isinstance(plain, complex):
        return ValueLeaf(name, [plain.real, plain.imag])
    return ValueLeaf(name, plain if isinstance(plain, (bool, int, float, str)) else str(plain))


def _bound(bound: Any) -> int | str | None:
    """Return a slice's bound; a tensor's type only, since reading its value would wait for the device."""
    if bound is None or isinstance(bound, int):
        return bound
    return int(bound) if type(bound).__module__ == "numpy" else type(bound).__name__
