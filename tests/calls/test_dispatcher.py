"""Listeners: told of every call, safe from one another, and able to replace what a call returns."""

from __future__ import annotations

import gc
import weakref
from collections import Counter

import pytest
import torch

from torchparity import open_run
from torchparity.calls import ApiMode, Attention, Dispatcher, Interest, Listener, listening, put_below, take_off
from torchparity.recording import capture


class Counting(Listener):
    """Counts calls by the name of their function."""

    def __init__(self):
        super().__init__()
        self.calls = Counter()
        self.names = []

    def before(self, call):
        self.calls[call.op.name] += 1
        self.names.append(call.name)


class Remembering(Counting):
    """Keeps what it is told, in order."""

    def __init__(self):
        super().__init__()
        self.events = []

    def before(self, call):
        super().before(call)
        self.events.append(("before", call.name))
        return call.name

    def after(self, call, state, output):
        self.events.append(("after", state))

    def raised(self, call, state, error):
        self.events.append(("raised", state, type(error).__name__))


class Failing(Listener):
    """Raises in everything it is told."""

    def before(self, call):
        if call.op.name.endswith("exp"):
            raise ValueError("before")
        return True

    def after(self, call, state, output):
        raise ValueError("after")


class Doubling(Listener):
    """Puts twice the output of relu in its place."""

    replaces_outputs = True

    def interest(self, op):
        return Interest.CALLS if op.name.endswith(".relu") else Interest.NOTHING

    def replacement(self, call, state, output):
        return output * 2


def test_a_listener_counts_calls():
    counting = Counting()

    with listening(counting):
        torch.nn.functional.relu(torch.ones(2))
        torch.ones(2).exp()

    assert counting.calls == {"Torch.ones": 2, "Functional.relu": 1, "Tensor.exp": 1}


def test_a_listener_is_told_of_the_end_of_a_call_and_of_its_error():
    remembering = Remembering()
    x = torch.ones(2)

    with listening(remembering), pytest.raises(RuntimeError):
        x.exp()
        x.view(2, 1).matmul(torch.ones(5, 5))

    assert remembering.events == [
        ("before", "Tensor.exp.0.forward"),
        ("after", "Tensor.exp.0.forward"),
        ("before", "Torch.ones.0.forward"),
        ("after", "Torch.ones.0.forward"),
        ("before", "Tensor.matmul.0.forward"),
        ("raised", "Tensor.matmul.0.forward", "RuntimeError"),
    ]


def test_one_that_fails_hides_no_other():
    failing, remembering = Failing(), Remembering()
    x = torch.ones(2)

    with listening(failing, remembering):
        assert torch.equal(x.exp(), torch.exp(x))
        x.sin()

    heard = {name for _, name in remembering.events}
    assert heard == {"Tensor.exp.0.forward", "Torch.exp.0.forward", "Torch.equal.0.forward", "Tensor.sin.0.forward"}
    assert "once not recorded: Tensor.exp: ValueError: before" in failing.failures.sentences()
    assert "once not recorded: Tensor.sin: ValueError: after" in failing.failures.sentences()
    assert remembering.failures.sentences() == []


def test_a_listener_that_calls_torch_moves_no_number():
    class Computing(Remembering):
        def before(self, call):
            torch.ones(2).exp()
            return super().before(call)

    computing = Computing()

    with listening(computing):
        x = torch.ones(2)
        x.exp()
        x.exp()

    assert computing.names == ["Torch.ones.0.forward", "Tensor.exp.0.forward", "Tensor.exp.1.forward"]


def test_what_is_recorded_is_what_the_user_gets_and_gradients_are_those_of_the_replacement():
    class Outputs(Listener):
        def __init__(self):
            super().__init__()
            self.seen, self.returned = [], []

        def before(self, call):
            call.wants_gradients = True
            return True

        def after(self, call, state, output):
            self.seen.append((call.op.name, output.detach().clone()))

        def gradients(self, call, state, received, returned):
            self.returned += [(call.op.name, gradient.clone()) for _, gradient in returned]

    outputs, x = Outputs(), torch.tensor([1.0, -1.0], requires_grad=True)

    with listening(outputs, Doubling()):
        y = torch.nn.functional.relu(x)
        y.backward(torch.ones(2))

    assert y.tolist() == [2.0, 0.0]
    assert [(name, value.tolist()) for name, value in outputs.seen] == [
        ("Functional.relu", [2.0, 0.0]),
        ("Torch.ones", [1.0, 1.0]),
    ]
    assert [(name, value.tolist()) for name, value in outputs.returned] == [("Functional.relu", [2.0, 0.0])]
    assert x.grad.tolist() == [2.0, 0.0]


def test_a_module_s_output_can_be_replaced():
    class DoublingModules(Doubling):
        def interest(self, op):
            return Interest.CALLS if op.name.startswith("Module") else Interest.NOTHING

    model = torch.nn.Sequential(torch.nn.ReLU())

    with listening(DoublingModules(), model=model):
        inside = model(torch.ones(2))

    assert inside.tolist() == [4.0, 4.0]  # the ReLU and the Sequential around it
    assert model(torch.ones(2)).tolist() == [1.0, 1.0]


