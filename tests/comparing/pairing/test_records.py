"""Fuzzy pairs: calls that differ in their number, from the same place where the runs tell it."""

from __future__ import annotations

from torchparity.comparing.pairing.records import Parents, align, parents_of
from torchparity.records import Record, StackGroup, TensorLeaf

LEAF = TensorLeaf(dtype="torch.float32", shape=(2,))
CALLS = [f"Torch.mul.{call}.forward" for call in range(3)]


def records(*names):
    return {name: Record(name=name, direction="forward", output=[LEAF]) for name in names}


def pairs_of(candidate, baseline, parents=None):
    found = align(records(*candidate), records(*baseline), "fuzzy", parents)
    return [(pair.candidate and pair.candidate.name, pair.baseline and pair.baseline.name) for pair in found]


def test_without_places_calls_pair_as_they_come():
    assert pairs_of(CALLS[:2], CALLS[:1]) == [(CALLS[0], CALLS[0]), (CALLS[1], None)]


def test_calls_of_another_module_do_not_pair():
    modules = {CALLS[0]: "Module.a.Block.forward.0", CALLS[1]: "Module.b.Block.forward.0"}
    parents = Parents(modules, {CALLS[0]: "Module.b.Block.forward.3"})

    assert pairs_of(CALLS[:2], CALLS[:1], parents) == [(CALLS[0], None), (CALLS[1], CALLS[0])]


class Part:
    """What `parents_of` looks at in a part of a run."""

    def __init__(self, construct, stacks):
        self.construct, self.stacks = construct, stacks


def stack(line, function, *names):
    frames = [
        "File /venv/site-packages/torch/nn/modules/module.py, line 1, in _call_impl, \n return forward_call(*args)",
        f"File /somewhere{line}/train.py, line {line}, in {function}, \n x = x * 2",
    ]
    return StackGroup(list(names), frames)


def test_without_modules_the_functions_of_the_stack_tell_the_place():
    candidate = Part({}, [stack(3, "warm_up", CALLS[0]), stack(9, "forward", CALLS[1])])
    baseline = Part({}, [stack(7, "forward", CALLS[0])])

    parents = parents_of(candidate, baseline)

    assert pairs_of(CALLS[:2], CALLS[:1], parents) == [(CALLS[0], None), (CALLS[1], CALLS[0])]


def test_what_only_one_run_tells_is_no_reason_to_part():
    candidate = Part({CALLS[0]: "Module.a.Block.forward.0"}, [])

    assert parents_of(candidate, Part({}, [])) == Parents()
