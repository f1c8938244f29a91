"""python run_overflow_check.py -forward ./forward_info_0.json"""

import sys

from torchparity.compat.run_overflow_check import main

if __name__ == "__main__":
    sys.exit(main())
