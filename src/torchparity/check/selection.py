"""The calls that are asked for by lists of names."""

from __future__ import annotations

from dataclasses import dataclass

from torchparity.check.cases import Case


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Names of APIs to check and not to check: `conv2d`, `Functional.conv2d` or `Functional.conv2d.0`."""

    white_list: tuple[str, ...] = ()
    black_list: tuple[str, ...] = ()
    filter_duplicates: bool = False

    def reason_to_skip(self, case: Case) -> str | None:
        """Return why the lists leave a call out; a name on both lists is not run."""
        names = {case.operator, case.api, case.name}
        is_wanted = not self.white_list or bool(names & set(self.white_list))
        if is_wanted and not names & set(self.black_list):
            return None
        return f"API {case.operator} in black list or not in white list. SKIP"
