"""Activates the simulated NPU: at most once in a process, and never beside a real one."""

from __future__ import annotations

import atexit
from importlib.util import find_spec

import torch
from torch.utils import backend_registration

from torchparity.errors import ConfigError, SimulationError, nearest
from torchparity.simulation.backend import SimulatedBackend
from torchparity.simulation.execution import Execution
from torchparity.simulation.faults.fault import KERNELS_OF
from torchparity.simulation.memory import StorageMaker
from torchparity.simulation.options import NpuBehaviour
from torchparity.simulation.registration import register_kernels

_UNNAMED = ("privateuseone", "npu")


def simulate_npu(behaviour: NpuBehaviour | None = None) -> SimulatedBackend:
    """Give torch a device `npu` that computes on the CPU; return it, as `torch.npu`.

    Call it before the first backward of the process. A second call takes the new behaviour and counts the calls of
    operators anew; tensors and generator stay. Faults that nothing came of are logged then, or at the end.
    """
    behaviour = NpuBehaviour() if behaviour is None else behaviour
    if not isinstance(behaviour, NpuBehaviour):
        raise ConfigError(f"simulate_npu was given {behaviour!r}; it takes an NpuBehaviour(...).")
    _refuse_unknown_operators(behaviour)
    backend = getattr(torch, "npu", None)
    if not isinstance(backend, SimulatedBackend):
        backend = _activate()
    if not backend.goes_backward:
        _refuse_where_too_late()
        backend.goes_backward = True
    backend.tell_unmet_faults()
    backend.execution.behave(behaviour)
    return backend


def _activate() -> SimulatedBackend:
    _refuse_where_impossible()
    execution = Execution(torch.Generator().manual_seed(torch.default_generator.initial_seed()))
    backend = SimulatedBackend(execution)
    backend_registration._setup_privateuseone_for_python_backend("npu", backend_module=backend)
    backend.registrations = register_kernels(execution)
    atexit.register(backend.tell_unmet_faults)
    maker = StorageMaker(torch.UntypedStorage.__new__)
    torch.UntypedStorage.__new__ = maker  # type: ignore[method-assign, assignment]
    return backend


def _refuse_where_too_late() -> None:
    """Go backward once: torch counts devices at the first backward of a process."""
    with torch._C.DisableTorchFunction(), torch.inference_mode(False), torch.enable_grad():
        one = torch.ones(1, device="npu", requires_grad=True)
        try:
            torch.autograd.grad([one * 1], [one], [one.detach()])
        except RuntimeError as error:
            if "device_ready_queues_" not in str(error):
                raise
            raise SimulationError(
                "simulate_npu was called after the first backward of this process, too late for torch to start "
                "a thread for the device; call it at the start of the program."
            ) from None


def _refuse_unknown_operators(behaviour: NpuBehaviour) -> None:
    for name in (*(fault.operator for fault in behaviour.faults), *sorted(behaviour.lacks)):
        if name not in KERNELS_OF and not hasattr(torch.ops.aten, name):
            known = [*KERNELS_OF, *torch.ops.aten]
            raise ConfigError(f"the simulated NPU has no operator {name!r}.{nearest(name, known)}")


def _refuse_where_impossible() -> None:
    found = find_spec("torch_npu")
    if found is not None and found.origin is not None:  # and not a name that stands for its hooks alone
        raise SimulationError(
            "simulate_npu was called where torch_npu is installed; use the real NPU, or uninstall it."
        )
    if not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
        raise SimulationError(f"simulate_npu needs torch 2.13 or newer; this is torch {torch.__version__}.")
    taken = torch._C._get_privateuse1_backend_name()
    if taken not in _UNNAMED:
        raise SimulationError(f"simulate_npu needs torch's place for another device, which {taken!r} has taken.")
