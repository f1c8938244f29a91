"""The rule that says where the steps of a script begin and end, from what the script does; docs/run.md explains it.

optimizer made?   a step ends with          and is noticed
yes               optimizer.step            at the next batch of a DataLoader that is being read, else at once
no                backward                  at the next batch, else at the next call of the model
no                a call of the model       at the next batch, else at the next call of the model

Calls before the first optimizer was made, without a backward, are an evaluation: the training counts from 0 again.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol


class Steps(Protocol):
    """A listener to the beginnings and ends of steps.

    `pause` leaves out what does not belong to a step; `restart` says that no step before was one of the training.
    """

    def restart(self) -> None: ...

    def begin(self) -> None: ...

    def pause(self) -> None: ...

    def end(self) -> None: ...


class StepRule:
    """Told what a script does, it tells `steps` where a step begins and ends."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._trains = False  # an optimizer was made
        self._has_model = self._has_backward = self._has_begun = self._has_ended = False  # ever
        self._has_stepped = False  # ever, an optimizer
        self._is_open = self._is_paused = self._begins_anew = False
        self._was_called = self._had_gradients = self._was_passed_back = False  # in this step
        self._stepped: set[Hashable] = set()  # optimizers, in this step
        self._is_reading = False  # a DataLoader is in the middle of its batches
        self._ignores_batches = False  # an optimizer stepped twice for one batch
        self._data: Hashable = None  # what the last batch was taken from
        self._training_data: set[Hashable] = set()

    @property
    def is_empty(self) -> bool:
        """True where nothing has happened yet in the step in hand."""
        return not (self._was_called or self._was_passed_back or self._stepped)

    @property
    def is_training(self) -> bool:
        """True where steps are those of a training, and not of what may be an evaluation before one."""
        return (self._trains or self._has_backward) and not self._begins_anew

    @property
    def is_behind_training(self) -> bool:
        """True where the step in hand has calls alone, after an optimizer has stepped: of an evaluation, mostly."""
        return self._has_stepped and not (self._was_passed_back or self._stepped)

    @property
    def is_between_steps(self) -> bool:
        """True where the model was not called since an optimizer stepped."""
        return bool(self._stepped) or not self._was_called

    def optimizer_made(self, *, of_modules: bool) -> None:
        """An optimizer was made; where it has no parameters of modules, no call of a model will begin a step."""
        if not self._trains:
            self._leave_evaluation()
        self._trains = True
        if not of_modules and not self._has_model and not self._is_open:
            self._begin()

    def model_replaced(self) -> None:
        """A module is about to be called that is the model rather than the one that was taken for it."""
        self._leave_evaluation()

    def batch_asked(self) -> None:
        """A DataLoader is asked for its next batch."""
        is_done = bool(self._stepped) if self._trains else self._was_called or self._was_passed_back
        if is_done and not self._ignores_batches:
            self._end()

    def batch_given(self, data: Hashable) -> None:
        """A DataLoader gave a batch of some data."""
        self._is_reading, self._data = True, data
        is_of_training = not self._trains or data in self._training_data
        is_first = not self._has_begun or self._begins_anew
        if self._ignores_batches or not (is_of_training or is_first):
            return
        if not self._is_open or self._begins_anew or (self._is_paused and (is_of_training or is_first)):
            self._begin()

    def batches_ended(self) -> None:
        """The DataLoader that gave the last batch has no more, or is gone."""
        self._is_reading = False

    def model_called(self, *, with_gradients: bool) -> None:
        """The model is about to be called."""
        self._has_model = True
        if self._trains and not with_gradients:
            self._evaluate()
            return
        is_next = self._was_passed_back or (self._was_called and not self._has_backward)
        if is_next and not self._trains and not self._is_reading:
            self._end()
        if not self._is_open or self._is_paused or self._begins_anew:
            self._begin()
        self._was_called, self._had_gradients = True, self._had_gradients or with_gradients
        if self._data is not None:
            self._training_data.add(self._data)

    def backward_ended(self) -> None:
        """A backward pass that the script asked for is over."""
        self._has_backward = self._was_passed_back = True
        if self._begins_anew and self._is_open and not self._is_paused:
            self._begins_anew = False  # the optimizer was made between the first forward and its backward
            self._training_data.add(self._data)
        if self._begins_anew or (self._trains and not self._is_open):
            self._begin()  # a call of the model that was compiled into something else is not seen
        if not self._trains and not self._has_model and not self._is_reading:
            self._end()
            self._begin()

    def optimizer_stepped(self, optimizer: Hashable) -> None:
        """An optimizer has stepped."""
        self._trains = self._has_stepped = True
        self._ignores_batches = self._ignores_batches or optimizer in self._stepped
        self._stepped.add(optimizer)
        if not self._is_reading or self._ignores_batches:
            self._end()
            if not self._has_model:
                self._begin()

    def _evaluate(self) -> None:
        """Leave out a call without gradients in a script that trains, unless it is in the middle of a step."""
        if self._stepped:
            self._end()
        if self._is_open and not self._is_paused and not self._was_called:
            self._is_paused = True
            self._steps.pause()

    def _leave_evaluation(self) -> None:
        """Count anew when the training begins; what was evaluated is kept should none come."""
        if not self._has_begun or self._has_backward:
            return
        self._begins_anew = True
        self._training_data.clear()
        may_be_of_training = self._had_gradients and not self._has_ended
        if self._is_open and not self._is_paused and not may_be_of_training:
            self._is_paused, self._was_called = True, False
            self._steps.pause()

    def _begin(self) -> None:
        if self._begins_anew:
            self._begins_anew = self._was_called = False
            self._steps.restart()
        self._is_open, self._is_paused, self._has_begun = True, False, True
        self._steps.begin()

    def _end(self) -> None:
        self._was_called = self._had_gradients = self._was_passed_back = False
        self._stepped.clear()
        if self._is_open:
            self._is_open, self._is_paused, self._has_ended = False, False, True
            self._steps.end()
