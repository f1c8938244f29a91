"""The answer to a comparison as one JSON object for programs: `compare --json`. docs/verdicts.md has the schema."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from torchparity.comparing.judging.verdict import Finding
from torchparity.comparing.judging.wording.exit_codes import FailOn, exit_code
from torchparity.comparing.runs import Comparison
from torchparity.comparing.step_lines import StepNumbers, step_numbers
from torchparity.records import number_to_json
from torchparity.version import __version__

SCHEMA = 2
MOST_BYTES = 64 * 1024
# Longest text and longest list, from what is hardly ever needed to what always fits.
_LIMITS = ((4000, 200), (1000, 50), (300, 20), (100, 8), (40, 4))
_SIDES = ("candidate", "baseline")
Json = dict[str, Any]


def json_text(comparison: Comparison, *, fail_on: FailOn = "never", files: Sequence[Path] = ()) -> str:
    """Return the answer as text of at most 64 KiB; what is too long is cut, and `trimmed` says so."""
    whole = answer(comparison, fail_on=fail_on, files=files)
    text = _encoded(whole)
    for longest_text, longest_list in _LIMITS:
        if len(text) <= MOST_BYTES:
            break
        text = _encoded(_cut({**whole, "trimmed": True}, longest_text, longest_list))
    return text.decode()


def answer(comparison: Comparison, *, fail_on: FailOn = "never", files: Sequence[Path] = ()) -> Json:
    """Return the verdict, what it rests on and what to do next, of JSON's types alone; `files` were written."""
    verdict = comparison.verdict
    has_differences = fail_on == "any" and comparison.has_differences
    content = {
        "schema": SCHEMA,
        "tool": f"torchparity {__version__}",
        "verdict": verdict.kind,
        "sentence": verdict.sentence,
        "advice": comparison.advice(),
        "first": _finding(verdict.first, verdict.sentence) if verdict.first is not None else None,
        "also": list(map(_finding, verdict.also, comparison.other_findings())),
        "agreement": msgspec.to_builtins(verdict.agreement),
        "remarks": verdict.remarks,
        "not_compared": verdict.not_compared,
        "runs": _runs(comparison),
        "steps": list(map(_step, step_numbers(comparison.parts))),
        "ranks": msgspec.to_builtins(comparison.rank_summaries),
        "counts": {"records": comparison.counts(), "rows": comparison.rows_compared()},
        "notes": comparison.notes,
        "files": [str(path) for path in files],
        "fail_on": fail_on,
        "exit_code": exit_code(verdict, fail_on, has_differences),
        "next": _next(comparison),
        "trimmed": False,
    }
    plain: Json = _plain(content)
    return plain


def _finding(finding: Finding, sentence: str) -> Json:
    values = finding.values
    return {
        "kind": finding.kind,
        "sentence": sentence,
        "step": finding.step,
        "rank": finding.rank,
        "record": finding.record,
        "baseline_record": finding.baseline_record,
        "module": finding.module,
        "item": finding.item,
        "table_row": finding.row,
        "deviation": finding.deviation,
        "beyond_numbers": finding.beyond_numbers,
        "expected_deviation": finding.expected,
        "input_deviation": finding.input_deviation,
        "argument": None if values is None else {"candidate": values[0], "baseline": values[1]},
        "code_lines": finding.lines,
        "made_by": finding.sources,
        "repeated_in": finding.repeated_in,
        "other_call": finding.partner,
        "expected_because": finding.expected_because,
        "explanation": finding.explanation,
        "is_effect_shown": finding.is_shown,
        "is_data_flow_known": finding.is_certain,
    }


def _step(numbers: StepNumbers) -> Json:
    return {
        "step": numbers.step,
        "rank": numbers.rank,
        "losses": dict(zip(_SIDES, numbers.losses, strict=True)),
        "gradient_norm": dict(zip(_SIDES, numbers.gradient_norms, strict=True)),
    }


def _runs(comparison: Comparison) -> Json:
    parts = comparison.parts
    return {
        "candidate": str(comparison.candidate),
        "baseline": str(comparison.baseline),
        "steps": sorted({part.step for part in parts}),
        "ranks": sorted({part.rank for part in parts}),
        "task": {
            "candidate": sorted({part.candidate.info.task for part in parts}),
            "baseline": sorted({part.baseline.info.task for part in parts}),
        },
        "parts_of_one_run_alone": comparison.parts_alone,
    }


def _next(comparison: Comparison) -> str:
    """Return the command that shows more: the record where the runs part, else the tables."""
    candidate, baseline = shlex.quote(str(comparison.candidate)), shlex.quote(str(comparison.baseline))
    first = comparison.verdict.first
    if first is None:
        return f"torchparity compare {candidate} {baseline} -o DIR"
    return f"torchparity show {candidate} {shlex.quote(first.record)} --step {first.step} --rank {first.rank}"


def _plain(value: Any) -> Any:
    """Return a value of JSON's types: words for nan and the infinities, no half characters."""
    if isinstance(value, str):
        return str(value.encode("utf-8", "replace").decode())
    if isinstance(value, dict):
        return {_plain(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return number_to_json(value)


def _cut(value: Any, longest_text: int, longest_list: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= longest_text else f"{value[:longest_text]}…"
    if isinstance(value, dict):
        return {key: _cut(entry, longest_text, longest_list) for key, entry in value.items()}
    if isinstance(value, list):
        return [_cut(entry, longest_text, longest_list) for entry in value[:longest_list]]
    return value


def _encoded(content: Json) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content), indent=1)
