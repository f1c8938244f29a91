"""The output of task free_benchmark: no run, but what the listener that perturbs writes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from torchparity.calls import attempted, text_of
from torchparity.perturb.findings import remove_tables
from torchparity.perturb.perturbing import Perturbing
from torchparity.recording.step.pending_step import PendingStep
from torchparity.storage import SharedTensor

_log = logging.getLogger("torchparity")
_NOT_OVERWRITTEN = (
    "the tables in {folder} are not overwritten, since all ranks add to them; remove them before the training, or use "
    "torchparity run --overwrite."
)
_LONGEST_LINE = 1 << 16  # bytes that are read of a line


class PerturbOutput:
    """Tells the listener that a step is over, and prints in the end what came of it."""

    is_over = False

    def __init__(
        self, perturbing: Perturbing, folder: Path, rank: int, *, is_only_rank: bool = True, overwrite: bool = False
    ) -> None:
        self._perturbing, self._folder = perturbing, folder
        # Of several ranks others may have added rows already.
        table = perturbing.table
        if overwrite and table is not None:
            if is_only_rank:
                remove_tables(folder)
            else:
                _log.warning("torchparity: %s", _NOT_OVERWRITTEN.format(folder=folder))
        self._had_rows = table is not None and is_only_rank and _has_rows(folder / table.file)
        perturbing.open(folder, rank)

    def store(self, step: int, tensor: SharedTensor) -> None:
        """Keep nothing: no values are recorded."""

    def write(
        self, step: int, done: PendingStep, missing: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Judge what has come from a device."""
        self._perturbing.end_step(step)

    def take_back(self, step: int | None = None) -> None:
        """Remove the rows of a step, or of all."""
        self._perturbing.take_back(step)

    def close(self, missing: Iterable[str]) -> None:
        """Judge the rest, and print the closing line."""
        failed = attempted(self._perturbing.close)
        lost = [f"the last results are not judged: {text_of(failed)}"] if isinstance(failed, Exception) else []
        said = [*self._perturbing.sentences(), *lost, *(sentence.rstrip(".") for sentence in missing)]
        table = self._perturbing.table
        if table is not None:
            said += [f"{table.file} also has rows of an earlier training"] if self._had_rows else []
            said.append(f"see {self._folder}")
        line = f"torchparity: {'; '.join(said)}"
        _log.info("%s", line)
        with suppress(OSError, ValueError):  # nobody reads it, or the terminal has no such letter
            print(line)  # noqa: T201 - the one line at the end


def _has_rows(table: Path) -> bool:
    """Tell whether a csv file has more lines than its header."""
    try:
        if not table.is_file():
            return False
        with table.open("rb") as lines:
            lines.readline(_LONGEST_LINE)
            return bool(lines.readline(_LONGEST_LINE))
    except OSError:  # opening the table for writing will say why
        return False
