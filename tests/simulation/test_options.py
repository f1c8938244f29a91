"""What is asked of the simulated NPU wrongly is answered in one sentence, before anything runs."""

from __future__ import annotations

import pytest
import torch

from torchparity.errors import ConfigError
from torchparity.simulation import (
    DroppedBias,
    NanAt,
    NpuBehaviour,
    SaturatedOverflow,
    ScaledOutput,
    UnmaskedTail,
    WrongEpsilon,
    simulate_npu,
)

FAULT = NanAt("linear")
BEHAVIOURS = {
    "an order": (
        {"reduction_order": "reverse"},
        r"Did you mean 'reversed'\? There are: reversed, chunked",
    ),
    "an accumulation": ({"accumulate": "fp8"}, r"accumulate='fp8'\. .*There are: bf16, fp16, tf32, or None\."),
    "an accumulation's dtype": ({"accumulate": torch.bfloat16}, r"accumulate=torch\.bfloat16\. There are: bf16"),
    "an order that is a flag": ({"reduction_order": True}, "reduction_order=True"),
    "one fault": ({"faults": FAULT}, r"faults=NanAt\(operator='linear', call=0, index=0\); it takes a tuple of faults"),
    "a fault's name": ({"faults": "NanAt"}, "faults='NanAt'; it takes a tuple of faults"),
    "an operator for a fault": ({"faults": ("linear",)}, r"faults=\('linear',\); it takes a tuple of faults"),
    "a class for a fault": ({"faults": (NanAt,)}, r"it takes a tuple of faults, such as \(NanAt\(\"linear\", 3\),\)"),
    "one operator": ({"lacks": "gelu"}, r"lacks='gelu'; it takes a set of names of operators, such as \{\"gelu\"\}"),
    "operators of torch": ({"lacks": {torch.nn.functional.gelu}}, "it takes a set of names of operators"),
    "a word for a flag": ({"flush_subnormals": "yes"}, "flush_subnormals='yes'; it takes True or False"),
    "a number for a flag": ({"falls_back_to_cpu": 1}, "falls_back_to_cpu=1; it takes True or False"),
    "nothing for a flag": ({"shares_cpu_generator": None}, "shares_cpu_generator=None; it takes True or False"),
}
FAULTS = {
    "no name": (lambda: NanAt(3), r"NanAt was given operator=3; it takes a name, such as \"linear\""),
    "a call's name": (lambda: NanAt("linear", "1"), "NanAt was given call='1'; it takes a whole number from 0 on"),
    "a call before the first": (lambda: DroppedBias("linear", -1), "DroppedBias was given call=-1; .* every call"),
    "a flag for a call": (lambda: DroppedBias("linear", True), "call=True"),
    "an index": (lambda: NanAt("linear", 0, index=1.5), "NanAt was given index=1.5; it takes a whole number"),
    "no elements": (lambda: UnmaskedTail("gelu", elements=0), "given elements=0; it takes a whole number from 1 on"),
    "an epsilon": (lambda: WrongEpsilon("layer_norm", eps="1e-3"), "WrongEpsilon was given eps='1e-3'; it takes a num"),
    "a factor": (lambda: ScaledOutput("linear", factor=None), "ScaledOutput was given factor=None; it takes a number"),
    "a limit": (lambda: SaturatedOverflow("mul", limit=-1.0), "given limit=-1.0; it takes a number above 0"),
    "no limit": (lambda: SaturatedOverflow("mul", limit=float("nan")), "given limit=nan; it takes a number above 0"),
}


@pytest.mark.parametrize("wrong", BEHAVIOURS)
def test_a_behaviour_that_there_is_not_is_refused(wrong):
    options, answer = BEHAVIOURS[wrong]

    with pytest.raises(ConfigError, match=r"^NpuBehaviour was given ") as caught:
        NpuBehaviour(**options)

    caught.match(answer)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", FAULTS)
def test_a_fault_that_there_is_not_is_refused(wrong):
    make, answer = FAULTS[wrong]

    with pytest.raises(ConfigError, match=answer):
        make()


@pytest.mark.parametrize("given", ["bf16", {"accumulate": "bf16"}, FAULT, NpuBehaviour])
def test_what_is_no_behaviour_is_refused(given):
    with pytest.raises(ConfigError, match=r"^simulate_npu was given .*; it takes an NpuBehaviour\(\.\.\.\)\.$"):
        simulate_npu(given)

    assert not hasattr(torch, "npu")


def test_lists_and_sets_do_as_well():
    behaviour = NpuBehaviour(faults=[FAULT], lacks=["gelu", "relu"])

    assert behaviour == NpuBehaviour(faults=(FAULT,), lacks=frozenset({"relu", "gelu"}))
    assert hash(behaviour) == hash(NpuBehaviour(faults=(FAULT,), lacks=frozenset({"relu", "gelu"})))
