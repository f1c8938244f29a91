"""Reads pairs of stored tensors and compares them on all cores, every content once, verified while it is read."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

from torchparity.errors import ParityError
from torchparity.records import Leaf, PairMetrics, TensorLeaf
from torchparity.storage import RunPart

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from torchparity.storage import MappedTensor, StoredTensor

Progress = Callable[[int, int], None]  # pairs of tensors that are done, and how many there are
Result = PairMetrics | ParityError
_SHARED_FROM = 1 << 24  # elements from which all cores work on one pair instead of one core on each
_HANDED_OVER_FROM = 1 << 13  # elements below which waking a thread takes longer than comparing
_MOST_AHEAD = 256  # pairs that are opened before they are read


class PairReader:
    """Compares tensors of two parts; identical pairs of tensors are compared only once.

    Two tensors of one run are taken to be equal where size, layout and CRC-32 are; a result is used again only where
    that holds on both sides. See docs/decisions/0013.
    """

    def __init__(self, candidate: RunPart, baseline: RunPart) -> None:
        self._candidate, self._baseline = candidate, baseline
        self._results: dict[Hashable, Result] = {}
        self._contents: dict[Hashable, Hashable] = {}  # of both sides, by the places of a pair
        self._begun: set[Hashable] = set()

    def read_ahead(
        self, pairs: Iterable[tuple[TensorLeaf, TensorLeaf]], progress: Progress, meanwhile: Callable[[], None]
    ) -> None:
        """Compare many pairs on all cores, so that `metrics` finds them done.

        `meanwhile` is called when all files are open and the other threads still compare.
        """
        from concurrent.futures import ThreadPoolExecutor  # not loaded where no values are stored

        wanted = {_cache_key(*pair): pair for pair in pairs}
        running: deque[tuple[Hashable, Future[Result]]] = deque()
        # This thread alone opens files: two that do so hand the interpreter lock to each other at every system call.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for done, (places, pair) in enumerate(wanted.items()):
                progress(done, len(wanted))
                self._begin(places, *pair, pool, running)
                while len(running) > _MOST_AHEAD:
                    self._finish_one(running)
            meanwhile()
            while running:
                self._finish_one(running)

    def metrics(self, mine: TensorLeaf, other: TensorLeaf) -> PairMetrics:
        """Return the metrics of a pair; raise `ParityError` where one side cannot be read."""
        places = _cache_key(mine, other)
        content = self._contents.get(places, places)
        result = self._results.get(content)
        if result is None or (isinstance(result, ParityError) and content != places):
            # Another file of this content could not be read; this one may be whole.
            result = self._results[content] = self._by_all_cores(mine, other)
        if isinstance(result, ParityError):
            raise result
        return result

    def distance_of_integers(self, mine: Leaf, other: Leaf) -> float:
        """Return the distance of two tensors of whole numbers, computed exactly; 0 for those of different dtypes."""
        if not isinstance(mine, TensorLeaf) or not isinstance(other, TensorLeaf) or mine.dtype != other.dtype:
            return 0.0
        left, right = self._candidate.tensor(mine).array, self._baseline.tensor(other).array
        apart = left != right
        pairs = zip(left[apart].tolist(), right[apart].tolist(), strict=True)
        return math.sqrt(sum((first - second) ** 2 for first, second in pairs))

    def _finish_one(self, running: deque[tuple[Hashable, Future[Result]]]) -> None:
        content, future = running.popleft()
        self._results[content] = future.result()

    def _begin(
        self, places: Hashable, mine: TensorLeaf, other: TensorLeaf, pool: ThreadPoolExecutor, running: deque[Any]
    ) -> None:
        """Have a pair compared, unless its content has been or one of its files cannot be read."""
        content = places
        try:
            left, right = self._candidate.stored(mine), self._baseline.stored(other)
            if left.content is not None and right.content is not None:
                content = self._contents[places] = left.content, right.content
            if content in self._begun or mine.numel >= _SHARED_FROM:
                return  # `metrics` reads the largest, by all cores
            self._begun.add(content)
            work = left, left.map(), right, right.map()
        except ParityError as error:
            self._results[content] = error
            return
        if mine.numel < _HANDED_OVER_FROM:
            self._results[content] = _by_one_core(*work)
        else:
            running.append((content, pool.submit(_by_one_core, *work)))

    def _by_all_cores(self, mine: TensorLeaf, other: TensorLeaf) -> PairMetrics:
        from torchparity.kernels.pairs import compare_pair  # loads the compiler, which other modes do without

        return compare_pair(self._candidate.tensor(mine), self._baseline.tensor(other))


def _by_one_core(left: StoredTensor, mine: MappedTensor, right: StoredTensor, other: MappedTensor) -> Result:
    """Compare two stored tensors within one thread, and check their bytes while they are in the cache."""
    from torchparity.kernels.pairs import compare_checked, compare_pair

    try:
        if mine.is_whole and other.is_whole:
            metrics, checksums = compare_checked(mine.tensor, other.tensor)
            left.check(checksums[0])
            right.check(checksums[1])
            return metrics
        return compare_pair(left.verified(), right.verified(), parts=1)
    except ParityError as error:
        return error


def _cache_key(mine: TensorLeaf, other: TensorLeaf) -> Hashable:
    return mine.stored_in or mine.data_name, other.stored_in or other.data_name, mine.dtype, other.dtype
