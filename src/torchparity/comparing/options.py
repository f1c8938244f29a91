"""Options of a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from torchparity.comparing.judging.limits import Limits
from torchparity.comparing.judging.record_patterns import Enclosing, matches, module_paths
from torchparity.comparing.pairing.records import Alignment
from torchparity.errors import ConfigError, nearest


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a comparison.

    `stacks` says whether call stacks are shown, by default where there are any. `stack_path` is the file with
    those of a candidate of one part, where it is not beside the records. The mappings name items and modules of
    the candidate with their partners in the baseline; `module_partners` does so too, by what the calls of one module
    have in common (`Module.fc.Linear`), and matches nothing that only looks alike. `ignore` and `after` are patterns
    of records to go past; `tolerance` is the relative deviation that counts as rounding, in place of the derived ones.
    `rank_map` names ranks of the candidate with those of the baseline, by default those of the same number; `all_steps`
    asks for every step of the runs where a step is named. `writes_tables` says that tables will be wanted, so that
    what they need can be loaded while values are compared.
    `engine` is who measures pairs of tensors, at `address` where it is a cluster.
    """

    by: Alignment = "order"
    highlight: bool = False
    stacks: bool | None = None
    stack_path: str | None = None
    data_mapping: Mapping[str, str] = msgspec.field(default_factory=dict)
    cell_mapping: Mapping[str, str] = msgspec.field(default_factory=dict)
    module_partners: Mapping[str, str] = msgspec.field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    after: str | None = None
    tolerance: float | None = None
    rank_map: Mapping[int, int] = msgspec.field(default_factory=dict)
    all_steps: bool = False
    writes_tables: bool = False
    engine: str = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        if self.tolerance is not None and not 0 <= self.tolerance < math.inf:
            raise ConfigError(
                f"tolerance {self.tolerance!r} is no relative deviation; give a number from 0 on, such as 1e-3."
            )

    @property
    def limits(self) -> Limits:
        """The limits that the search for the first difference needs."""
        return Limits(ignore=self.ignore, after=self.after, tolerance=self.tolerance)

    @property
    def patterns(self) -> list[str]:
        """The patterns of records, of `ignore` and of `after`."""
        return [*self.ignore, *([] if self.after is None else [self.after])]


def refuse_unknown_patterns(patterns: Iterable[str], records: Iterable[tuple[str, Enclosing]]) -> None:
    """Raise `ConfigError` for a pattern that names none of the candidate's records."""
    wanted = list(dict.fromkeys(patterns))
    if not wanted:
        return
    everything = list(records)
    for pattern in wanted:
        if any(matches(pattern, record, enclosing) for record, enclosing in everything):
            continue
        paths = dict.fromkeys(path for record, enclosing in everything for path in module_paths(record, enclosing))
        hint = nearest(pattern, [*paths, *dict.fromkeys(record for record, _ in everything)])
        raise ConfigError(
            f"the pattern {pattern!r} names no record and no module of the candidate.{hint}"
            " A pattern is a record's name, a module's path or a shell pattern such as '*.dropout.*'."
        )
