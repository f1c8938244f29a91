"""python -m torchparity."""

import sys

from torchparity.cli import main

sys.exit(main())
