"""A Ray cluster: blocks of tensors of all ranks, measured by the workers of all nodes, which read shared storage.

Ray gives a block whose worker failed or was killed to another one. A result belongs to its block, and a block is taken
once, so nothing is lost and nothing counted twice.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from importlib import import_module
from typing import Any, NamedTuple

from torchparity.comparing.engines import Engine, Opener
from torchparity.comparing.measuring.pair_blocks import BlockResult, PairBlock, blocks_of, measure_block
from torchparity.comparing.measuring.pair_reader import PairReader, Progress
from torchparity.errors import EngineError
from torchparity.text import counted, one_line

_RETRIES = 5  # of a block whose worker died
_MOST_RUNNING = 512  # blocks that are handed to Ray at once
_CONNECTING = 5.0  # seconds
_SETTINGS = 4  # the kind of HTTP/2's first frame
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0])
_LONGEST_REASON = 200


class _Job(NamedTuple):
    """A block, whose results they are, and by what its pairs are known there."""

    reader: PairReader
    places: list[Hashable]
    block: PairBlock


class RayEngine:
    """Hands blocks to Ray as parts are begun, and takes results until a part has all of its own."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._task = ray.remote(num_cpus=1, max_retries=_RETRIES)(measure_block)
        self._waiting: deque[_Job] = deque()
        self._running: dict[Any, _Job] = {}
        self._left: Counter[PairReader] = Counter()  # blocks that are not done
        self._done = self._all = 0  # pairs of all parts
        nodes = [node for node in ray.nodes() if node["Alive"]]
        processors = int(sum(node["Resources"].get("CPU", 0) for node in nodes))
        self.where = f", on {counted(processors, 'CPU')} of {counted(len(nodes), 'node')}"

    def begin(self, reader: PairReader) -> None:
        """Hand the blocks of a part to Ray, or have them wait for their turn."""
        for places, block in blocks_of(reader):
            self._waiting.append(_Job(reader, places, block))
            self._left[reader] += 1
            self._all += len(places)
        self._submit()

    def finish(self, reader: PairReader, progress: Progress, meanwhile: Callable[[], None]) -> None:
        """Take results, of whichever part, until this one has all; progress is that of all parts."""
        meanwhile()
        while self._left[reader]:
            progress(self._done, self._all)
            (ready, *_), _ = self._ray.wait(list(self._running), num_returns=1)
            self._take(ready)
            self._submit()
        progress(self._done, self._all)
        del self._left[reader]

    def cancel(self) -> None:
        """Take back what is not done."""
        for reference in self._running:
            self._ray.cancel(reference)

    def _submit(self) -> None:
        while self._waiting and len(self._running) < _MOST_RUNNING:
            job = self._waiting.popleft()
            self._running[self._task.remote(job.block)] = job

    def _take(self, reference: Any) -> None:
        job = self._running.pop(reference)
        result = self._result(reference)
        if result.problem:
            raise EngineError(f"a worker of the Ray cluster cannot compare: {result.problem}.")
        for place, metrics in zip(job.places, result.metrics, strict=True):
            if metrics is not None:
                job.reader.put(place, metrics)
        self._left[job.reader] -= 1
        self._done += len(job.places)

    def _result(self, reference: Any) -> BlockResult:
        errors = self._ray.exceptions
        try:
            result: BlockResult = self._ray.get(reference)
            return result
        except errors.RayTaskError as error:
            raise EngineError(f"a worker of the Ray cluster failed: {_reason(error.cause)}.") from None
        except errors.RayError as error:
            raise EngineError(f"workers of the Ray cluster died {_RETRIES + 1} times: {_reason(error)}.") from None


@contextmanager
def _open(address: str | None) -> Iterator[Engine]:
    try:
        ray: Any = import_module("ray")
    except ModuleNotFoundError:
        raise EngineError("the engine ray is not installed here; `pip install torchparity[ray]` adds it.") from None
    with nullcontext() if ray.is_initialized() else _joined(ray, address):
        engine = RayEngine(ray)
        try:
            yield engine
        finally:
            engine.cancel()


@contextmanager
def _joined(ray: Any, address: str | None) -> Iterator[None]:
    """Be part of a cluster for a while; Ray's own lines go to stderr, for stdout has the answer."""
    with redirect_stdout(sys.stderr):
        _connect(ray, address)
        try:
            yield
        finally:
            ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    """Join the cluster at an address; without one, that of RAY_ADDRESS or of this machine, or a new one here."""
    _refuse_unreachable(address)
    own = {"include_dashboard": False} if address is None else {}
    try:
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **own)
    except (RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        if "AuthenticationError" in str(error.__cause__):
            advice = "it asks for a token, which RAY_AUTH_MODE=token and RAY_AUTH_TOKEN give"
            raise EngineError(f"the Ray cluster at {address or 'this machine'} cannot be joined: {advice}.") from None
        raise EngineError(
            f"the Ray cluster at {address or 'this machine'} cannot be joined: {_reason(error)}."
        ) from None


def _refuse_unreachable(address: str | None) -> None:
    """Raise where nobody answers at host:port as a gRPC server does; Ray itself would try for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _CONNECTING) as connection:
            if not os.environ.get("RAY_USE_TLS") and not _answers(connection):
                raise EngineError(f"no Ray cluster can be reached at {address}: what listens there is not Ray.")
    except (OSError, OverflowError) as error:
        raise EngineError(
            f"no Ray cluster can be reached at {address}: {_reason(error)}; `ray start --head` prints its address."
        ) from None


def _answers(connection: socket.socket) -> bool:
    """Tell whether a server greets as HTTP/2 servers have to, by their settings."""
    connection.sendall(_GREETING)
    try:
        answer = connection.recv(9, socket.MSG_WAITALL)
    except TimeoutError:
        return False
    return len(answer) == 9 and answer[3] == _SETTINGS


def _reason(error: BaseException | None) -> str:
    """Return the first sentence of an error of Ray's, which may be pages long."""
    text = str(error).strip().splitlines()
    return one_line(text[0] if text else type(error).__name__)[:_LONGEST_REASON].rstrip(". ")


PLUGIN: Opener = _open
