"""The listener of stage backward: compares each selected API's gradients with those on perturbed inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from torchparity.calls import Call, Gradients
from torchparity.naming import backward_of
from torchparity.perturb.checking import add_all, check_sentences
from torchparity.perturb.deviation import largest_deviation
from torchparity.perturb.float_bits import unit_moved
from torchparity.perturb.memory_layout import copied
from torchparity.perturb.perturbations import Perturbation
from torchparity.perturb.perturbing import Held, Perturbing, check_draws_nothing
from torchparity.perturb.rerunning import RandomState, run_again
from torchparity.perturb.selected_calls import SelectedCalls
from torchparity.perturb.subject import CancelledError, tensors_of, versions_of
from torchparity.perturb.verdicts import Verdicts


@dataclass
class _Forward:
    """A call whose gradients are awaited: its inputs are kept until they came once."""

    held: Held | None
    function: Callable[..., Any]
    slots: list[int]  # of the call's tensors in order, the place of each among those that are held once
    wanted: list[int]  # places that have a gradient
    versions: list[int]
    graph_task: int | None = None
    received: dict[int, torch.Tensor] = field(default_factory=dict)
    perturbed: dict[int, torch.Tensor | None] = field(default_factory=dict)  # gradients by place
    judged: set[int] = field(default_factory=set)  # places

    def let_go(self) -> None:
        self.held = None
        self.received.clear()
        self.perturbed.clear()


class BackwardCheck(Perturbing):
    """Runs a call again on perturbed inputs when its gradients have come, and its backward with the same gradients."""

    def __init__(self, calls: SelectedCalls, verdicts: Verdicts, perturbation: Perturbation) -> None:
        super().__init__(calls, verdicts)
        self._perturbation = perturbation

    def before(self, call: Call) -> Any:
        """Hold the inputs of a call that has gradients."""
        held = super().before(call)
        if held is None:
            return None
        tensors = call.inputs.walked().tensors
        places: dict[int, int] = {}
        slots = [places.setdefault(id(tensor), len(places)) for tensor in tensors]
        distinct = list({id(tensor): tensor for tensor in tensors}.values())
        if len(distinct) != len(held.subject.tensors):
            self.verdicts.cancel(call.name, "its tensors are inside of an object")
            self.give_back(call)
            return None
        call.wants_gradients = True
        wanted = [place for place, tensor in enumerate(distinct) if tensor.requires_grad]
        return _Forward(held, _nothing, slots, wanted, versions_of(held.subject.tensors))

    def wants(self, call: Call) -> bool:
        """Tell whether a call is to be perturbed: one that has gradients, in the forward that they pass through."""
        if call.is_recompute and not _is_in_backward_of_a_function():
            return False
        if not self.calls.takes(call):
            return False
        has_gradient = torch.is_grad_enabled() and call.op.has_gradient
        if not has_gradient or not any(tensor.requires_grad for tensor in call.inputs.walked().tensors):
            self.verdicts.cancel(call.name, "no gradient is asked of it")
        elif self.verdicts.wants(call.op.name, call.name):
            return True
        self.calls.give_back(call)
        return False

    def after(self, call: Call, state: _Forward, output: Any) -> None:
        """Note the function of a call: when its gradients come the call has let go of it."""
        held = state.held
        if held is not None and self.within(call.name, _drawing_nothing, held) is None:
            state.held = None
        state.function = call.function or _nothing

    def gradients(self, call: Call, state: _Forward, received: Gradients, returned: Gradients) -> None:
        """Collect the gradients at a call's outputs; judge those that it gave its inputs."""
        task = torch._C._current_graph_task_id()
        if state.held is None or state.graph_task not in (None, task):
            return  # of a second backward through the call nothing is kept
        state.graph_task = task
        if received:
            state.received.update(received)
            state.perturbed.clear()
        if not returned:
            return
        name, held = backward_of(call.name), state.held
        deviations = self.within(name, self._deviations, name, state, held, returned)
        moved = unit_moved(self._perturbation.moved, held.subject)
        add_all(self.verdicts, call, held.subject, deviations or [], "backward", moved, name)
        state.judged.update(state.slots[slot] for slot, _ in returned)
        if deviations is None or state.judged.issuperset(state.wanted):
            state.let_go()

    def sentences(self) -> list[str]:
        return check_sentences(self.verdicts, self.calls)

    def _deviations(
        self, name: str, state: _Forward, held: Held, returned: Gradients
    ) -> list[tuple[int | None, torch.Tensor, Any]]:
        if not state.perturbed:
            state.perturbed = self._perturbed_gradients(name, state, held)
        is_several = len(state.wanted) > 1
        return [
            (state.slots[slot] if is_several else None, gradient, largest_deviation(gradient, perturbed))
            for slot, gradient in returned
            if (perturbed := state.perturbed[state.slots[slot]]) is not None
        ]

    def _perturbed_gradients(self, name: str, state: _Forward, held: Held) -> dict[int, torch.Tensor | None]:
        if versions_of(held.subject.tensors) != state.versions:
            raise CancelledError("an input was written since")
        # Hooks of ours, or those of the user's on saved tensors would be called.
        with torch.enable_grad(), saved_tensors_hooks(_same, _same):
            leaves, given = self._leaves(state, held)
            random_state = RandomState()  # others have drawn since the call
            mode, autocasting = self._perturbation, held.autocasting
            again = run_again(state.function, held.subject, given, mode, autocasting, random_state)
            gradients = _gradients(list(tensors_of(again)) or given, state.received, leaves)
        self.verdicts.begin(name)
        return dict(zip(state.wanted, gradients, strict=True))

    def _leaves(self, state: _Forward, held: Held) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Return the tensors whose gradients are asked for, and those that the call is given.

        Where elements change places the first are as they were: their gradients go back to where they came from.
        """
        tensors = [tensor.detach() for tensor in held.subject.tensors]
        if not self._perturbation.moves_elements:
            with torch.no_grad():
                tensors = [tensor.detach() for tensor in self._perturbation.perturbed(held.subject)]
        leaves = [tensors[place].requires_grad_() for place in state.wanted]
        if self._perturbation.moves_elements:
            return leaves, self._perturbation.perturbed(replace(held.subject, tensors=tensors))
        # Copies: a leaf that needs a gradient cannot be written in place.
        return leaves, [copied(tensor) if tensor.requires_grad else tensor for tensor in tensors]


def _gradients(
    outputs: list[torch.Tensor], received: dict[int, torch.Tensor], inputs: Sequence[torch.Tensor]
) -> Sequence[torch.Tensor | None]:
    roots = [(outputs[slot], gradient) for slot, gradient in received.items() if outputs[slot].requires_grad]
    if not roots:
        raise CancelledError("its perturbed result has no gradient")
    gradients = [gradient.to(output.device, output.dtype) for output, gradient in roots]
    return torch.autograd.grad([output for output, _ in roots], inputs, gradients, allow_unused=True)


def _is_in_backward_of_a_function() -> bool:
    """Tell whether the backward of a user's `autograd.Function` is running.

    A reentrant checkpoint does its forward again there, and the gradients pass through what that makes. Others do it
    again only to have what it saves.
    """
    return isinstance(torch._C._current_autograd_node(), torch.autograd.function.BackwardCFunction)


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _drawing_nothing(held: Held) -> Held:
    check_draws_nothing(held)
    return held


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Stand for the function of a call that has not returned yet."""
