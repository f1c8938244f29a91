"""Runs an operator of the device with the CPU's kernel, through the layers that behave otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch

from torchparity.errors import MissingOperatorError
from torchparity.simulation.call import HostCall, Kernel, Layer
from torchparity.simulation.faults.fault import KERNELS_OF
from torchparity.simulation.memory import CPU_KEYS
from torchparity.simulation.options import NpuBehaviour
from torchparity.simulation.own_kernels import DRAWS_WITHOUT_ASKING, OWN_KERNELS
from torchparity.simulation.planted_faults import PlantedFaults
from torchparity.simulation.precision import Accumulating, FlushedSubnormals, Reordered
from torchparity.simulation.translation import Translation

_MIXES_DEVICES = ("_copy_from", "index", "_index", "_unsafe_index", "set_", "_pack_padded", "_pad_packed", "_ctc")


@dataclass(frozen=True)
class _Plan:
    """The way one operator runs; made when it is first called."""

    name: str
    kernel: Kernel
    writes: bool
    generator: bool
    mixes_devices: bool


class Execution:
    """The kernels of the simulated device, with one behaviour at a time."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator, self.overflowed = generator, False
        self.behave(NpuBehaviour())

    def behave(self, behaviour: NpuBehaviour) -> None:
        """Take another behaviour from here on; the calls of each operator are counted anew."""
        self.behaviour = behaviour
        self._plans: dict[torch._ops.OpOverload, _Plan] = {}
        self.faults = PlantedFaults(behaviour.faults, self._raise_overflow)

    def draws_from(self) -> torch.Generator:
        """Return the generator of operators that are called without one."""
        return torch.default_generator if self.behaviour.shares_cpu_generator else self.generator

    def run(self, operator: torch._ops.OpOverload, *arguments: Any, **keywords: Any) -> Any:
        """Run an operator on device tensors."""
        plan = self._plans.get(operator)
        if plan is None:
            plan = self._plans[operator] = self._plan(operator)
        with torch._C.DisableTorchFunction():  # what the device does is no call of the program
            return self._run(plan, operator, arguments, keywords)

    def run_unregistered(self, operator: torch._ops.OpOverload, *arguments: Any, **keywords: Any) -> Any:
        """Run an operator that the device has no kernel for: on the CPU if that was asked for."""
        if not self.behaviour.falls_back_to_cpu or not _cpu_has(operator):
            raise MissingOperatorError(_name(operator), cpu_has_it=_cpu_has(operator))
        return self.run(operator, *arguments, **keywords)

    def _run(
        self, plan: _Plan, operator: torch._ops.OpOverload, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        translation = Translation()
        given = tuple(translation.to_host(value) for value in arguments)
        named = {name: translation.to_host(value) for name, value in keywords.items() if name != "pin_memory"}
        if translation.foreign and not plan.mixes_devices:
            _refuse_other_devices(operator, translation.foreign)
        if plan.generator and named.get("generator") is None:
            named["generator"] = self.draws_from()
        result = plan.kernel(HostCall(plan.name, operator, given, named))
        if plan.writes:
            translation.follow_writes()
        return translation.to_device(result)

    def _plan(self, operator: torch._ops.OpOverload) -> _Plan:
        schema = operator._schema
        name = schema.name.removeprefix("aten::")
        base = name if name in OWN_KERNELS else name.removesuffix("_")
        lacked = {kernel for one in self.behaviour.lacks for kernel in KERNELS_OF.get(one, (one,))}
        if base in lacked and not self.behaviour.falls_back_to_cpu:
            raise MissingOperatorError(_name(operator), cpu_has_it=True)
        return _Plan(
            name=base,
            kernel=self._kernel(base),
            writes=schema.is_mutable,
            generator=name in DRAWS_WITHOUT_ASKING or any(each.name == "generator" for each in schema.arguments),
            mixes_devices=name.startswith(_MIXES_DEVICES),
        )

    def _kernel(self, name: str) -> Kernel:
        kernel = OWN_KERNELS.get(name, _cpu_kernel)
        for layer in self._layers():
            if layer.concerns(name):
                kernel = partial(_run_layer, layer, kernel)
        return partial(self.faults.run, kernel) if self.faults.concern(name) else kernel

    def _layers(self) -> list[Layer]:
        behaviour = self.behaviour
        order, accumulation = behaviour.reduction_order, behaviour.accumulate
        layers: list[Layer] = [] if order is None else [Reordered(order)]
        layers += [] if accumulation is None else [Accumulating(accumulation)]
        return [*layers, FlushedSubnormals()] if behaviour.flush_subnormals else layers

    def _raise_overflow(self) -> None:
        self.overflowed = True


def _run_layer(layer: Layer, kernel: Kernel, call: HostCall) -> Any:
    return layer.run(call, kernel)


def _cpu_kernel(call: HostCall) -> Any:
    numbers = [index for index in _tensor_places(call.operator) if isinstance(_at(call, index), (int, float, complex))]
    if not numbers:
        redispatch: Callable[..., Any] = call.operator.redispatch
        return redispatch(CPU_KEYS, *call.arguments, **call.keywords)
    # torch hands a number over as such where its own kernels get a tensor that is marked as a number.
    if torch._C._should_allow_numbers_as_tensors(call.name):
        return call.operator(*call.arguments, **call.keywords)
    given = [torch.tensor(value) if index in numbers else value for index, value in enumerate(call.arguments)]
    return call.operator(*given, **call.keywords)


@cache
def _tensor_places(operator: torch._ops.OpOverload) -> tuple[int, ...]:
    """Return the positions of arguments that are single tensors."""
    return tuple(index for index, each in enumerate(operator._schema.arguments) if str(each.type) == "Tensor")


def _at(call: HostCall, index: int) -> Any:
    return call.arguments[index] if index < len(call.arguments) else None


def _name(operator: torch._ops.OpOverload) -> str:
    """Return an operator's name as the dispatcher has it, such as "aten::add.Tensor"."""
    schema = operator._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


def _cpu_has(operator: torch._ops.OpOverload) -> bool:
    return bool(torch._C._dispatch_has_computed_kernel_for_dispatch_key(_name(operator), "CPU"))


def _refuse_other_devices(operator: torch._ops.OpOverload, tensors: list[torch.Tensor]) -> None:
    """Raise as torch does where a call mixes devices; a single number may come from the CPU."""
    for tensor in tensors:
        if tensor.dim():
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but {operator} was called with npu:0 and "
                f"{tensor.device}; move the tensor to the simulated NPU."
            )