def test_of_a_call_that_interests_nobody_nothing_is_made():
    class Deaf(Counting):
        def interest(self, op):
            return Interest.NOTHING

    deaf = Deaf()

    with listening(deaf) as dispatcher:
        torch.ones(2).exp()

        assert dispatcher.number("Tensor.exp")[0] == 0
    assert not deaf.calls


def test_a_call_has_its_tensors_as_one_flat_list():
    class Flattening(Listener):
        def before(self, call):
            inputs = call.inputs.walked()
            self.tensors, self.form = list(inputs.tensors), (inputs.args_form, inputs.kwargs_form)

    flattening, a, b, c = Flattening(), torch.ones(1), torch.ones(2), torch.ones(3)

    with listening(flattening):
        torch.func.functional_call(torch.nn.Identity(), {}, (a,))
        torch.cat([b, c], dim=0)

    assert [tensor.shape for tensor in flattening.tensors] == [(2,), (3,)]
    assert flattening.form[0] == ((0, 1),)
    assert flattening.form[1]["dim"].value == 0


def test_hooks_on_the_graph_keep_no_tensor_alive(tmp_path):
    a = torch.randn(4, requires_grad=True)
    with capture(tmp_path):
        x = a * 1
        reference = weakref.ref(x)
        y = x + 1
        del x
        gc.collect()

        assert reference() is None
        y.sum().backward()


def test_listeners_of_two_dispatchers_hear_the_same_calls():
    first, second = Counting(), Counting()

    with listening(first):
        with listening(second):
            torch.ones(2).exp()
        torch.ones(2).sin()

    assert first.calls == {"Torch.ones": 2, "Tensor.exp": 1, "Tensor.sin": 1}
    assert second.calls == {"Torch.ones": 1, "Tensor.exp": 1}


def test_a_listener_lives_beside_a_recording(tmp_path):
    counting = Counting()
    mode = ApiMode(dispatcher := Dispatcher(counting))
    dispatcher.attention = Attention.LISTENING

    with capture(tmp_path):
        put_below(mode)
        torch.ones(2).exp()
        take_off(mode)
        torch.ones(2).exp()

    assert counting.calls == {"Torch.ones": 1, "Tensor.exp": 1}
    assert list(open_run(tmp_path).part().records) == [
        "Torch.ones.0.forward",
        "Tensor.exp.0.forward",
        "Torch.ones.1.forward",
        "Tensor.exp.1.forward",
    ]


def test_a_fault_that_comes_with_every_call_is_one_kind_of_failure(caplog):
    failing, x = Failing(), torch.ones(2)

    with listening(failing):
        for _ in range(20):
            x.sin()

    assert failing.failures.sentences() == ["20 times not recorded: Tensor.sin: ValueError: after"]
    assert len(caplog.records) == 1


def test_a_listener_that_cannot_say_what_it_wants_stops_nobody():
    class Undecided(Counting):
        def interest(self, op):
            raise TypeError("undecided")

    undecided, counting, x = Undecided(), Counting(), torch.ones(2)

    with listening(undecided, counting, model=torch.nn.Linear(2, 2)):
        assert x.exp().shape == (2,)

    assert counting.calls["Tensor.exp"] == 1 and not undecided.calls
    assert any("undecided" in sentence for sentence in undecided.failures.sentences())


def test_who_wants_to_know_of_writes_hears_of_them_beside_one_who_wants_calls():
    class Effects(Listener):
        def __init__(self):
            self.written, self.shown = [], []

        def interest(self, op):
            return Interest.EFFECTS

        def wrote(self, op, args, kwargs):
            self.written.append(op.name)

        def exposed(self, tensors):
            self.shown += tensors

    effects, x = Effects(), torch.ones(2)

    with listening(effects, Counting()):
        x.add_(1)
        x.numpy()

    assert effects.written == ["Tensor.add_"]
    assert [tensor is x for tensor in effects.shown] == [True]


class Speechless(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def test_an_exception_without_a_text_reaches_the_user_as_it_is(tmp_path):
    class Raising(torch.nn.Module):
        def forward(self, x):
            raise Speechless("the user's own")

    model = Raising()
    with capture(tmp_path, model=model), pytest.raises(Speechless) as raised:
        model(torch.ones(1))

    assert raised.value.args == ("the user's own",)
    assert open_run(tmp_path).part().records["Module.Raising.forward.0"].error.startswith("Speechless")


def test_functions_of_the_users_are_not_kept_alive(tmp_path):
    class Captured:
        pass

    def called_through_torch(captured):
        def function(x):
            return torch.overrides.handle_torch_function(function, (x,), x) if captured is None else x

        return function

    captured, x = Captured(), torch.ones(1)
    reference = weakref.ref(captured)
    with capture(tmp_path):
        function = called_through_torch(captured)
        torch.overrides.handle_torch_function(function, (x,), x)
    del captured, function
    gc.collect()

    assert reference() is None


class Odd:
    def __init__(self, error):
        self._error = error

    def __hash__(self):
        raise self._error

    def __call__(self, x):
        return x + 1


def test_a_function_with_a_hostile_hash_runs_as_without_us(tmp_path):
    x = torch.ones(1)
    with capture(tmp_path):
        result = torch.overrides.handle_torch_function(Odd(RuntimeError("hash")), (x,), x)

    assert result.item() == 2
