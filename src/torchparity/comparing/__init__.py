"""Read two runs: align their records, compare what they hold, judge it, and name where they part."""

from torchparity.comparing.entry import compare
from torchparity.comparing.judging.divergence import Divergence
from torchparity.comparing.part import Options
from torchparity.comparing.runs import Comparison, compare_runs

__all__ = ["Comparison", "Divergence", "Options", "compare", "compare_runs"]
