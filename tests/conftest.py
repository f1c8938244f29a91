"""Fixtures of all tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import GOLDEN, IS_HERE, REASON
from tests.support.runs import write_linear_run


@pytest.fixture(autouse=True)
def no_debugger_outlives_its_test() -> Iterator[None]:
    """Close the debugger that a test leaves open: there is one in a process, and the next test wants its own."""
    yield
    debuggers = sys.modules.get("torchparity.recording.debugger")
    if debuggers is not None:
        debuggers.PrecisionDebugger.close()


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels() -> None:
    """Compile before the first test, which may look at what is logged: in a fresh clone nothing is compiled."""
    from torchparity.kernels.arenas import host_arena

    host_arena(exact=False, checksums=False)


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder with the recorded msprobe runs."""
    if not IS_HERE:
        pytest.skip(REASON)
    return GOLDEN


@pytest.fixture
def linear_run(tmp_path: Path) -> Path:
    """A run of one `linear` call."""
    return write_linear_run(tmp_path / "run")


@pytest.fixture(scope="module")
def operators() -> Iterator[Any]:
    """Operators of a user's own: `scribble` and `dim`."""
    from tests.support.operators import registered_operators

    with registered_operators() as namespace:
        yield namespace


@pytest.fixture
def cuda() -> Any:
    """The first CUDA device; tests that ask for it are marked `gpu`."""
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch.device("cuda", 0)
