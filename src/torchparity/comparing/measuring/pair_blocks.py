"""Blocks of pairs of stored tensors: what one worker measures at a time, on any machine that sees the files."""

from __future__ import annotations

import platform
from collections.abc import Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from torchparity.comparing.measuring.pair_reader import MOST_REMOTE, PairReader, measured
from torchparity.errors import ParityError
from torchparity.records import PairMetrics, TensorLeaf
from torchparity.storage import TensorFolder
from torchparity.version import __version__

_BLOCK_BYTES = 64 << 20  # of both sides, as far as dtypes tell
_MOST_PAIRS = 512
_BYTES = {"28": 16, "64": 8, "32": 4, "16": 2}  # of an element, by the digits that a dtype ends in
Pairs = list[tuple[TensorLeaf, TensorLeaf]]


class PairBlock(NamedTuple):
    """Pairs of one part; the leaves say no more than where their tensors are."""

    candidate: TensorFolder
    baseline: TensorFolder
    pairs: Pairs
    version: str = __version__


class BlockResult(NamedTuple):
    """The metrics of each pair, None for one that could not be read; or why a worker can measure nothing."""

    metrics: list[PairMetrics | None]
    problem: str = ""


def blocks_of(reader: PairReader) -> Iterator[tuple[list[Hashable], PairBlock]]:
    """Yield the pairs that a reader wants in their order, with their places; none where there is nothing to read."""
    folders = [part.tensor_folder.absolute() for part in (reader.candidate, reader.baseline)]
    wanted = reader.wanted if all(folder.is_dir() for folder in folders) else {}
    candidate, baseline = map(TensorFolder, folders)
    places: list[Hashable] = []
    pairs: Pairs = []
    size = 0
    for place, (mine, other) in wanted.items():
        places.append(place)
        pairs.append((_place_alone(mine), _place_alone(other)))
        size += _bytes_of(mine) + _bytes_of(other)
        if size >= _BLOCK_BYTES or len(pairs) == _MOST_PAIRS:
            yield places, PairBlock(candidate, baseline, pairs)
            places, pairs, size = [], [], 0
    if pairs:
        yield places, PairBlock(candidate, baseline, pairs)


def measure_block(block: PairBlock) -> BlockResult:
    """Measure every pair of a block; this is what a worker runs."""
    if block.version != __version__:
        other = f"{platform.node()} has torchparity {__version__}, and this is {block.version}"
        return BlockResult([], f"{other}; install the same everywhere")
    for folder in (block.candidate, block.baseline):
        if not folder.path.is_dir():
            return BlockResult([], f"{platform.node()} does not see {folder.path}; all nodes must share the storage")
    if block.candidate.is_remote or block.baseline.is_remote:
        with ThreadPoolExecutor(MOST_REMOTE) as threads:
            return BlockResult(list(threads.map(partial(_metrics, block), block.pairs)))
    return BlockResult([_metrics(block, pair) for pair in block.pairs])


def _metrics(block: PairBlock, pair: tuple[TensorLeaf, TensorLeaf]) -> PairMetrics | None:
    try:
        return measured(block.candidate.stored(pair[0]), block.baseline.stored(pair[1]))
    except ParityError:
        return None  # whoever asked reads it again, and says what is wrong in words of its own


def _place_alone(leaf: TensorLeaf) -> TensorLeaf:
    return TensorLeaf(dtype=leaf.dtype, shape=leaf.shape, data_name=leaf.data_name, stored_in=leaf.stored_in)


def _bytes_of(leaf: TensorLeaf) -> int:
    return leaf.numel * _BYTES.get(leaf.dtype[-2:], 1)
