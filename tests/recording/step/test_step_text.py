"""The text of a step, from templates and rows, is that of its records one by one."""

from __future__ import annotations

import sys
from collections import Counter

import msgspec
import pytest
import torch

from tests.support.zoo import ZOO, Training
from torchparity import open_run
from torchparity.recording import capture
from torchparity.recording.measuring.pending import fill
from torchparity.recording.step import step_text
from torchparity.recording.step.step_text import StepEncoder
from torchparity.recording.step.templates import make_template, shown, value_lists
from torchparity.storage.encoding import encode_each


@pytest.fixture
def steps(monkeypatch):
    """The drafts and the rows of each step that was written."""
    written = []
    encode = StepEncoder.encode

    def noted(encoder, drafts, wait_for_rows):
        def note_rows():
            rows = wait_for_rows()
            written.append((drafts, rows))
            return rows

        return encode(encoder, drafts, note_rows)

    monkeypatch.setattr(StepEncoder, "encode", noted)
    return written


def lines_written(run):
    """The records of each step, a line each, as they are in its dump.json."""
    for file in sorted(run.glob("step*/rank*/dump.json")):
        _, _, data = file.read_bytes().partition(b'"data": {\n')
        yield data.partition(b"\n}")[0].split(b",\n")


def lines_one_by_one(drafts, rows):
    """The same lines, from each record alone."""
    for draft in drafts:
        for tensor in shown(draft):
            if tensor.measurement is not None:
                fill(tensor.measurement, rows)
    names = encode_each([draft.name for draft in drafts])
    return [name + b": " + draft.encoded().entry for name, draft in zip(names, drafts, strict=True)]


def assert_same_text(run, steps):
    written = list(lines_written(run))
    assert len(written) == len(steps)
    for lines, (drafts, rows) in zip(written, steps, strict=True):
        assert lines == lines_one_by_one(drafts, rows)


@pytest.mark.parametrize("summary", ["statistics", "md5"])
@pytest.mark.parametrize("name", ZOO)
def test_the_text_of_the_zoo(name, summary, steps, tmp_path):
    training = Training(ZOO[name])
    settings = {"statistics": {"summary_mode": summary}}
    with capture(tmp_path, model=training.model, level="mix", settings=settings) as recording:
        training.step()
        recording.step()
        training.step()

    assert len(steps) == 2
    assert_same_text(tmp_path, steps)


def unusual(turn):
    """Calls whose arguments differ from step to step by nothing that `==` sees, and tensors of all kinds."""
    zero, one = (0.0, 1) if turn else (-0.0, True)
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    torch.nn.functional.dropout(x, p=zero)
    torch.clamp(x, min=zero).sum().backward()
    torch.sum(x, dim=0 if turn else [0], keepdim=bool(turn))
    torch.tensor([1.0, float("nan"), float("inf")]).exp()
    torch.tensor(3.0).exp()
    torch.full((2,), 1e200, dtype=torch.float64).mul(1.0)
    torch.full((3,), 3e38).mul(1.0)  # whose squares float32 cannot hold
    torch.ones(2, 3, dtype=torch.complex64).mul(2)
    torch.arange(5, dtype=torch.int8).add(1)
    torch.ones(4, dtype=torch.bool).logical_not()
    torch.empty(0).exp()
    torch.ones(2, 3).to_sparse().coalesce()
    torch.ones(3, dtype=torch.bfloat16).exp()
    torch.ones(1).expand(5).exp()
    torch.einsum("ij,ik->jk" if turn else "ab,ac->bc", x, x)
    torch.nn.functional.pad(x, [1, 1], value=one)
    torch._foreach_mul([torch.ones(n + 1) for n in range(9 + turn)], 2.0)
    torch.full((2,), float("nan") if turn else float("inf"))
    torch.sum(x, **({"dim": 0, "keepdim": True} if turn else {"keepdim": True, "dim": 0}))


def test_the_text_of_unusual_calls(steps, tmp_path):
    with capture(tmp_path, level="L1") as recording:
        for turn in (0, 1, 0):
            unusual(turn)
            recording.step()

    assert len(steps) == 3
    assert_same_text(tmp_path, steps)


def test_a_name_of_any_letters_is_written(steps, tmp_path):
    model = torch.nn.Module()
    model.add_module('quo"te\\ \u2028 \u00e9', torch.nn.Tanh())
    model.forward = lambda tensor: next(model.children())(tensor)
    with capture(tmp_path, model=model, level="L0"):
        model(torch.ones(2))

    assert_same_text(tmp_path, steps)
    assert any('quo"te\\' in name for name in open_run(tmp_path).part().records)


def test_a_record_that_no_json_can_hold_leaves_the_others(steps, tmp_path):
    with capture(tmp_path, level="L1"):
        tensor = torch.ones(2)
        tensor.exp()
        tensor.sin()

    ((drafts, rows),) = steps
    del drafts[0]
    drafts[0].input_args = [{1, 2}]
    encoded, left_out = StepEncoder().encode(drafts, lambda: rows)
    assert list(msgspec.json.decode(b"{" + bytes(encoded.lines) + b"}")) == ["Tensor.sin.0.forward"]
    assert [sentence.partition(" (")[0] for sentence in left_out] == ["Tensor.exp.0.forward could not be written"]


