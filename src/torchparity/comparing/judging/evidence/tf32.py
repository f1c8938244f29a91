"""Recognises TF32: products of float32 whose factors were rounded to 11 bits."""

from __future__ import annotations

from collections.abc import Iterable

from torchparity.comparing.judging.evidence.environment import EnvironmentDifference
from torchparity.comparing.judging.evidence.judged_record import JudgedRecord
from torchparity.comparing.judging.evidence.operator_families import families_of
from torchparity.comparing.judging.evidence.operators import operator_of
from torchparity.comparing.judging.figures import FEWEST_PRODUCTS, LARGEST_OF_TF32, SHARE_OF_PRODUCTS, SMALLEST_OF_TF32
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.naming import is_module_name
from torchparity.records import TensorLeaf

_PRODUCTS = frozenset({"matmul", "attention", "convolution"})
EXPLANATION = "every matmul and convolution has an error of TF32's size"


def looks_like_tf32(finding: Finding, records: Iterable[JudgedRecord]) -> bool:
    """Tell whether a product of float32 is off as TF32 makes it, and nearly every other product among `records` is."""
    if finding.kind is not Kind.OPERATOR or not SMALLEST_OF_TF32 < finding.deviation < LARGEST_OF_TF32:
        return False
    if not is_product(finding.record):
        return False
    products = [
        record
        for record in records
        if record.direction == "forward" and is_product(record.name) and _is_float32(record)
    ]
    off = [record for record in products if record.deviation is not None and record.deviation > SMALLEST_OF_TF32]
    return len(products) >= FEWEST_PRODUCTS and len(off) >= SHARE_OF_PRODUCTS * len(products)


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


def narrow_format(switches: Iterable[EnvironmentDifference]) -> str:
    """Return the name of the format that the switches are for: an NPU's HF32 has a bit more than TF32."""
    return "HF32" if all(entry.key.startswith("hf32.") for entry in switches) else "TF32"
