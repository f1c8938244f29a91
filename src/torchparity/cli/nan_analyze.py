"""torchparity nan_analyze: the same as overflow_check, by the name that earlier versions of msprobe have.

torchparity nan_analyze -i RUN/step0 -o ./output
"""

from __future__ import annotations

from torchparity.cli.overflow_check import add_arguments, run

__all__ = ["add_arguments", "run"]
