"""How two runs are compared."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from torchparity.comparing.pairing.records import Alignment


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How two runs are compared.

    `stacks` says whether call stacks are shown, by default where there are any. `stack_path` is the file with
    those of a candidate of one part, where it is not beside the records. The mappings name items and modules of
    the candidate with their partners in the baseline.
    """

    by: Alignment = "order"
    highlight: bool = False
    writes_tables: bool = False  # what tables need is loaded while tensors are compared
    stacks: bool | None = None
    stack_path: str | None = None
    data_mapping: Mapping[str, str] = msgspec.field(default_factory=dict)
    cell_mapping: Mapping[str, str] = msgspec.field(default_factory=dict)
