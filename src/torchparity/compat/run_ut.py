"""run_ut.py of api_accuracy_checker: `python -m torchparity.compat.run_ut -forward forward_info_0.json ...`."""

from __future__ import annotations

import sys

from torchparity.cli import main as torchparity_main

__all__ = ["main"]


def main() -> int:
    """Check the APIs of a forward_info and a backward_info."""
    return torchparity_main(["run_ut", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
