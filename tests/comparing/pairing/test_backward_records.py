"""Records aligned in the order of their calls: backward records follow their forward calls."""

from __future__ import annotations

import pytest

from torchparity.comparing.pairing.records import align
from torchparity.records import Record, TensorLeaf


def run_of(*shapes, operator):
    """Return a run that calls one operator with tensors of these shapes, and the gradients of each call."""
    records = {}
    for direction in ("forward", "backward"):
        for call, shape in enumerate(shapes):
            name = f"Attention.{operator}.{call}.{direction}"
            leaf = TensorLeaf(dtype="torch.float32", shape=shape)
            records[name] = Record(name=name, direction=direction, output=[leaf])
    return records


@pytest.mark.parametrize("operator", ["attend", "forward", "backward", "backward.forward"])
def test_backward_records_follow_their_realigned_calls(operator):
    candidate = run_of((9,), (1,), (2,), operator=operator)  # its first call is one more
    baseline = run_of((1,), (2,), operator=operator)

    pairs = align(candidate, baseline, "order")

    partners = {
        pair.candidate.name: pair.baseline.name
        for pair in pairs
        if pair.candidate is not None and pair.baseline is not None
    }
    assert partners == {
        f"Attention.{operator}.{call + 1}.{direction}": f"Attention.{operator}.{call}.{direction}"
        for call in (0, 1)
        for direction in ("forward", "backward")
    }
    assert {pair.how for pair in pairs} == {"realigned", "unmatched"}


def test_a_second_backward_follows_its_realigned_call():
    candidate, baseline = run_of((9,), (1,), operator="attend"), run_of((1,), operator="attend")
    for run, call in ((candidate, 1), (baseline, 0)):
        name = f"Attention.attend.{call}.backward#2"
        run[name] = Record(name=name, direction="backward")

    pairs = align(candidate, baseline, "order")

    second = next(pair for pair in pairs if pair.candidate and pair.candidate.name == "Attention.attend.1.backward#2")
    assert second.baseline is not None and second.baseline.name == "Attention.attend.0.backward#2"
