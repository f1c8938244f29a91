"""Two checks of the same calls, on a candidate and on a baseline device: is the candidate's error the usual one?

compared = compare_checks(Path("npu/accuracy_checking_details.csv"), Path("gpu/accuracy_checking_details.csv"))
compared.write(Path("output"))
"""

from torchparity.check.two_checks.comparison import ChecksCompared, compare_checks
from torchparity.check.two_checks.tables import DETAILS_COLUMNS, RESULT_COLUMNS

__all__ = ["DETAILS_COLUMNS", "RESULT_COLUMNS", "ChecksCompared", "compare_checks"]
