"""The listener of handler fix: the user gets the perturbed result, and gradients flow through it."""

from __future__ import annotations

from typing import Any

import torch

from torchparity.calls import Call
from torchparity.ops import possible_writes
from torchparity.perturb.checking import left_out_sentences, reasons_for_nothing
from torchparity.perturb.perturbations import Perturbation
from torchparity.perturb.perturbing import Held, Perturbing, check_draws_nothing, check_is_no_view, share_memory
from torchparity.perturb.selected_calls import SelectedCalls
from torchparity.perturb.subject import CancelledError, call_tensors, mapped, tensors_of
from torchparity.perturb.verdicts import Verdicts
from torchparity.text import counted


class Fix(Perturbing):
    """Replaces results. The graph of the perturbed call takes the place of the call's own: its backward is in the
    raised precision, or on the CPU, too.
    """

    replaces_outputs = True
    table = None

    def __init__(self, calls: SelectedCalls, verdicts: Verdicts, perturbation: Perturbation) -> None:
        super().__init__(calls, verdicts)
        self._perturbation = perturbation

    def wants(self, call: Call) -> bool:
        """Tell whether a call is to be fixed: one that is done again for its gradients as well as the first time."""
        return self.calls.takes(call)

    def copied(self, tensor: torch.Tensor, *, is_written: bool) -> torch.Tensor:
        return tensor.clone() if is_written else tensor

    def open(self, folder: Any, rank: int) -> None:
        """Make no file: nothing is judged."""

    def replacement(self, call: Call, state: Held, output: Any) -> Any:
        """Return the result of a call on perturbed inputs, in the dtype and on the device of its own."""
        fixed = self.within(call.name, lambda: [self._fixed(call, state, output)])
        if fixed is None:
            self.calls.give_back(call)
            return output
        return fixed[0]

    def sentences(self) -> list[str]:
        if not self.verdicts.perturbed:
            return [f"nothing was replaced by {self.verdicts.mode}", *reasons_for_nothing(self.verdicts, self.calls)]
        fixed = f"replaced the results of {counted(self.verdicts.perturbed, 'call')} by {self.verdicts.mode}"
        return [fixed, *left_out_sentences(self.verdicts, self.calls)]

    def _fixed(self, call: Call, held: Held, output: Any) -> Any:
        check_draws_nothing(held)
        given = call_tensors(call)
        originals = list(tensors_of(output))
        check_is_no_view(call, originals)
        written = _written(call, held, given, originals)
        fresh = [tensor for tensor in originals if not share_memory([tensor], given)]
        if not written and not fresh:
            is_input = "it returns its input, which must stay the same tensor"
            raise CancelledError(is_input if originals else "its result has no tensor to replace")
        if any(given[place]._is_view() for place in written):
            raise CancelledError("it writes into a view, whose base has gradients of its own")
        assert call.function is not None
        tensors = self._perturbation.perturbed(held.subject)
        again = held.run_again(call.function, tensors, self._perturbation)
        results = list(tensors_of(again))
        if [result.shape for result in results] != [original.shape for original in originals]:
            raise CancelledError("it returned results of other shapes")
        kept = {id(tensor) for tensor in originals} - {id(tensor) for tensor in fresh}
        pairs = zip(originals, results, strict=True)
        replaced = {id(old): _like(new, old) for old, new in pairs if id(old) not in kept}
        for place in written:
            _write_back(given[place], tensors[place])
        self.verdicts.begin(call.name)
        return mapped(output, lambda value: replaced.get(id(value), value)) if fresh else output


def _written(call: Call, held: Held, given: list[torch.Tensor], results: list[torch.Tensor]) -> list[int]:
    """Return the places of the tensors that a call wrote; running statistics have no new version."""
    unversioned = {id(tensor) for tensor in possible_writes(call.op, [], call.args, call.kwargs)}
    return [
        place
        for place, tensor in enumerate(given)
        if _was_written(tensor, held.versions[place], results) or id(tensor) in unversioned
    ]


def _was_written(tensor: torch.Tensor, version: int, results: list[torch.Tensor]) -> bool:
    return share_memory(results, [tensor]) if tensor.is_inference() else tensor._version != version


def _write_back(tensor: torch.Tensor, fixed: torch.Tensor) -> None:
    """Put what a call wrote into the tensor that it was given; its graph becomes that of the perturbed call.

    What was written without gradients keeps the graph that it had.
    """
    has_graph = torch.is_grad_enabled() and not (tensor.is_leaf and tensor.requires_grad)  # a leaf is a parameter
    if has_graph and tensor.grad_fn is not None:
        tensor.detach_()
    with torch.set_grad_enabled(has_graph):
        tensor.copy_(fixed)


def _like(result: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
    """Return a result in the dtype, on the device and with the strides that the call's own has."""
    like = result.to(original.device, original.dtype)
    if like.stride() == original.stride():
        return like
    return torch.empty_like(original, memory_format=torch.preserve_format).copy_(like)
