"""Running a case: on the device under test, on the CPU in the same dtype, and on the CPU in higher precision."""

from torchparity.check.execution.devices import choose_compilation, device_named
from torchparity.check.execution.exactness import has_exact_inputs, is_exact
from torchparity.check.execution.performed import Performed, perform
from torchparity.check.execution.picked import picking
from torchparity.check.execution.precision import Way, reference_dtype
from torchparity.check.execution.results import Results
from torchparity.check.execution.vectors import solving

__all__ = [
    "Performed",
    "Results",
    "Way",
    "choose_compilation",
    "device_named",
    "has_exact_inputs",
    "is_exact",
    "perform",
    "picking",
    "reference_dtype",
    "solving",
]
