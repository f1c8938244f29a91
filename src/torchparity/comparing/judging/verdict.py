"""The verdict on two runs: one object that the headline, the advisor's file, `-da`, `--json` and the exit code read."""

from __future__ import annotations

from enum import Enum

import msgspec


class Kind(str, Enum):
    """Kinds of verdicts; docs/verdicts.md has the exit code of each."""

    AGREE = "agree"
    OPERATOR = "operator"  # what a record received agrees, what it returned does not
    ARGUMENT = "argument"  # a call has another argument than its partner
    WEIGHTS = "weights"  # a parameter or buffer differs before anybody wrote it
    DATA = "data"  # a tensor from outside of the recording differs
    RANDOM = "random numbers"  # a call drew other random numbers
    UNINITIALISED = "uninitialised memory"  # a call read memory that nobody had written
    MISSING_GRADIENT = "missing gradient"  # a gradient comes in one run alone
    SHAPE = "shape"
    NONFINITE = "non-finite"  # nan or inf in one run alone
    DTYPE = "dtype"  # the runs compute in different dtypes, and what differs is what that explains
    MODEL = "another model"
    BATCH = "batch size"
    CALL = "another call"  # a call that only one run makes, or that received another call's result
    UNRECORDED = "unrecorded step"  # an input differs although everything recorded that made it agrees
    CUT_OFF = "cut off"  # one run ended within a step, and all up to there agrees
    UNKNOWN = "cannot tell"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A record where the runs part, with the evidence.

    `item` is named without its record (`output.0`). `deviation` is how far it is off, relative to the baseline and
    infinite where that has no meaning: `beyond_numbers` then says in a clause what is so. `expected` is what rounding
    explains of it, `expected_because` says why in a clause; `input_deviation` is the largest of what the record
    received. `values` are an argument's, or where an input comes from, the candidate's first. `lines` are the user's
    innermost line and, where it is another, the innermost line outside of torch. `sources` made the item, as the runs
    tell. `repeated_in` are other places that show the same fact. `explanation` says in a clause what makes it so
    ("every matmul has an error of TF32's size"), "" where nothing is known.
    """

    kind: Kind
    step: int
    rank: int
    row: int  # of the part's table
    record: str
    baseline_record: str | None
    item: str
    module: str | None = None
    deviation: float = 0.0
    beyond_numbers: str = ""
    expected: float = 0.0
    expected_because: str = ""
    input_deviation: float = 0.0
    values: tuple[str, str] | None = None
    lines: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    repeated_in: tuple[str, ...] = ()
    partner: str | None = None  # of another call: the record that only one run has
    partner_run: str = "one run"  # that has it: "the candidate" or "the baseline" where its name tells
    explanation: str = ""
    is_set_otherwise: bool = False  # True where the explanation is a setting of one run alone
    is_shown: bool = True  # False where the effect stays within rounding
    is_certain: bool = True  # False where the run tells no data flow and content was matched instead

    @property
    def is_call_alone(self) -> bool:
        """True where the record is a call that only the candidate makes; the baseline's may have the same name."""
        return self.partner == self.record and self.baseline_record is None


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """The closeness of two runs where nothing is blamed."""

    is_identical: bool
    compares_every_bit: bool = False  # by values or checksums; statistics do not
    largest: float = 0.0  # deviation
    item: str = ""  # that has it, with its record
    remainder: float = 0.0  # the same for gradients and steps of which little but rounding is left
    remainder_item: str = ""
    apart_from: str = ""  # what the user's limits leave out, as the end of a clause


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a comparison: its kind, the sentence, the first finding and the independent others.

    `remarks` are facts beside the answer, a sentence each: arguments that differ without an effect, differences of the
    two environments, dtypes. `not_compared` says what was left out of it, `advice` what to do.
    """

    kind: Kind
    sentence: str
    first: Finding | None = None
    also: tuple[Finding, ...] = ()
    agreement: Agreement | None = None
    remarks: tuple[str, ...] = ()
    not_compared: str = ""
    advice: str = ""
