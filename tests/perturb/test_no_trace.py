"""A call that is run again leaves no trace: not in random numbers, hooks or time-outs of the user's."""

from __future__ import annotations

import random
import signal
import time
import types
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from tests.support.perturbing import perturbing, rows_in, same


def custom(function):
    return types.SimpleNamespace(__name__="mine", function=function)


class TooLateError(Exception):
    """The user's time-out."""


def test_a_time_out_of_the_user_s_that_comes_while_a_call_is_run_again_reaches_the_user(tmp_path):
    def end(signal_number, frame):
        raise TooLateError

    runs = []

    def slow_the_second_time(values):
        runs.append(values)
        if len(runs) == 2:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            time.sleep(5)
        return values * 2

    mine, before = custom(slow_the_second_time), signal.signal(signal.SIGALRM, end)
    try:
        with perturbing(tmp_path, pert_mode="bit_noise", list=["mine"]) as debugger:
            debugger.register_custom_api(mine, "function")
            with pytest.raises(TooLateError):
                mine.function(torch.ones(3))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(runs) == 2


@pytest.mark.parametrize("draw", [random.random, np.random.rand], ids=["python", "numpy"])
def test_random_numbers_that_are_not_torch_s_are_drawn_once(draw, tmp_path, capsys):
    mine = custom(lambda values: values * draw())

    def numbers():
        random.seed(0)
        np.random.seed(0)
        mine.function(torch.ones(2))
        return random.random(), np.random.rand()

    bare = numbers()
    with perturbing(tmp_path, pert_mode="bit_noise", list=["mine"]) as debugger:
        debugger.register_custom_api(mine, "function")
        watched = numbers()

    assert watched == bare
    assert "1 call left out: it draws random numbers" in capsys.readouterr().out


@torch.library.custom_op("torchparity_tests::drawing", mutates_args=())
def drawing(values: torch.Tensor) -> torch.Tensor:
    return values * random.random() + float(np.random.rand())


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        pytest.param(drawing, "it draws random numbers", id="operator"),
        pytest.param(
            lambda values: values.apply_(lambda _: random.random()), "it calls a function of yours", id="apply"
        ),
    ],
)
def test_random_numbers_of_python_that_an_operator_draws_are_drawn_once(call, reason, tmp_path, capsys):
    def numbers():
        random.seed(0)
        np.random.seed(0)
        call(torch.ones(2))
        return random.random(), np.random.rand()

    bare = numbers()
    with perturbing(tmp_path, pert_mode="no_change"):
        watched = numbers()

    assert watched == bare
    assert rows_in(tmp_path) == []
    assert reason in capsys.readouterr().out


@pytest.mark.parametrize("stage", ["forward", "backward"])
def test_hooks_on_saved_tensors_are_not_called_again(stage, tmp_path):
    def trained():
        called = []

        def packed(tensor):
            called.append("packed")
            return tensor

        def unpacked(tensor):
            called.append("unpacked")
            return tensor

        values = torch.arange(4.0, requires_grad=True)
        with saved_tensors_hooks(packed, unpacked):
            (torch.exp(values) * values).sum().backward()
        return called, values.grad

    bare = trained()
    with perturbing(tmp_path, pert_mode="bit_noise", fuzz_stage=stage, list=["exp", "mul"]):
        watched = trained()

    assert same(watched, bare)


@pytest.mark.parametrize("handler", ["check", "fix"])
def test_a_result_in_a_dictionary_of_another_kind_keeps_its_kind(handler, tmp_path):
    mine = custom(lambda values: OrderedDict(values=values * 2))

    with perturbing(tmp_path, handler_type=handler, list=["mine"]) as debugger:
        debugger.register_custom_api(mine, "function")
        result = mine.function(torch.ones(2).bfloat16())

    assert type(result) is OrderedDict
    assert same(result["values"], torch.full((2,), 2.0).bfloat16())


@pytest.mark.parametrize(
    ("handler", "said"),
    [("check", "nothing was checked"), ("fix", "nothing was replaced by")],
)
def test_a_result_inside_of_an_object_is_left_out_and_not_counted(handler, said, tmp_path, capsys):
    mine = custom(lambda values: types.SimpleNamespace(values=values * 2))

    with perturbing(tmp_path, handler_type=handler, list=["mine"]) as debugger:
        debugger.register_custom_api(mine, "function")
        mine.function(torch.ones(2).bfloat16())

    line = capsys.readouterr().out
    assert said in line
    assert "1 call left out: its result has no tensor to" in line
