"""The faults of one behaviour: which calls they are in, and which of them have done their harm."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torchparity.simulation.call import HostCall, Kernel
from torchparity.simulation.faults.fault import Fault

_log = logging.getLogger("torchparity")


class PlantedFaults:
    """Counts the calls of each operator with a fault, and runs the faulty kernel where the call has come."""

    def __init__(self, faults: Sequence[Fault], raise_overflow: Callable[[], None]) -> None:
        self._faults, self._raise_overflow = faults, raise_overflow
        self._counts: Counter[str] = Counter()
        self.unmet = tuple(faults)

    def concern(self, name: str) -> bool:
        """Tell whether calls of a kernel are counted."""
        return any(name in fault.kernels for fault in self._faults)

    def run(self, kernel: Kernel, call: HostCall) -> Any:
        """Run a call, with the faults that are in it."""
        for fault in self._faults:
            if call.name in fault.kernels and fault.call in (None, self._calls_of(fault)):
                kernel = partial(self._run_fault, fault, kernel)
        self._counts[call.name] += 1
        return kernel(call)

    def tell_unmet(self) -> None:
        """Log the faults that nothing came of: who planted them believes that they are there."""
        for fault in self.unmet:
            _log.warning("torchparity: the simulated NPU never met the fault %s: %s", fault, self._why(fault))

    def _calls_of(self, fault: Fault) -> int:
        return sum(self._counts[name] for name in fault.kernels)

    def _run_fault(self, fault: Fault, kernel: Kernel, call: HostCall) -> Any:
        outcome = fault.compute(call, kernel, self._raise_overflow)
        if outcome.is_wrong:
            self.unmet = tuple(each for each in self.unmet if each is not fault)
        return outcome.result

    def _why(self, fault: Fault) -> str:
        calls = self._calls_of(fault)
        if calls > (fault.call or 0):
            came = "every call" if fault.call is None else f"call {fault.call}"
            return f"{came} of {fault.operator} came and gave it nothing to change"
        times = "once" if calls == 1 else f"{calls} times"
        kernels = " or ".join(fault.kernels)
        known_as = "" if fault.operator in fault.kernels else f" (the kernel {kernels})"
        return f"{fault.operator}{known_as} was called {times}, and calls are counted from 0"
