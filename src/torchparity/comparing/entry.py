"""The functions `compare(candidate, baseline)`, and msprobe's `compare(input_param, output_path, ...)` and
`compare_distributed(npu_dump_dir, bench_dump_dir, output_path, ...)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args, overload

from torchparity.comparing.options import Options
from torchparity.comparing.pairing.mapping import read_mapping
from torchparity.comparing.pairing.records import Alignment
from torchparity.comparing.rank_map import given_rank_map
from torchparity.comparing.runs import Comparison, compare_runs
from torchparity.errors import ConfigError, with_nearest_option

_KEYS = (("npu_json_path", "npu_path"), ("bench_json_path", "bench_path"))


@overload
def compare(
    candidate: str | Path,
    baseline: str | Path,
    *,
    align: Alignment = "order",
    highlight: bool = False,
    data_mapping: str | Path | None = None,
    cell_mapping: str | Path | None = None,
    ignore: Sequence[str] = (),
    after: str | None = None,
    tolerance: float | None = None,
    rank_map: str | Mapping[int, int] | None = None,
    engine: str = "local",
    address: str | None = None,
) -> Comparison: ...


@overload
def compare(
    candidate: Mapping[str, object],
    baseline: str | Path,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
    highlight: bool = False,
    *,
    formats: Sequence[str] = ("xlsx",),
) -> Comparison: ...


@with_nearest_option
def compare(
    candidate: str | Path | Mapping[str, object],
    baseline: str | Path,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
    highlight: bool = False,
    *,
    align: Alignment = "order",
    formats: Sequence[str] = ("xlsx",),
    data_mapping: str | Path | None = None,
    cell_mapping: str | Path | None = None,
    ignore: Sequence[str] = (),
    after: str | None = None,
    tolerance: float | None = None,
    rank_map: str | Mapping[int, int] | None = None,
    engine: str = "local",
    address: str | None = None,
) -> Comparison:
    """Compare two runs.

    With two paths nothing is written: look at the result (`headline()`, `first_divergence`,
    `comparisons`, `frame`) or write it (`to_csv`, `to_xlsx`, `to_json`, `to_parquet`). `align` pairs calls in the
    order in which they ran, by name alone, or fuzzily as msprobe does; the mappings are YAML files
    that name items and modules that belong together; `highlight` colours suspicious rows. `ignore` and `after` go
    past records where a difference is expected, each named by itself, by its module's path or by a shell pattern;
    `tolerance` is a relative deviation that counts as rounding, in place of the derived ones. `rank_map` ("0:4,1:5")
    says which rank is compared with which of the baseline, by default those of the same number. `engine` says who
    compares values, threads (`local`) or the Ray cluster at `address` (`ray`); the result is the same.

    With msprobe's mapping of `npu_json_path` and `bench_json_path` the second argument is the
    folder for the results, which are written as `formats`, with the advisor's file where
    `auto_analyze` is true. `stack_mode` shows call stacks where the mapping has `stack_json_path`.
    """
    if isinstance(candidate, Mapping):
        options = _msprobe_options(candidate, stack_mode=stack_mode, fuzzy_match=fuzzy_match, highlight=highlight)
        left, right = (_path(candidate, keys) for keys in _KEYS)
        comparison = compare_runs(left, right, options)
        comparison.write(baseline, formats, advice=auto_analyze)
        return comparison
    if align not in get_args(Alignment):
        raise ConfigError(f"align {align!r} does not exist. There are: {', '.join(get_args(Alignment))}.")
    options = Options(
        by="fuzzy" if fuzzy_match else align,
        highlight=highlight,
        data_mapping=read_mapping(Path(data_mapping)) if data_mapping else {},
        cell_mapping=read_mapping(Path(cell_mapping)) if cell_mapping else {},
        ignore=_patterns(ignore),
        after=after,
        tolerance=tolerance,
        rank_map=given_rank_map(rank_map),
        engine=engine,
        address=address,
    )
    return compare_runs(candidate, baseline, options)


@with_nearest_option
def compare_distributed(
    npu_dump_dir: str | Path,
    bench_dump_dir: str | Path,
    output_path: str | Path,
    *,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
    highlight: bool = False,
    formats: Sequence[str] = ("xlsx",),
    rank_map: str | Mapping[int, int] | None = None,
    all_steps: bool = False,
) -> Comparison:
    """Compare every rank of two step folders, and write a result for each rank and a summary over them.

    The folder for the results is made if need be. `stack_mode` is msprobe's and changes nothing: call stacks are shown
    where there are any. `auto_analyze` writes the advisor's file of each rank, `rank_map` ("0:4,1:5") says which
    ranks belong together, and `all_steps` compares every step of the runs that the folders belong to.
    """
    options = Options(
        by="fuzzy" if fuzzy_match else "name",
        highlight=highlight,
        rank_map=given_rank_map(rank_map),
        all_steps=all_steps,
        writes_tables=True,
    )
    comparison = compare_runs(npu_dump_dir, bench_dump_dir, options)
    comparison.write(output_path, formats, advice=auto_analyze, names_ranks=True)
    return comparison


def _patterns(ignore: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns; one alone may be given without a list."""
    return (ignore,) if isinstance(ignore, str) else tuple(ignore)


def _msprobe_options(
    input_param: Mapping[str, object], *, stack_mode: bool, fuzzy_match: bool, highlight: bool
) -> Options:
    stack_path = input_param.get("stack_json_path")
    return Options(
        by="fuzzy" if fuzzy_match else "name",
        highlight=highlight,
        stacks=stack_mode if stack_path else None,
        stack_path=str(stack_path) if stack_path else None,
        writes_tables=True,
    )


def _path(input_param: Mapping[str, object], keys: Sequence[str]) -> str:
    for key in keys:
        value = input_param.get(key)
        if isinstance(value, (str, Path)):
            return str(value)
    raise ConfigError(f"compare needs {keys[0]!r} with the path of a dump.json or a step folder.")
