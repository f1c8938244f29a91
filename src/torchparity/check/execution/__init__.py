"""Running a case: on the device under test, on the CPU in the same dtype, and on the CPU in higher precision."""

from torchparity.check.execution.devices import device_named
from torchparity.check.execution.performed import Performed, perform
from torchparity.check.execution.phases import reason_without_gradients, turned
from torchparity.check.execution.precision import Way, reference_dtype
from torchparity.check.execution.results import Results

__all__ = [
    "Performed",
    "Results",
    "Way",
    "device_named",
    "perform",
    "reason_without_gradients",
    "reference_dtype",
    "turned",
]
