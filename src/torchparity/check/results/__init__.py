"""Results of a check: a row for each API, a row for each output, in files that grow while the check runs."""

from torchparity.check.results.case_result import CallKey, CaseResult, skipped_case
from torchparity.check.results.files import ResultFiles
from torchparity.check.results.whole_result import WholeResult, read_whole

__all__ = ["CallKey", "CaseResult", "ResultFiles", "WholeResult", "read_whole", "skipped_case"]
