"""The simulated NPU; nothing here may activate it in the process of the other tests."""

import pytest
from torch.utils import backend_registration

NEEDS_TORCH = pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"), reason="needs torch 2.13"
)
