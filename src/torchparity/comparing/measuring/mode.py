"""Chooses what two parts are compared by: values, checksums or statistics, whichever both runs hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Literal

from torchparity.records import Record
from torchparity.storage import RunPart

Mode = Literal["values", "statistics", "checksums"]
_RECORDS_LOOKED_AT = 2000
_MOST_WITHOUT_NEWS = 100  # records in a row that hold what is held already; a task is chosen for a whole run
_SIDES = ("candidate", "baseline")
_WORDS = {"values": "values", "crc": "checksums", "xor": "xor checksums", "statistics": "statistics"}
_MODES: Mapping[str, Mode] = {"values": "values", "crc": "checksums", "xor": "checksums", "statistics": "statistics"}
_KINDS = tuple(_MODES)  # what can be held of a tensor, the best first


def mode_of(candidate: RunPart, baseline: RunPart) -> tuple[Mode, list[str]]:
    """Return what both runs can be compared by, and a sentence where that is less than one of them holds."""
    held = [_held(part.records.values()) for part in (candidate, baseline)]
    for kind in _KINDS:
        if all(kind in kinds for kinds in held):
            richer = [name for name, kinds in zip(_SIDES, held, strict=True) if _best(kinds) != kind]
            return _MODES[kind], [_weaker(kind, richer)] if richer else []
    if not all(held):
        return "statistics", []
    each = " and ".join(f"the {side} {_WORDS[_best(kinds)]}" for side, kinds in zip(_SIDES, held, strict=True))
    return "statistics", [f"the runs have nothing in common to compare by: {each}."]


def _best(kinds: set[str]) -> str:
    return next((kind for kind in _KINDS if kind in kinds), "statistics")


def _weaker(kind: str, richer: Sequence[str]) -> str:
    if len(richer) > 1:
        return f"the runs hold different things; both are compared by their {_WORDS[kind]}."
    return f"the {richer[0]} holds more than the other run; both are compared by their {_WORDS[kind]}."


def _held(records: Iterable[Record]) -> set[str]:
    """Return what a run holds of its tensors, as far as its first records tell."""
    kinds: set[str] = set()
    without_news = 0
    for record in islice(records, _RECORDS_LOOKED_AT):
        held = _held_of(record)
        without_news = without_news + 1 if held and held <= kinds else 0
        if without_news > _MOST_WITHOUT_NEWS:
            break
        kinds |= held
    return kinds


def _held_of(record: Record) -> set[str]:
    kinds: set[str] = set()
    for leaf in record.tensors():
        if leaf.data_name is not None:
            kinds.add("values")
        if leaf.checksum is not None:  # CRC-32, or 64 bits of another kind: one is never the other
            kinds.add("xor" if leaf.checksum.startswith("0x") else "crc")
        if leaf.statistics is not None:
            kinds.add("statistics")
    return kinds
