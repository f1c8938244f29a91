"""A record may name an operator of torch, and nothing else."""

from __future__ import annotations

import pytest

from torchparity.check.cases import is_operator
from torchparity.ops import function_called

OPERATORS = [
    "Torch.exp",
    "Functional.linear",
    "Functional.dropout",
    "Functional.max_pool2d",
    "Tensor.add_",
    "Aten.add_.Tensor",
    "Aten.arange",
    "Ops.aten.mm",
    "Tensor.__getitem__",
    "Tensor.real",
    "Aten.add",
    "Torch.linalg.eig",
    "Torch.fft.rfft",
    "Torch.special.erf",
    "VF.lstm",
    "Torch._foreach_add_",
    "Torch._fused_adam_",
    "Torch.functional.split",
    "Torch.einsum",
    "Torch.zeros",
    "Tensor.split",
    "Functional.interpolate",
    "Torch.signal.windows.hann",
    "Functional.multi_head_attention_forward",
    "Tensor.norm",
]
OTHERS = [
    "Torch.os.system",
    "Torch.load",
    "Torch.save",
    "Torch.hub.load",
    "Functional.torch.load",
    "Torch.utils.cpp_extension.load",
    "Torch.ops.load_library",
    "Ops.load_library",
    "Torch.from_file",
    "Aten.from_file",
    "Ops.aten.from_file",
    "Ops.aten.save",
    "Aten.manual_seed",
    "Torch.set_flush_denormal",
    "Torch.set_num_threads",
    "Torch.set_printoptions",
    "Torch._C.set_anomaly_enabled",
    "Torch._C._set_deterministic_algorithms",
    "Torch.compile",
    "Torch.library.Library",
    "Torch.classes.load_library",
    "Torch._C._import_ir_module",
    "Torch.sys.exit",
    "Torch.builtins.exec",
]


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_may_be_called(name):
    function = function_called(name)

    assert function is not None and is_operator(function)


@pytest.mark.parametrize("name", OTHERS)
def test_what_loads_saves_or_runs_may_not(name):
    function = function_called(name)

    assert function is None or not is_operator(function)
