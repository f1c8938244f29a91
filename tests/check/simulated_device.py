"""The zoo's GPT recorded on the CPU and checked on a simulated NPU: run as a program, it prints one JSON object.

    python -m tests.check.simulated_device

Sums are added in another order there; "wrong" has the results with another epsilon in every layer norm, "tf32" those
with products in TF32.
"""

from __future__ import annotations

import json
import warnings

import torch

from tests.check.recorded_zoo import recorded, without_values
from tests.support.zoo import ZOO
from torchparity.check.checking import check_case
from torchparity.simulation import NpuBehaviour, WrongEpsilon, simulate_npu

NPU = NpuBehaviour(reduction_order="chunked")
TF32_NPU = NpuBehaviour(accumulate="tf32")
WRONG_NPU = NpuBehaviour(reduction_order="chunked", faults=(WrongEpsilon("layer_norm", call=None, eps=0.5),))


def in_tf32() -> dict[str, list[object]]:
    """Return the status of each call in float32, and whether TF32 is named."""
    found = {}
    for case in recorded(ZOO["gpt"], torch.float32):
        result = check_case(case, torch.device("npu")).result
        found[case.name] = [str(result.status), "TF32" in result.message]
    return found


def statuses() -> dict[str, str]:
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        for case in recorded(ZOO["gpt"], dtype):
            checked = check_case(without_values(case), torch.device("npu"))
            assert checked.performed is None or checked.performed.same_dtype is not None
            found[f"{dtype} {case.name}"] = str(checked.result.status)
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    simulate_npu(NPU)
    right = statuses()
    simulate_npu(WRONG_NPU)
    wrong = statuses()
    simulate_npu(TF32_NPU)
    print(json.dumps({"right": right, "wrong": wrong, "tf32": in_tf32()}))