def test_long_lists_of_numbers_are_written_as_they_are(steps, tmp_path):
    tensors = [torch.full((number + 1,), 2.0) for number in range(9)]
    numbers = [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e-300, 0.1, 7.0, 3.0]
    with capture(tmp_path, level="L1"):
        torch._foreach_mul(tensors, numbers)
        torch._foreach_addcdiv_(tensors, tensors, tensors, numbers)
        torch._foreach_pow(tensors, [True, 2, 2.5, 3, 4, 5, 6, 7, 8])
        torch.full([1] * 9, 2.0)
        torch.nn.functional.pad(torch.ones(1, 1, 1, 1), [0, 0, 0, 0, 0, 0, 1, 1], "constant", 2.5)
        torch.stack(tensors[:1] * 9, 0)
        torch.ones(3, 4).index_select(1, torch.tensor([0])).tile([1] * 8)

    ((drafts, _),) = steps
    assert sum(bool(value_lists(draft)) for draft in drafts) == 6
    assert_same_text(tmp_path, steps)


class Routing(torch.nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, tensor):
        return tensor.sin(), [1] * self.count, tensor.cos()


@pytest.mark.parametrize("count", [7, 8])
def test_gradients_stay_in_their_places_beside_a_list_of_numbers(count, steps, tmp_path):
    model, tensor = Routing(count), torch.ones(3, requires_grad=True)
    with capture(tmp_path, model=model, level="L0"):
        _, _, last = model(tensor)
        (last * torch.tensor([1.0, 2.0, 3.0])).sum().backward()

    record = open_run(tmp_path).part().records["Module.Routing.backward.0"]
    first, numbers, gradient = record.input_args
    assert first is None and numbers == [None] * count
    assert gradient.statistics.max == 3
    assert_same_text(tmp_path, steps)


class Tagged(torch.nn.Module):
    def forward(self, tensor, *values):
        return tensor.exp()


@pytest.mark.parametrize("count", [7, 8])
def test_a_text_that_no_file_can_hold_leaves_the_step(count, steps, tmp_path, capsys):
    model = Tagged()
    with capture(tmp_path, model=model, level="L0"):
        model(torch.ones(2), ["ok"] * (count - 1) + ["\udc80"])

    record = open_run(tmp_path).part().records["Module.Tagged.forward.0"]
    assert [leaf.value for leaf in record.input_args[1]] == ["ok"] * (count - 1) + ["?"]
    assert "incomplete" not in capsys.readouterr().out


@pytest.mark.parametrize("count", [7, 8])
def test_a_number_that_no_json_can_hold_loses_its_record_alone(count, steps, tmp_path, capsys):
    model = Tagged()
    with capture(tmp_path, model=model, level="L0"):
        model(torch.ones(2))
        model(torch.ones(2), [10**5000] * count)
        model(torch.ones(2))

    part = open_run(tmp_path).part()
    assert list(part.records) == ["Module.Tagged.forward.0", "Module.Tagged.forward.2"]
    assert "Module.Tagged.forward.1 could not be written" in capsys.readouterr().out


def test_numbers_that_differ_from_step_to_step_make_no_template_for_each(steps, monkeypatch, tmp_path):
    records = []

    def noted(draft, pieces):
        records.append(draft.name)
        return make_template(draft, pieces)

    monkeypatch.setattr(step_text, "make_template", noted)
    tensors = [torch.ones(2) for _ in range(9)]
    with capture(tmp_path, level="L1") as recording:
        for step in range(4):
            torch._foreach_mul_(tensors, [step + number / 10 for number in range(9)])
            recording.step()

    assert records == ["Torch._foreach_mul_.0.forward"]
    assert_same_text(tmp_path, steps)


def drafts_and_rows(steps, tmp_path, work):
    with capture(tmp_path, level="L1"):
        work()
    return steps[-1]


def test_a_record_that_shows_other_tensors_than_it_has_leaves_the_others(steps, tmp_path):
    def work():
        for number in range(3):
            torch.full((number + 1,), 1.0).exp()

    drafts, rows = drafts_and_rows(steps, tmp_path, work)
    drafts[1].input_args = []
    encoded, left_out = StepEncoder().encode(drafts, lambda: rows)
    assert not left_out
    assert bytes(encoded.lines).split(b",\n") == lines_one_by_one(drafts, rows)


def test_looking_for_a_template_takes_no_longer_when_there_are_many(steps, tmp_path):
    def work():
        for alpha in range(400):
            torch.add(tensor, 1, alpha=alpha)

    tensor = torch.ones(2)
    drafts, rows = drafts_and_rows(steps, tmp_path, work)
    few, many = drafts[:40], drafts
    assert calls_made(few, rows) * 11 > calls_made(many, rows)


def calls_made(drafts, rows):
    """The number of functions called while records are encoded."""
    calls = Counter()
    sys.setprofile(lambda frame, event, argument: calls.update([event]))
    try:
        StepEncoder().encode(drafts, lambda: rows)
    finally:
        sys.setprofile(None)
    return calls["call"]
