"""The ways in: `compare(candidate, baseline)` for new code, and the seeds' `compare(input_param, output_path, ...)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torchparity.comparing.pairing.mapping import read_mapping
from torchparity.comparing.part import Options
from torchparity.comparing.runs import Comparison, compare_runs
from torchparity.errors import ConfigError

_KEYS = (("npu_json_path", "npu_path"), ("bench_json_path", "bench_path"))


def compare(
    candidate: str | Path | Mapping[str, object],
    baseline: str | Path,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
    highlight: bool = False,
    *,
    align: str = "order",
    formats: Sequence[str] = ("xlsx",),
    data_mapping: str | Path | None = None,
    cell_mapping: str | Path | None = None,
) -> Comparison:
    """Compare two runs.

    With two paths nothing is written: look at the result (`headline()`, `first_divergence`,
    `frame`) or write it (`to_csv`, `to_xlsx`, `to_json`). With the seeds' mapping of
    `npu_json_path` and `bench_json_path` the second argument is the folder for the results.
    """
    if isinstance(candidate, Mapping):
        left, right = (_path(candidate, keys) for keys in _KEYS)
        path = candidate.get("stack_json_path")
        options = Options(
            by="fuzzy" if fuzzy_match else "name",
            highlight=highlight,
            stacks=stack_mode if path else None,
            stack_path=str(path) if path else None,
        )
        done = compare_runs(left, right, options)
        done.write(Path(baseline), formats, advice=auto_analyze)
        return done
    if align not in ("name", "order", "fuzzy"):
        raise ConfigError(f"align {align!r} does not exist. There are: name, order, fuzzy.")
    options = Options(
        by="fuzzy" if fuzzy_match else align,  # type: ignore[arg-type]
        highlight=highlight,
        data_mapping=read_mapping(Path(data_mapping)) if data_mapping else {},
        cell_mapping=read_mapping(Path(cell_mapping)) if cell_mapping else {},
    )
    return compare_runs(candidate, baseline, options)


def _path(given: Mapping[str, object], keys: Sequence[str]) -> str:
    for key in keys:
        value = given.get(key)
        if isinstance(value, (str, Path)):
            return str(value)
    raise ConfigError(f"compare needs {keys[0]!r} with the path of a dump.json or a step folder.")
