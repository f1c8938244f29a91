"""torchparity merge_result: the same as merge, by msprobe's name.

torchparity -f pytorch merge_result -i DIR -o DIR -config cfg.yaml
"""

from __future__ import annotations

from torchparity.cli.merge import add_arguments, run

__all__ = ["add_arguments", "run"]
