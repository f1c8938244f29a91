"""Checking changes no bit of a training, whatever the perturbation and the stage."""

from __future__ import annotations

import pytest
import torch

from tests.support.perturbing import MODES, mode_fields, rows_in, same
from tests.support.zoo import ZOO, Training
from torchparity import PrecisionDebugger


def trained(name, **fields):
    """Train one animal for a step, watched where there are fields; return everything that a tool must not change."""
    training = Training(ZOO[name])
    debugger = PrecisionDebugger(task="free_benchmark", **fields) if fields else None
    if debugger is not None:
        debugger.start(training.model)
    training.step()
    if debugger is not None:
        debugger.stop()
        debugger.step()
    PrecisionDebugger.close()
    return training.state()


@pytest.fixture(scope="module")
def bare():
    """The state of each animal that nobody watched."""
    return {name: trained(name) for name in ZOO}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("stage", ["forward", "backward"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ZOO)
def test_training_is_bit_identical_and_sound_float32_gives_no_row(name, mode, stage, bare, tmp_path, capsys, caplog):
    backward = {"fuzz_stage": "backward", "list": ["."]} if stage == "backward" else {}

    state = trained(name, dump_path=tmp_path, **mode_fields(mode), **backward)

    for part in bare[name]:
        assert same(state[part], bare[name][part]), part
    said = capsys.readouterr().out
    assert said.startswith(("torchparity: perturbed ", "torchparity: nothing was checked ")) and " raised " not in said
    assert not caplog.records, caplog.text
    if mode in ("bit_noise", "add_noise", "no_change", "to_cpu"):
        assert not said.startswith("torchparity: nothing was checked")
    if name != "autocast":  # all others compute in float32
        assert rows_in(tmp_path) == []


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["vit", "in-place", "lstm"])
def test_significance_changes_nothing_either(name, bare, tmp_path):
    state = trained(name, dump_path=tmp_path, significance=2)

    for part in bare[name]:
        assert same(state[part], bare[name][part]), part
    assert rows_in(tmp_path, "significance.csv")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["resnet", "in-place", "moe"])
def test_the_caller_s_tensors_keep_their_versions_and_strides(name, tmp_path):
    def traced(**fields):
        seen = []

        class Seeing(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                output = func(*args, **(kwargs or {}))
                tensors = [value for value in args if isinstance(value, torch.Tensor)]
                seen.extend((func.__name__, each._version, each.stride(), each.requires_grad) for each in tensors)
                return output

        with Seeing():
            trained(name, **fields)
        return seen

    assert traced(dump_path=tmp_path, pert_mode="bit_noise") == traced()
