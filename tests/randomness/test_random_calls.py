"""random_save: calls that draw random numbers are listed, and draw what they would."""

from __future__ import annotations

import csv

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader

from torchparity import ParityError, open_run, random_save, seed_all
from torchparity.recording import capture


def listed(calls):
    with calls.path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert all(row.keys() == {"api_name", "stack"} for row in rows)
    return rows


def test_every_call_that_draws_is_listed_with_its_stack_and_no_other(tmp_path):
    x, generator = torch.ones(4), torch.Generator().manual_seed(3)
    with random_save(tmp_path / "new" / "folder") as calls:
        torch.rand(2)
        torch.rand(2)
        functional.dropout(x, 0.5)
        functional.dropout(x, 0.5, training=False)
        nn.Dropout(0.5)(x)
        nn.Dropout(0.5).eval()(x)
        nn.Linear(2, 2)
        x.clone().bernoulli_()
        torch.randperm(3, generator=generator)
        torch.multinomial(x, 2)
        functional.scaled_dot_product_attention(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2))
        x.add_(1).sum().item()
    torch.rand(2)

    rows = listed(calls)
    assert [row["api_name"] for row in rows] == [
        "Torch.rand.0",
        "Torch.rand.1",
        "Functional.dropout.0",
        "Functional.dropout.1",
        *[row["api_name"] for row in rows[4:6]],  # what a linear layer begins with, as torch calls it
        "Tensor.bernoulli_.0",
        "Torch.randperm.0",
        "Torch.multinomial.0",
    ]
    assert all("uniform_" in row["api_name"] for row in rows[4:6])
    assert all("test_random_calls.py" in row["stack"] and "/src/torchparity/" not in row["stack"] for row in rows)
    assert calls.path.name.startswith("random_proc") and calls.path.suffix == ".csv"


def test_listing_changes_nothing_that_is_drawn(tmp_path):
    def draw():
        torch.manual_seed(5)
        return torch.rand(3), functional.dropout(torch.ones(9), 0.5), torch.randn(2)

    expected = draw()
    with random_save(tmp_path):
        got = draw()

    assert all(torch.equal(mine, plain) for mine, plain in zip(got, expected, strict=True))


def test_a_line_is_there_as_soon_as_its_call_has_returned(tmp_path):
    calls = random_save(tmp_path)
    try:
        torch.rand(1)
        assert len(listed(calls)) == 1
        torch.rand(1)
        assert len(listed(calls)) == 2
    finally:
        calls.stop()


def test_listing_and_recording_go_together(tmp_path):
    with random_save(tmp_path / "random") as calls, capture(tmp_path / "run", task="tensor"):
        drawn = torch.rand(3)
        functional.dropout(drawn, 0.5)

    part = open_run(tmp_path / "run").part()
    assert list(part.records) == ["Torch.rand.0.forward", "Functional.dropout.0.forward"]
    assert part.tensor(part.records["Torch.rand.0.forward"].output[0]).array.tolist() == drawn.tolist()
    assert [row["api_name"] for row in listed(calls)] == ["Torch.rand.0", "Functional.dropout.0"]


class Other(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_a_mode_of_somebody_else_may_end_while_calls_are_listed(tmp_path):
    with Other():
        calls = random_save(tmp_path)
    torch.rand(1)
    calls.stop()

    assert len(listed(calls)) == 1


def test_a_loader_that_shuffles_with_workers_goes_on(tmp_path):
    with random_save(tmp_path) as calls:
        loaded = sorted(int(batch) for batch in DataLoader(list(range(6)), shuffle=True, num_workers=2))

    assert loaded == list(range(6))
    assert listed(calls)


def test_a_disk_that_refuses_does_not_stop_the_training(tmp_path, caplog):
    calls = random_save(tmp_path)
    calls.path = tmp_path / "gone" / "random.csv"
    assert torch.rand(3).shape == (3,)
    calls.stop()

    assert "random_save" in caplog.text


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(ParityError, match="file"):
        random_save(tmp_path / "file" / "folder")


def test_compiled_functions_run_under_both(tmp_path):
    compiled = torch.compile(lambda x: torch.sin(x) + 1, backend="eager")
    seed_all(7, is_enhanced=True)
    with random_save(tmp_path):
        assert torch.equal(compiled(torch.zeros(3)), torch.ones(3))


def test_a_call_that_draws_and_raises_is_listed(tmp_path):
    with random_save(tmp_path) as calls, pytest.raises((IndexError, RuntimeError)):
        functional.gumbel_softmax(torch.ones(3), dim=7)

    assert len(listed(calls)) == 1


def test_two_listings_have_files_of_their_own(tmp_path):
    with random_save(tmp_path) as first, random_save(tmp_path) as second:
        torch.rand(1)

    assert first.path != second.path
    assert len(listed(first)) == len(listed(second)) == 1


def test_fake_tensors_and_exports_go_on(tmp_path):
    seed_all(7, is_enhanced=True)
    with random_save(tmp_path):
        with FakeTensorMode():
            assert torch.rand(3).shape == (3,)
        exported = torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),), strict=False)

    assert exported.module()(torch.ones(1, 2)).shape == (1, 2)


def test_modes_of_others_see_nothing_of_ours(tmp_path):
    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    names = []
    seed_all(7, is_enhanced=True)
    with random_save(tmp_path), Seen():
        torch.rand(3)

    assert names == ["aten.rand.default"]


def test_the_default_device_may_change_meanwhile(tmp_path):
    try:
        torch.set_default_device("cpu")
        seed_all(7, is_enhanced=True)
        with random_save(tmp_path) as calls:
            before = torch.rand(1)
            torch.set_default_device("meta")
            meanwhile = torch.rand(1)  # which draws nothing
            torch.set_default_device(None)
            after = torch.rand(1)
    finally:
        torch.set_default_device(None)

    assert meanwhile.is_meta and torch.equal(before, after)
    assert [row["api_name"] for row in listed(calls)] == ["Torch.rand.0", "Torch.rand.1"]
