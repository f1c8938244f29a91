"""The files that comparing wrote: one table for each step and rank, in one format or several.

compare_result_rank0_20261116013243.xlsx           msprobe's and ours
compare_result_step1_rank0_20261116013243.csv      of several steps
compare_table_rank0_20261116013243.json            ours; msprobe's -da has the other name for something else
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from torchparity.errors import ConfigError, RunNotFoundError
from torchparity.whole_file import reason_of

_NAME = re.compile(
    r"(?:debug_)?compare_(?P<what>result|table)(?:_step(?P<step>\d{1,9}))?(?:_(?P<kind>rank|proc)(?P<rank>\d{0,18}))?"
    r"_(?P<time>\d{14})\.(?P<suffix>parquet|csv|json|xlsx)",
    re.ASCII,
)
_FASTEST = ("parquet", "csv", "json", "xlsx")


class ResultFile(msgspec.Struct, frozen=True, kw_only=True):
    """The table of one rank in one step; `step` is None where the comparison was of one step."""

    path: Path
    step: int | None
    rank: int
    column: str
    time: str

    @property
    def suffix(self) -> str:
        """The end of the file's name, without the dot."""
        return self.path.suffix[1:]


def find_results(folder: Path) -> dict[int | None, list[ResultFile]]:
    """Return the results in a folder by step, each step's by rank; raise if there are none, or two for one rank."""
    try:
        files = [found for path in sorted(folder.iterdir()) if (found := _result(path)) is not None]
    except OSError as error:
        raise RunNotFoundError(f"the results in {folder} cannot be listed ({reason_of(error)}).") from None
    if not files:
        raise RunNotFoundError(
            f"{folder} holds no results of ranks: files such as compare_result_rank0_20260131120000.xlsx, .csv, .json "
            f"or .parquet; torchparity compare CANDIDATE BASELINE -o {folder} writes them."
        )
    steps = sorted({file.step for file in files}, key=lambda step: -1 if step is None else step)
    return {step: _one_per_rank([file for file in files if file.step == step]) for step in steps}


def _result(path: Path) -> ResultFile | None:
    name = _NAME.fullmatch(path.name)
    if name is None or not path.is_file():
        return None
    if name["suffix"] == "json" and name["what"] == "result" and name["kind"]:
        return None  # of -da: records and their nodes, no table
    rank = int(name["rank"] or 0)
    step = int(name["step"]) if name["step"] else None
    return ResultFile(path=path, step=step, rank=rank, column=f"{name['kind'] or 'rank'}{rank}", time=name["time"])


def _one_per_rank(files: list[ResultFile]) -> list[ResultFile]:
    """Return one file for each rank, the one that is read fastest where a table was written in several formats."""
    chosen: dict[int, ResultFile] = {}
    for file in sorted(files, key=lambda file: (file.rank, _FASTEST.index(file.suffix))):
        first = chosen.setdefault(file.rank, file)
        if (first.time, first.column) != (file.time, file.column) or (
            first.suffix == file.suffix and first is not file
        ):
            raise ConfigError(
                f"{first.path.parent} holds two results of rank {file.rank}: {first.path.name} and {file.path.name}; "
                "keep those of one comparison in a folder."
            )
    return list(chosen.values())
