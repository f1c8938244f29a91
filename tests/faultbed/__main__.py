"""`python -m tests.faultbed FOLDER`: see `runner`."""

import sys

from tests.faultbed.runner import main

if __name__ == "__main__":
    sys.exit(main())
