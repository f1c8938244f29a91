"""What a recording replaces in torch, and hooks onto modules, is put back."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.support.zoo import ZOO, Training
from torchparity.recording import PrecisionDebugger, capture


def of_torch():
    return (
        torch.compile,
        torch.jit._recursive.create_script_module,
        torch.cuda.CUDAGraph.replay,
        torch.distributed.P2POp.__init__,
        vars(torch.distributed.P2POp)["__new__"],
        torch.distributed.all_reduce,
        torch.autograd._engine_run_backward,
        torch.overrides.has_torch_function,
        vars(nn.TransformerEncoderLayer).get("modules"),
    )


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_recordings_that_overlap_leave_torch_as_it_was(tmp_path, first_ends_first):
    before, model = of_torch(), nn.Linear(2, 2)
    debugger = PrecisionDebugger(dump_path=str(tmp_path / "a"), level="mix")
    debugger.start(model)
    block = capture(tmp_path / "b", model=model)
    block.__enter__()
    model(torch.ones(1, 2)).sum().backward()
    if first_ends_first:
        PrecisionDebugger.close()
        block.__exit__(None, None, None)
    else:
        block.__exit__(None, None, None)
        PrecisionDebugger.close()

    assert of_torch() == before


def test_nothing_is_left_behind_after_a_recording(tmp_path):
    training = Training(ZOO["resnet"])
    with capture(tmp_path, model=training.model):
        training.step()

    assert torch._C._len_torch_function_stack() == 0
    for module in training.model.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks
    for parameter in training.model.parameters():
        assert not parameter._post_accumulate_grad_hooks


def test_a_function_that_the_user_deletes_meanwhile_stays_deleted(tmp_path):
    before = torch.distributed.broadcast
    try:
        with capture(tmp_path):
            del torch.distributed.broadcast
        assert not hasattr(torch.distributed, "broadcast")
    finally:
        torch.distributed.broadcast = before


def test_a_function_is_wrapped_anew_where_the_user_has_replaced_it(tmp_path):
    before, called = torch.distributed.broadcast, []

    def replacement(*args, **kwargs):
        called.append(args)

    try:
        with capture(tmp_path) as recording:
            first = torch.distributed.broadcast
            recording.step()
            assert torch.distributed.broadcast is first  # kept from step to step
            recording.stop()
            torch.distributed.broadcast = replacement
            recording.start()
            torch.distributed.broadcast(torch.ones(2), 0)
        assert torch.distributed.broadcast is replacement and len(called) == 1
    finally:
        torch.distributed.broadcast = before
