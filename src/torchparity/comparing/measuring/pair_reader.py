"""Pairs of stored tensors of one part and their metrics: every content once, verified while it is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING

from torchparity.errors import ParityError
from torchparity.records import Leaf, PairMetrics, TensorLeaf
from torchparity.storage import RunPart

if TYPE_CHECKING:
    from torchparity.storage import MappedTensor, StoredTensor

Progress = Callable[[int, int], None]  # pairs of tensors that are done, and how many there are
Result = PairMetrics | ParityError
MOST_REMOTE = 8  # pairs of an object store that one process has in memory at once
SHARED_FROM = 1 << 24  # elements from which all cores work on one pair instead of one core on each


class PairReader:
    """The tensors of two parts that are to be compared, and what comparing them gave.

    An engine measures what `wanted` has and puts the results here; what it leaves out is measured when it is asked
    for. Two tensors of one run are taken to be equal where size, layout and CRC-32 are; a result is used again only
    where that holds on both sides. See docs/decisions/0013.
    """

    def __init__(
        self, candidate: RunPart, baseline: RunPart, pairs: Iterable[tuple[TensorLeaf, TensorLeaf]] = ()
    ) -> None:
        self.candidate, self.baseline = candidate, baseline
        self.wanted = {_cache_key(*pair): pair for pair in pairs}
        self._results: dict[Hashable, Result] = {}
        self._contents: dict[Hashable, Hashable] = {}  # of both sides, by the places of a pair

    def place(self, places: Hashable, content: Hashable) -> None:
        """Note the content of a pair: pairs of one content have one result."""
        self._contents[places] = content

    def put(self, content: Hashable, result: Result) -> None:
        """Take the result of a content, or of a pair by its places."""
        self._results[content] = result

    def metrics(self, mine: TensorLeaf, other: TensorLeaf) -> PairMetrics:
        """Return the metrics of a pair; raise `ParityError` where one side cannot be read."""
        places = _cache_key(mine, other)
        content = self._contents.get(places, places)
        result = self._results.get(content)
        if result is None or (isinstance(result, ParityError) and content != places):
            # Another file of this content could not be read; this one may be whole.
            result = self._results[content] = measured(self.candidate.stored(mine), self.baseline.stored(other))
        if isinstance(result, ParityError):
            raise result
        return result

    def distance_of_integers(self, mine: Leaf, other: Leaf) -> float:
        """Return the distance of two tensors of whole numbers, computed exactly; 0 for those of different dtypes."""
        if not isinstance(mine, TensorLeaf) or not isinstance(other, TensorLeaf) or mine.dtype != other.dtype:
            return 0.0
        left, right = self.candidate.tensor(mine).array, self.baseline.tensor(other).array
        apart = left != right
        pairs = zip(left[apart].tolist(), right[apart].tolist(), strict=True)
        return math.sqrt(sum((first - second) ** 2 for first, second in pairs))


def measured(left: StoredTensor, right: StoredTensor) -> PairMetrics:
    """Read two stored tensors and compare them; raise `ParityError` where one is not what was written."""
    return measured_mapped(left, left.map(), right, right.map())


def measured_mapped(left: StoredTensor, mine: MappedTensor, right: StoredTensor, other: MappedTensor) -> PairMetrics:
    """Compare two mapped tensors, in one thread but for the largest, which all cores share.

    The bytes of whole tensors are checked while they are in the cache. The result depends on the tensors alone, not
    on the machine's number of cores.
    """
    from torchparity.kernels.pairs import compare_checked, compare_pair  # loads the compiler

    is_shared = mine.tensor.array.size >= SHARED_FROM
    if mine.is_whole and other.is_whole and not is_shared:
        metrics, checksums = compare_checked(mine.tensor, other.tensor)
        left.check(checksums[0])
        right.check(checksums[1])
        return metrics
    left.check_mapped(mine)
    right.check_mapped(other)
    return compare_pair(mine.tensor, other.tensor, parts=None if is_shared else 1)


def _cache_key(mine: TensorLeaf, other: TensorLeaf) -> Hashable:
    return mine.stored_in or mine.data_name, other.stored_in or other.data_name, mine.dtype, other.dtype
