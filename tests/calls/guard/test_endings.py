"""The deliberate end of a training: what a listener answers reaches the user, what it raises never does."""

from __future__ import annotations

import pytest
import torch
from torch.overrides import _get_current_function_mode_stack

from torchparity.calls import Listener, listening


class Ending(Listener):
    """Ends the training after so many calls or gradients, with an error of its own."""

    ends_training = True

    def __init__(self, *, calls=None, gradients=None, error=KeyError):
        self.calls, self.backward, self.error = calls, gradients, error
        self.seen, self.is_ended = [], False

    def before(self, call):
        call.wants_gradients = True
        return call.name

    def after(self, call, state, output):
        self.seen.append(call.name)

    def gradients(self, call, state, received, returned):
        self.seen.append(f"gradient of {call.name}")

    def ending(self):
        told = [name for name in self.seen if name.startswith("gradient")] if self.backward else self.seen
        if self.is_ended or len(told) < (self.backward or self.calls):
            return None
        self.is_ended = True
        return self.error("enough")


class Unasked(Ending):
    ends_training = False


class Faulty(Listener):
    ends_training = True

    def after(self, call, state, output):
        raise ValueError("a fault of ours")

    def ending(self):
        raise ValueError("another fault of ours")


class Counting(Listener):
    def __init__(self):
        self.told = []

    def after(self, call, state, output):
        self.told.append(call.name)


def test_the_user_gets_the_error_at_the_call_itself():
    reached = []
    with pytest.raises(KeyError) as raised, listening(Ending(calls=2)):
        reached.append(torch.ones(2))
        reached.append(torch.ones(2).exp())

    assert len(reached) == 1
    assert type(raised.value) is KeyError and raised.value.args == ("enough",)
    assert raised.value.__cause__ is None


def test_every_other_listener_is_told_of_the_call_first():
    before, after = Counting(), Counting()
    with pytest.raises(KeyError), listening(before, Ending(calls=1), after):
        torch.ones(2)

    assert before.told == after.told == ["Torch.ones.0.forward"]


def test_the_training_that_goes_on_is_asked_for_no_second_end():
    with listening(ending := Ending(calls=1)):
        with pytest.raises(KeyError):
            torch.ones(2)
        torch.zeros(2).exp()

    assert ending.seen == ["Torch.ones.0.forward", "Torch.zeros.0.forward", "Tensor.exp.0.forward"]


def test_the_error_comes_out_of_the_backward_pass_too():
    leaf = torch.ones(2, requires_grad=True)
    with listening(Ending(gradients=1)):
        loss = leaf.exp().sum()
        with pytest.raises(KeyError, match="enough"):
            loss.backward()

    assert leaf.grad is None


def test_gradients_that_come_after_listening_still_end_it():
    leaf = torch.ones(2, requires_grad=True)
    with listening(Ending(gradients=1)) as dispatcher:
        loss = leaf.exp().sum()
        dispatcher.attention = type(dispatcher.attention).OFF
        with pytest.raises(KeyError):
            loss.backward()


def test_modes_and_grad_are_as_before():
    before = _get_current_function_mode_stack()
    with pytest.raises(KeyError), listening(Ending(calls=1)):
        torch.ones(2)

    assert _get_current_function_mode_stack() == before
    assert torch.is_grad_enabled() and torch._C._is_torch_function_enabled()


@pytest.mark.parametrize("listener", [Unasked(calls=1), Faulty()], ids=["did-not-say-so", "raises"])
def test_nothing_else_of_a_listener_reaches_the_training(listener):
    with listening(listener):
        result = torch.ones(2).exp()

    assert torch.equal(result, torch.ones(2).exp())


def test_what_it_raises_is_counted_as_ever():
    with listening(faulty := Faulty()):
        torch.ones(2)

    assert [sentence.partition(": ")[2] for sentence in faulty.failures.sentences()] == [
        "Torch.ones: ValueError: a fault of ours",
        "ending: ValueError: another fault of ours",
    ]
