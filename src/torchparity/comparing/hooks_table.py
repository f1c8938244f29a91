"""The table of torch_npu.hooks: cosine, RMSE and MAPE of every tensor of the operators that both runs have."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.options import Options
from torchparity.comparing.part import PartComparison
from torchparity.comparing.runs import compare_runs
from torchparity.errors import ConfigError
from torchparity.naming import is_parameter_gradient
from torchparity.records import PairMetrics, TensorLeaf
from torchparity.tensors import HostTensor
from torchparity.text import counted
from torchparity.whole_file import whole_file

COLUMNS = (
    "Name",
    "Npu Tensor Dtype",
    "Bench Tensor Dtype",
    "Npu Tensor Shape",
    "Bench Tensor Shape",
    "Cosine",
    "RMSE",
    "MAPE",
)


def write_hooks_table(candidate: str | Path, baseline: str | Path, file: Path) -> None:
    """Compare two runs and write a row for each tensor, as a csv."""
    if file.is_dir():
        raise ConfigError(f"{file} is a folder; compare needs the path of the csv to write.")
    comparison = compare_runs(candidate, baseline, Options(by="order"))
    with whole_file(file) as temporary, temporary.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(COLUMNS)
        for part in comparison.parts:
            writer.writerows(_rows(part))


def _rows(part: PartComparison) -> Iterator[Sequence[str]]:
    for pair, items in zip(part.pairs, part.groups, strict=True):
        if pair.candidate is None or pair.baseline is None or is_parameter_gradient(pair.candidate.name):
            continue  # gradients of parameters add up from pass to pass; a layer's backward has them by themselves
        tensors = [item for item in items if _tensors(item) != (None, None)]
        if all(map(_has_one_shape, tensors)):
            yield from (_row(part, item) for item in tensors)


def _tensors(item: ItemComparison) -> tuple[TensorLeaf | None, TensorLeaf | None]:
    """Return the tensors of both runs."""
    leaves = [side.leaf if side is not None else None for side in (item.candidate, item.baseline)]
    mine, other = (leaf if isinstance(leaf, TensorLeaf) else None for leaf in leaves)
    return mine, other


def _has_one_shape(item: ItemComparison) -> bool:
    """Tell whether both runs have the tensor, in one shape; operators that differ in one are not the same."""
    mine, other = _tensors(item)
    return mine is not None and other is not None and mine.shape == other.shape


def _row(part: PartComparison, item: ItemComparison) -> Sequence[str]:
    mine, other = _tensors(item)
    if mine is None or other is None:
        return ()
    metrics = item.outcome
    cosine = rmse = mape = math.nan
    zeros = 0
    if isinstance(metrics, PairMetrics) and not metrics.mismatched:
        has_angle = not (metrics.candidate_is_zero or metrics.baseline_is_zero) and metrics.cosine is not None
        cosine = metrics.cosine if has_angle and metrics.cosine is not None else math.nan
        rmse = metrics.euclidean / math.sqrt(metrics.count)
        mape, zeros = _percentage_error(part.candidate.tensor(mine), part.baseline.tensor(other))
    percentage = f"{mape!r} ({counted(zeros, 'zero')})" if zeros else repr(mape)
    shapes = str(list(mine.shape)), str(list(other.shape))
    return (item.name, mine.dtype, other.dtype, *shapes, repr(cosine), repr(rmse), percentage)


def _percentage_error(candidate: HostTensor, baseline: HostTensor) -> tuple[float, int]:
    """Return the mean of |candidate - baseline| / |baseline|, and the number of zeros that leave it without one."""
    mine, other = (np.asarray(side.numbers(), dtype=_wide(side.numbers())) for side in (candidate, baseline))
    zeros = int(np.count_nonzero(other == 0))
    if zeros or not other.size:
        return math.nan, zeros
    with np.errstate(all="ignore"):
        return float(np.mean(np.abs((mine - other) / other))), 0


def _wide(numbers: npt.NDArray[Any]) -> npt.DTypeLike:
    return np.complex128 if np.iscomplexobj(numbers) else np.float64
