"""Cases: one for each recorded call of an API, with arguments rebuilt from the record, or the reason to skip it."""

from torchparity.check.cases.arguments import Arguments, DeviceWord, DtypeWord, Input, rebuilt
from torchparity.check.cases.case import Case, cases_of
from torchparity.check.cases.drawing import Draws
from torchparity.check.cases.duplicates import form_of, without_duplicates
from torchparity.check.cases.operators import is_operator
from torchparity.check.cases.refusal import CannotRun
from torchparity.check.cases.skips import reason_to_skip

__all__ = [
    "Arguments",
    "CannotRun",
    "Case",
    "DeviceWord",
    "Draws",
    "DtypeWord",
    "Input",
    "cases_of",
    "form_of",
    "is_operator",
    "reason_to_skip",
    "rebuilt",
    "without_duplicates",
]
