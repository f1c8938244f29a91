"""Results of a check: a row for each API, a row for each output, in files that grow while the check runs."""

from torchparity.check.results.case_result import CaseResult, skipped_case
from torchparity.check.results.files import ResultFiles
from torchparity.check.results.tables import write_tables

__all__ = ["CaseResult", "ResultFiles", "skipped_case", "write_tables"]
