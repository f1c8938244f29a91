"""Compares two runs: pairs their records, measures how far they differ, judges it, and names where they part.

pairing/    which record and item of one run belongs to which of the other
measuring/  how far two items are apart: `ItemComparison`, numbers as numbers
engines/    who measures stored tensors: threads, or a Ray cluster
precision/  how far rounding may take two items apart
judging/    where the runs part and why: evidence/, search/, and wording/ for one sentence about it
msprobe/    msprobe's columns, words, verdicts, messages, colours and files

The names load when they are first used: a headline needs no tables, no answer for programs and no `compare`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchparity.lazy import lazy_names

if TYPE_CHECKING:
    from torchparity.comparing.entry import compare, compare_distributed
    from torchparity.comparing.json_answer import answer, json_text
    from torchparity.comparing.judging.verdict import Agreement, Finding, Kind, Verdict
    from torchparity.comparing.judging.wording.exit_codes import FailOn, exit_code
    from torchparity.comparing.measuring.item_comparison import (
        ChecksumDifference,
        ItemComparison,
        NotCompared,
        Reason,
        StatisticsDifference,
    )
    from torchparity.comparing.options import Options
    from torchparity.comparing.pairing.mapping import read_mapping
    from torchparity.comparing.pairing.records import Alignment
    from torchparity.comparing.rank_map import parse_rank_map
    from torchparity.comparing.rank_summary import RankSummary, summary_lines
    from torchparity.comparing.runs import Comparison, compare_runs

__all__ = [
    "Agreement",
    "Alignment",
    "ChecksumDifference",
    "Comparison",
    "FailOn",
    "Finding",
    "ItemComparison",
    "Kind",
    "NotCompared",
    "Options",
    "RankSummary",
    "Reason",
    "StatisticsDifference",
    "Verdict",
    "answer",
    "compare",
    "compare_distributed",
    "compare_runs",
    "exit_code",
    "json_text",
    "parse_rank_map",
    "read_mapping",
    "summary_lines",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Agreement": "judging.verdict",
        "Alignment": "pairing.records",
        "ChecksumDifference": "measuring.item_comparison",
        "Comparison": "runs",
        "FailOn": "judging.wording.exit_codes",
        "Finding": "judging.verdict",
        "ItemComparison": "measuring.item_comparison",
        "Kind": "judging.verdict",
        "NotCompared": "measuring.item_comparison",
        "Options": "options",
        "RankSummary": "rank_summary",
        "Reason": "measuring.item_comparison",
        "StatisticsDifference": "measuring.item_comparison",
        "Verdict": "judging.verdict",
        "answer": "json_answer",
        "compare": "entry",
        "compare_distributed": "entry",
        "compare_runs": "runs",
        "exit_code": "judging.wording.exit_codes",
        "json_text": "json_answer",
        "parse_rank_map": "rank_map",
        "read_mapping": "pairing.mapping",
        "summary_lines": "rank_summary",
    },
)
