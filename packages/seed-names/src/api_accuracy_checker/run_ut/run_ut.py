"""python run_ut.py -forward ./forward_info_0.json -backward ./backward_info_0.json"""

import sys

from torchparity.compat.run_ut import main

if __name__ == "__main__":
    sys.exit(main())
