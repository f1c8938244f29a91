"""A case performed in three ways: on the device, in the same dtype on the CPU, and as the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from torchparity.calls import attempted
from torchparity.check.cases import Arguments, CannotRun, Case, Input, is_operator, rebuilt
from torchparity.check.emulation import VARIANTS
from torchparity.check.execution.precision import Emulated, Way, reference_way
from torchparity.check.execution.results import Results
from torchparity.check.execution.running import Call, first_line, run
from torchparity.check.execution.seeds import GradientSeeds
from torchparity.devices import device_for
from torchparity.naming import flatten
from torchparity.ops import describe_function
from torchparity.records import LEAF_TYPES, TensorLeaf

_OUT_HAS_NO_GRADIENT = "function with out=... arguments don't support automatic differentiation, skip backward."


@dataclass(frozen=True)
class Performed:
    """The three results of a case; `same_dtype` is None on the CPU itself, and where the CPU has no such kernel."""

    case: Case
    call: Call
    device: Results
    reference: Results
    same_dtype: Results | None
    note: str = ""  # a sentence for the row
    recurs_in_tf32: bool = False  # the device is set to use TF32 in recurrences

    @cached_property
    def reference_way(self) -> Way:
        """The way in which the reference was run."""
        return reference_way(self.case, self.call.arguments)

    @property
    def can_emulate(self) -> bool:
        """True where the reference is wider than the tested dtype."""
        return self._tested is not None and self.reference_way.raised is not None

    def emulated(self, number: int, *, has_exact_inputs: bool = False) -> Results | None:
        """Return the reference with the tested dtype's rounding, sample `number`; None where it cannot be had."""
        if has_exact_inputs and number:
            return None  # nothing is drawn for it
        tested = self._tested or torch.float32
        emulated = Emulated(tested, number, self.case.api, has_exact_inputs)
        return self._another(replace(self.reference_way, emulated=emulated))

    def in_tf32(self, variant: int) -> Results | None:
        """Return the reference with its products in a variant of TF32; None where it cannot be had."""
        return self._another(replace(self.reference_way, tf32=variant)) if variant < VARIANTS else None

    def _another(self, way: Way) -> Results | None:
        if way not in self._others:
            results = attempted(lambda: run(self.call, way))
            self._others[way] = None if isinstance(results, Exception) else results
        return self._others[way]

    @cached_property
    def _others(self) -> dict[Way, Results | None]:
        return {}

    @cached_property
    def _tested(self) -> torch.dtype | None:
        tensors = [given.tensor for given in self.call.arguments.inputs()]
        values = [*self.device.outputs.values(), *self.device.written.values(), *tensors]
        kinds = (value.dtype for value in values if isinstance(value, torch.Tensor))
        return next((kind for kind in kinds if kind.is_floating_point or kind.is_complex), None)


def perform(case: Case, function: Callable[..., Any], device: torch.device) -> Performed:
    """Run a case in all ways; raise `CannotRun` where the device or the reference cannot."""
    if not is_operator(function):
        raise CannotRun(f"{case.api} is no operator of torch, and a file's word is not enough to call it")
    has_out = "out" in case.forward.input_kwargs and case.forward.input_kwargs["out"] is not None
    seeds = GradientSeeds(case, case.backward) if case.backward is not None and not has_out else None
    op = describe_function(function)
    call = Call(function, _arguments(case), op.writes or has_out, op.writes_unversioned, seeds)
    call, on_device = _run_as_recorded(case, call, Way(device))
    reference = attempted(lambda: run(call, reference_way(case, call.arguments)))
    if isinstance(reference, Exception):
        raise CannotRun(f"the reference in higher precision raised {first_line(reference)}")
    same_dtype = attempted(lambda: run(call, Way(torch.device("cpu")))) if device.type != "cpu" else None
    if isinstance(same_dtype, Exception):
        same_dtype = None
    note = _OUT_HAS_NO_GRADIENT if has_out and case.backward is not None else ""
    return Performed(case, call, on_device, reference, same_dtype, note, _recurs_in_tf32(device))


def _recurs_in_tf32(device: torch.device) -> bool:
    setting = device_for(device).settings().get("tf32.rnn")
    return setting is not None and bool(setting())


def _arguments(case: Case) -> Arguments:
    """Return the rebuilt arguments; a file that somebody edited may hold anything."""
    arguments = attempted(lambda: rebuilt(case))
    if isinstance(arguments, CannotRun):
        raise arguments
    if isinstance(arguments, Exception):
        raise CannotRun(f"its arguments cannot be rebuilt: {first_line(arguments).rstrip('.')}")
    return arguments


def _run_as_recorded(case: Case, call: Call, way: Way) -> tuple[Call, Results]:
    """Run on the device with arguments as recorded, or with the dtypes that autocast gave them on the way in."""
    results = attempted(lambda: run(call, way))
    wanted = _recorded_float(case)
    if wanted is not None and (isinstance(results, Exception) or _first_float(results) not in (None, wanted)):
        retyped = replace(call, arguments=_retyped(call.arguments, wanted))
        again = attempted(lambda: run(retyped, way))
        if not isinstance(again, Exception) and _first_float(again) == wanted:
            return retyped, again
    if isinstance(results, TypeError):
        with_tuples = replace(call, arguments=_with_tuples(call.arguments))
        again = attempted(lambda: run(with_tuples, way))
        if not isinstance(again, Exception):
            return with_tuples, again
    if isinstance(results, CannotRun):
        raise results
    if isinstance(results, Exception):
        drawn = "" if call.arguments.is_real else "needs real data: with drawn arguments "
        raise CannotRun(f"{drawn}it raised on {way.device}: {first_line(results).rstrip('.')}")
    return call, results


def _recorded_float(case: Case) -> torch.dtype | None:
    """Return the dtype of the first floating-point output that was recorded."""
    for _, leaf in flatten("", case.forward.output, LEAF_TYPES):
        if isinstance(leaf, TensorLeaf) and leaf.dtype in ("torch.float16", "torch.bfloat16", "torch.float32"):
            dtype = getattr(torch, leaf.dtype.removeprefix("torch."))
            return dtype if isinstance(dtype, torch.dtype) else None
    return None


def _first_float(results: Results) -> torch.dtype | None:
    tensors = (value for value in results.outputs.values() if isinstance(value, torch.Tensor))
    return next((tensor.dtype for tensor in tensors if tensor.is_floating_point()), None)


def _retyped(arguments: Arguments, dtype: torch.dtype) -> Arguments:
    def change(leaf: Any) -> Any:
        is_float = isinstance(leaf, Input) and leaf.tensor.is_floating_point()
        return replace(leaf, tensor=leaf.tensor.to(dtype)) if is_float else leaf

    args, kwargs = arguments.mapped(change)
    return replace(arguments, args=args, kwargs=kwargs)


def _with_tuples(arguments: Arguments) -> Arguments:
    return replace(arguments, args=[_tupled(entry) for entry in arguments.args])


def _tupled(nest: Any) -> Any:
    return tuple(_tupled(entry) for entry in nest) if isinstance(nest, list) else nest
