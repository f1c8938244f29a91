"""run_overflow_check.py of api_accuracy_checker: `python -m torchparity.compat.run_overflow_check -forward ...`."""

from __future__ import annotations

import sys

from torchparity.cli import main as torchparity_main

__all__ = ["main"]


def main() -> int:
    """Tell normal overflows of a forward_info from abnormal ones."""
    return torchparity_main(["overflow", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
