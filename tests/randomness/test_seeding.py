"""seed_all, plain and enhanced: every call draws the same."""

from __future__ import annotations

import threading

import pytest
import torch
from torch.nn import functional

from torchparity import ParityError, open_run, seed_all
from torchparity.recording import capture


def test_an_enhanced_seed_lets_every_call_draw_the_same():
    seed_all(7, is_enhanced=True)
    first, second = torch.rand(3), torch.rand(3)
    generator = torch.Generator().manual_seed(1)
    third, fourth = torch.rand(3, generator=generator), torch.rand(3, generator=generator)
    dropped = [functional.dropout(torch.ones(50), 0.5) for _ in range(2)]

    assert torch.equal(first, second)
    assert torch.equal(third, fourth) and not torch.equal(first, third)
    assert torch.equal(*dropped)
    assert torch.equal(first, torch.rand(3, generator=torch.Generator().manual_seed(7)))


def test_an_enhanced_seed_is_recorded_as_it_is(tmp_path):
    seed_all(7, is_enhanced=True)
    with capture(tmp_path, task="tensor"):
        drawn = [torch.rand(3) for _ in range(2)]
    after = torch.rand(3)

    part = open_run(tmp_path).part()
    kept = [part.tensor(record.output[0]).array.tolist() for record in part.records.values()]
    assert kept == [drawn[0].tolist()] * 2 == [after.tolist()] * 2


def test_a_plain_seed_ends_an_enhanced_one():
    seed_all(7, is_enhanced=True)
    seed_all(8, is_enhanced=True)
    assert torch._C._len_torch_function_stack() == 1

    seed_all(7)

    assert torch._C._len_torch_function_stack() == 0
    assert not torch.equal(torch.rand(3), torch.rand(3))


def test_other_threads_draw_as_they_would():
    seed_all(7, is_enhanced=True)
    drawn = []
    other = threading.Thread(target=lambda: drawn.extend([torch.rand(3), torch.rand(3)]))
    other.start()
    other.join()

    assert not torch.equal(*drawn)


@pytest.mark.parametrize("seed", ["x", -1, 1.5, 2**40])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(ParityError, match=r"seed_all was given .* whole number"):
        seed_all(seed)
