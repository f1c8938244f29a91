"""The rule of steps, told what scripts of many kinds do."""

from __future__ import annotations

import pytest

from torchparity.running.step_rule import StepRule


class Written:
    """Writes down what scripts do, and in between what the rule says."""

    def __init__(self):
        self.words = []
        self.rule = StepRule(self)

    def restart(self):
        self.words.append("anew")

    def begin(self):
        self.words.append("[")

    def pause(self):
        self.words.append("|")

    def end(self):
        self.words.append("]")

    def does(self, word):
        rule = self.rule
        actions = {
            "make": lambda: rule.optimizer_made(of_modules=True),
            "make-functional": lambda: rule.optimizer_made(of_modules=False),
            "call": lambda: rule.model_called(with_gradients=True),
            "look": lambda: rule.model_called(with_gradients=False),
            "other": rule.model_replaced,
            "back": rule.backward_ended,
            "step": lambda: rule.optimizer_stepped("A"),
            "step-other": lambda: rule.optimizer_stepped("B"),
            "last": rule.batches_ended,
            "batch": lambda: rule.batch_given("training"),
            "held-out": lambda: rule.batch_given("held out"),
        }
        if word in ("batch", "held-out", "last"):
            rule.batch_asked()
        if word not in ("call", "look", "batch", "held-out"):
            self.words.append(word)
        actions[word]()
        if word in ("call", "look", "batch", "held-out"):
            self.words.append(word)


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        pytest.param("make call back step call back step", "make [ call back step ] [ call back step ]", id="plain"),
        pytest.param(
            "make batch call back step batch call back step last",
            "make [ batch call back step ] [ batch call back step ] last",
            id="DataLoader",
        ),
        pytest.param(
            "make batch call back batch call back step batch call back",
            "make [ batch call back batch call back step ] [ batch call back",
            id="accumulation",
        ),
        pytest.param(
            "make batch batch call back call back step batch batch call back call back step",
            "make [ batch batch call back call back step ] [ batch batch call back call back step",
            id="several batches at once",
        ),
        pytest.param(
            "make batch batch call back step last call back step",
            "make [ batch batch call back step ] last [ call back step ]",
            id="one batch ahead",
        ),
        pytest.param(
            "make batch call back step call back step-other batch call back step",
            "make [ batch call back step call back step-other ] [ batch call back step",
            id="two optimizers for a batch",
        ),
        pytest.param(
            "make batch call back step last held-out look held-out look last batch call back step last",
            "make [ batch call back step ] last held-out look held-out look last [ batch call back step ] last",
            id="evaluation after an epoch",
        ),
        pytest.param(
            "make held-out look held-out look last batch call back step last",
            "make [ held-out | look held-out look last batch [ call back step ] last",
            id="evaluation before the training",
        ),
        pytest.param("make call look back step", "make [ call look back step ]", id="no gradients in a step"),
        pytest.param("call back call back", "[ call back ] [ call back", id="no optimizer"),
        pytest.param(
            "batch call back batch call back last", "[ batch call back ] [ batch call back ] last", id="mixed"
        ),
        pytest.param("look look look", "[ look ] [ look ] [ look", id="generate"),
        pytest.param("batch look look batch look last", "[ batch look look ] [ batch look ] last", id="inference"),
        pytest.param(
            "make batch call back step call back step call back step",
            "make [ batch call back step call back step ] [ call back step ]",
            id="one batch for ever",
        ),
        pytest.param("back back", "back [ back ] [", id="no model"),
        pytest.param("make back step back step", "make back [ step ] [ back step ] [", id="no module is called"),
        pytest.param(
            "look look make call back step call back step",
            "[ look ] [ look make | anew [ call back step ] [ call back step ]",
            id="evaluation before the optimizer",
        ),
        pytest.param(
            "held-out look held-out look last make batch call back step last held-out look last",
            "[ held-out look ] [ held-out look ] last make anew [ batch call back step ] last held-out look last",
            id="features before the optimizer",
        ),
        pytest.param("look make", "[ look make |", id="an optimizer that is not used"),
        pytest.param(
            "call make back step call back step",
            "[ call make back step ] [ call back step ]",
            id="an optimizer made after the first forward",
        ),
        pytest.param(
            "call make call back step call back step",
            "[ call make anew [ call back step ] [ call back step ]",
            id="a first call for the shapes of lazy modules",
        ),
        pytest.param(
            "batch call make back step batch call back step last",
            "[ batch call make back step ] [ batch call back step ] last",
            id="an optimizer made in the first batch",
        ),
        pytest.param(
            "look other call back call back", "[ look other | anew [ call back ] [ call back", id="a teacher first"
        ),
        pytest.param(
            "call back make call back step", "[ call back make call back step ]", id="an optimizer after a backward"
        ),
        pytest.param(
            "make-functional back step back step", "make-functional [ back step ] [ back step ] [", id="tensors"
        ),
    ],
)
def test_steps_begin_and_end_where_people_expect_them(script, wanted):
    written = Written()

    for word in script.split():
        written.does(word)

    assert " ".join(written.words) == wanted
