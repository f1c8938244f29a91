"""Dtypes of a reference: one step wider than the widest of the call, fp16 and bf16 to fp32, fp32 to fp64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from torchparity.check.cases import Arguments, Case, DtypeWord

_NARROW = 2  # bytes of the widest dtype that fp32 is the reference of
_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}
_REAL_BYTES = {torch.complex32: 2, torch.complex64: 4, torch.complex128: 8}
# Functions whose result is the dtype itself: raised, they would answer another question.
_BY_DTYPE = frozenset(
    {"nextafter", "nan_to_num", "nan_to_num_", "to_sparse", "element_size", "frexp", "_make_dual", "can_cast"}
)
_CONVERSIONS = frozenset({"to", "type", "type_as", "half", "float", "bfloat16", "double", "int", "long", "_to_copy"})
_REINTERPRETING = frozenset({"view", "view_dtype"})
_QUANTIZING = ("quantize", "fake_quant", "_scaled_mm", "_int_mm")


@dataclass(frozen=True)
class Emulated:
    """Rounding of a dtype to emulate inside a run of higher precision; `number` is that of the sample.

    Inputs that are exact are not moved; Python's numbers are rounded to the dtype instead, as a kernel may take them.
    """

    tested: torch.dtype
    number: int
    api: str
    has_exact_inputs: bool = False


@dataclass(frozen=True)
class Way:
    """One way to run a call: where, and with floating-point arguments of which dtype; None leaves them as they are."""

    device: torch.device
    raised: torch.dtype | None = None
    raises_words: bool = True  # False for conversions, whose dtype is what they are asked for
    emulated: Emulated | None = None
    tf32: int | None = None  # the variant of TF32 that products are computed in

    def dtype(self, dtype: torch.dtype) -> torch.dtype:
        """Return the dtype that takes the place of a recorded one."""
        if self.raised is None or not (dtype.is_floating_point or dtype.is_complex):
            return dtype
        return _COMPLEX[self.raised] if dtype.is_complex else self.raised


def reference_way(case: Case, arguments: Arguments) -> Way:
    """Return the way in which the reference is run."""
    raised = None if _depends_on_dtype(case, arguments) else reference_dtype(arguments)
    return Way(torch.device("cpu"), raised, raises_words=case.operator not in _CONVERSIONS)


def reference_dtype(arguments: Arguments) -> torch.dtype:
    """Return fp32 where everything is narrower than that, else fp64."""
    widths = list(_widths(arguments))
    return torch.float32 if widths and max(widths) <= _NARROW else torch.float64


def _widths(arguments: Arguments) -> Iterator[int]:
    dtypes = [given.tensor.dtype for given in arguments.inputs()]
    dtypes += [word.dtype for word in _dtypes_in([arguments.args, arguments.kwargs])]
    for dtype in dtypes:
        if dtype.is_floating_point or dtype.is_complex:
            yield _REAL_BYTES.get(dtype, dtype.itemsize)


def _depends_on_dtype(case: Case, arguments: Arguments) -> bool:
    if case.operator in _REINTERPRETING and _dtypes_in([arguments.args, arguments.kwargs]):
        return True
    return case.operator in _BY_DTYPE or any(word in case.operator for word in _QUANTIZING)


def _dtypes_in(nest: Any) -> list[DtypeWord]:
    if isinstance(nest, DtypeWord):
        return [nest]
    if isinstance(nest, dict):
        nest = list(nest.values())
    if isinstance(nest, (list, tuple)):
        return [found for entry in nest for found in _dtypes_in(entry)]
    return []
