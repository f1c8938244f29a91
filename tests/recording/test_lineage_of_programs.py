"""Random programs against an oracle that follows every element: who wrote it last."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch

from torchparity import capture, open_run

SIDE = 4


class Storage:
    """Memory as the oracle sees it: the producers that may have left something in it, in order."""

    def __init__(self, producers):
        self.producers = tuple(producers)


class Program:
    """Runs random calls, recorded and not, and notes what every recorded call must say about its inputs.

    A write to a part leaves all earlier producers, since the oracle, like the recorder, looks at storages.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers = Counter()
        self.expected = {}
        self.live = [(torch.randn(SIDE, SIDE), Storage(["outside"])) for _ in range(2)]

    def name(self, api):
        self.numbers[api] += 1
        return f"{api}.{self.numbers[api] - 1}.forward"

    def note(self, record, *inputs):
        for place, (_, storage) in enumerate(inputs):
            self.expected[f"{record}.input.{place}"] = storage.producers

    def pick(self):
        return self.random.choice(self.live)

    def pick_two(self):
        """Return a target and a source that lies in other memory, which torch asks for."""
        target = self.pick()
        others = [entry for entry in self.live if entry[1] is not target[1]]
        return target, self.random.choice(others or [self.made()])

    def step(self):
        action = self.random.choice(
            [
                *(self.unary, self.binary, self.view, self.copy_of_view, self.in_place, self.part, self.free),
                *(self.empty, self.out, self.hand_on, self.set_item, self.copy_over),
            ]
        )
        action()

    def made(self):
        return torch.ones(SIDE, SIDE), Storage([self.name("Torch.ones")])

    def unary(self):
        source = self.pick()
        record = self.name("Torch.sin")
        self.note(record, source)
        self.live.append((torch.sin(source[0]), Storage([record])))

    def binary(self):
        left, right = self.pick(), self.pick()
        record = self.name("Torch.add")
        self.note(record, left, right)
        self.live.append((torch.add(left[0], right[0]), Storage([record])))

    def view(self):
        tensor, storage = self.pick()
        self.live.append((tensor.t().view_as(tensor) if tensor.is_contiguous() else tensor.t(), storage))

    def copy_of_view(self):
        tensor, storage = self.pick()
        copied = tensor.t().contiguous()
        with torch._C.DisableTorchFunction():  # asking for a pointer is handing memory out
            is_copy = copied.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()
        self.live.append((copied, Storage(storage.producers) if is_copy else storage))

    def in_place(self):
        target = self.pick()
        record = self.name("Tensor.cos_")
        self.note(record, target)
        target[0].cos_()
        target[1].producers = (record,)

    def part(self):
        tensor, storage = self.pick()
        record = self.name("Tensor.zero_")
        row = tensor.select(0, self.random.randrange(SIDE))
        self.note(record, (row, storage))
        row.zero_()
        self.join(storage, record)

    def set_item(self):
        target, value = self.pick(), self.random.random()
        record = self.name("Tensor.__setitem__")
        self.note(record, target)
        target[0][self.random.randrange(SIDE)] = value
        self.join(target[1], record)

    def copy_over(self):
        target, source = self.pick_two()
        record = self.name("Tensor.copy_")
        self.note(record, target, source)
        target[0].copy_(source[0])
        target[1].producers = (record,)

    def out(self):
        target, source = self.pick_two()
        record = self.name("Torch.exp")
        self.note(record, source)
        self.expected[f"{record}.input.out"] = target[1].producers
        torch.exp(source[0], out=target[0])
        target[1].producers = (record,)

    def hand_on(self):
        source = self.pick()
        record = self.name("Tensor.to")
        self.note(record, source)
        self.live.append((source[0].to(torch.float32), source[1]))

    def empty(self):
        self.name("Torch.empty")
        self.live.append((torch.empty(SIDE, SIDE), Storage(["uninitialised"])))

    def free(self):
        if len(self.live) > 3:
            del self.live[self.random.randrange(len(self.live))]

    @staticmethod
    def join(storage, record):
        producers = [producer for producer in storage.producers if producer != record] + [record]
        if len(producers) > 8:
            first = producers[:1] if producers[0] == "uninitialised" else []
            producers = first + producers[len(first) - 8 :]
        storage.producers = tuple(producers)


@pytest.mark.parametrize("seed", range(12))
def test_every_input_is_told_as_the_oracle_says(tmp_path, seed):
    program = Program(seed)
    with capture(tmp_path / "run", level="L1") as recording:
        for _ in range(120):
            program.step()
        recording.step()
    part = open_run(tmp_path / "run").part()

    told = {
        f"{record.name}.{item.name}": tuple(origin.name or origin.kind for origin in part.origins_of(item.leaf))
        for record in part.records.values()
        for item in record.items()
        if f"{record.name}.{item.name}" in program.expected
    }

    assert len(told) > 60
    assert told == program.expected
