"""The command line of msprobe: `python -m torchparity.compat.msprobe -f pytorch compare -i compare.json`."""

from __future__ import annotations

import sys

from torchparity.cli import main as torchparity_main


def main() -> int:
    """Run a command of msprobe's, which torchparity takes as it is printed."""
    return torchparity_main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
