"""Recognises TF32: products of float32 whose factors were rounded to 11 bits."""

from __future__ import annotations

from collections.abc import Iterable

from torchparity.comparing.judging.evidence.environment import EnvironmentDifference
from torchparity.comparing.judging.evidence.judged_record import JudgedRecord
from torchparity.comparing.judging.evidence.operator_families import families_of
from torchparity.comparing.judging.evidence.operators import operator_of
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.naming import is_module_name
from torchparity.records import TensorLeaf

# Rounding both factors to 11 bits makes a product off by about 2^-12 of its norm, whatever is added up.
_SMALLEST, _LARGEST = 2.0**-15, 2.0**-9
_FEWEST_PRODUCTS = 3
_SHARE = 0.9
_PRODUCTS = frozenset({"matmul", "attention", "convolution"})
EXPLANATION = "every matmul and convolution has an error of TF32's size"


def looks_like_tf32(finding: Finding, records: Iterable[JudgedRecord]) -> bool:
    """Tell whether a product of float32 is off as TF32 makes it, and nearly every other product among `records` is."""
    if finding.kind is not Kind.OPERATOR or not _SMALLEST < finding.deviation < _LARGEST:
        return False
    if not is_product(finding.record):
        return False
    products = [
        record
        for record in records
        if record.direction == "forward" and is_product(record.name) and _is_float32(record)
    ]
    off = [record for record in products if record.deviation is not None and record.deviation > _SMALLEST]
    return len(products) >= _FEWEST_PRODUCTS and len(off) >= _SHARE * len(products)


def of_tf32(differences: Iterable[EnvironmentDifference]) -> list[EnvironmentDifference]:
    """Return the differences that say where TF32, or a device's like of it, is on in one run alone."""
    return [entry for entry in differences if entry.key.startswith(("tf32.", "hf32."))]


def is_product(record: str) -> bool:
    """Tell whether a record is of a matmul, an attention or a convolution."""
    return not is_module_name(record) and bool(_PRODUCTS & families_of(operator_of(record)))


def _is_float32(record: JudgedRecord) -> bool:
    for entry in record.items:
        for side in (entry.candidate, entry.baseline):
            if not entry.is_input and side is not None and isinstance(side.leaf, TensorLeaf):
                return side.leaf.dtype == "torch.float32"
    return False
