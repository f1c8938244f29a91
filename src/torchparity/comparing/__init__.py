"""Compares two runs: pairs their records, measures how far they differ, judges it, and names where they part.

pairing/    which record and item of one run belongs to which of the other
measuring/  how far two items are apart: `ItemComparison`, numbers as numbers
engines/    who measures stored tensors: threads, or a Ray cluster
precision/  how far rounding may take two items apart
judging/    where the runs part and why: evidence/, search/, and wording/ for one sentence about it
msprobe/    msprobe's columns, words, verdicts, messages, colours and files
"""

from torchparity.comparing.entry import compare, compare_distributed
from torchparity.comparing.item_lines import item_lines
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
from torchparity.comparing.step_lines import step_lines

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
    "item_lines",
    "json_text",
    "parse_rank_map",
    "read_mapping",
    "step_lines",
    "summary_lines",
]
