"""Arenas that cannot measure: what is lost, and what is said."""

from __future__ import annotations

import torch

from tests.support.processes import run_python
from torchparity import open_run
from torchparity.kernels.arenas.host import HostArena
from torchparity.recording import capture


def test_an_arena_that_fails_costs_what_it_had_in_hand_and_is_not_used_again(tmp_path, monkeypatch):
    flush, number = HostArena.flush, iter(range(1_000_000))

    def failing(arena):
        if arena._queue and next(number) >= 2:
            raise RuntimeError("no compiler")
        flush(arena)

    monkeypatch.setattr(HostArena, "flush", failing)
    with capture(tmp_path):
        for value in range(6):
            torch.full((2,), float(value)).exp()

    part = open_run(tmp_path).part()
    shown = {
        name: record.input_args[0].statistics.max
        for name, record in part.records.items()
        if name.startswith("Tensor.exp") and record.input_args[0].statistics
    }
    assert len(shown) >= 4
    assert all(value == int(name.split(".")[2]) for name, value in shown.items())
    assert any("no compiler" in problem for problem in part.problems)


def test_without_a_compiler_for_its_kernels_nothing_begins(tmp_path):
    code = "import sys; from torchparity import capture\nwith capture(sys.argv[1]): print('training')"
    done = run_python(code, tmp_path, environment={"NUMBA_DISABLE_JIT": "1"})

    assert done.returncode == 1 and "training" not in done.stdout
    assert "NUMBA_DISABLE_JIT" in done.stderr.splitlines()[-1]
