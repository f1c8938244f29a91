"""Models that run in several threads: every call is recorded, with the parent of its own thread."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from torchparity import open_run
from torchparity.recording import PrecisionDebugger, capture


def test_models_in_two_threads_keep_their_own_parents(tmp_path):
    models = [nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)) for _ in range(2)]

    def run(model):
        for _ in range(40):
            model(torch.ones(1, 4))

    with capture(tmp_path, model=models, level="L0"):
        threads = [threading.Thread(target=run, args=(model,)) for model in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    part = open_run(tmp_path).part()

    assert len(part.records) == 2 * 40 * 3
    for name, parent in part.construct.items():
        if ".Linear." in name:
            assert parent.split(".")[1] == name.split(".")[1]


def test_apis_of_a_model_that_runs_in_another_thread_are_recorded(tmp_path):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    x = torch.ones(2, 3, requires_grad=True)
    with ThreadPoolExecutor(1) as pool, capture(tmp_path, level="mix", model=model):
        here = model(x)
        there = pool.submit(model, x).result()
        depth_after = pool.submit(torch._C._len_torch_function_stack).result()
        there.sum().backward()

    part = open_run(tmp_path).part()
    assert torch.equal(here, there)
    assert depth_after == 0
    for name in ("Functional.linear.1.forward", "Functional.linear.1.backward", "Functional.relu.1.forward"):
        assert name in part.records
    assert part.construct["Functional.linear.1.forward"] == "Module.0.Linear.forward.1"


def test_steps_may_end_while_another_thread_trains(tmp_path):
    model, is_over = nn.Linear(4, 4), threading.Event()
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")

    def train():
        while not is_over.is_set():
            model(torch.ones(1, 4)).sum().backward()

    other = threading.Thread(target=train)
    other.start()
    for _ in range(60):
        debugger.start(model=model)
        model(torch.ones(1, 4)).sum().backward()
        debugger.stop()
        debugger.step()
    is_over.set()
    other.join()
    debugger.close()

    assert len(open_run(tmp_path).parts) == 60


def test_a_parameter_keeps_its_table_of_hooks(tmp_path):
    """A backward in another thread may be about to call the hooks in it: torch frees what another table replaces."""
    model = nn.Linear(4, 4)
    tables = []
    for run in range(2):
        debugger = PrecisionDebugger(dump_path=tmp_path / str(run), level="mix")
        for _ in range(2):
            debugger.start(model=model)
            tables += [parameter._post_accumulate_grad_hooks for parameter in model.parameters()]
            model(torch.ones(1, 4)).sum().backward()
            debugger.stop()
            debugger.step()
            tables += [parameter._post_accumulate_grad_hooks for parameter in model.parameters()]
        debugger.close()

    assert None not in tables
    assert {id(table) for table in tables[::2]} == {id(tables[0])}
    assert {id(table) for table in tables[1::2]} == {id(tables[1])}


def test_a_recording_that_ends_while_a_thread_is_in_a_module_leaves_it_no_mode(tmp_path):
    inside, is_over = threading.Event(), threading.Event()

    class Waits(nn.Module):
        def forward(self, x):
            inside.set()
            is_over.wait(60)
            return x + 1

    def call():
        result = model(torch.ones(2))
        return result, torch._C._len_torch_function_stack()

    model = Waits()
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")
    with ThreadPoolExecutor(1) as pool:
        debugger.start(model)
        running = pool.submit(call)
        inside.wait(60)
        debugger.stop()
        debugger.step()
        debugger.close()
        is_over.set()
        result, modes = running.result()

    assert modes == 0
    assert torch.equal(result, torch.full((2,), 2.0))
    assert not model._forward_hooks and not model._forward_hooks_with_kwargs and not model._forward_pre_hooks


def test_recordings_may_follow_one_another_while_another_thread_runs_backward(tmp_path):
    model, is_over = nn.Sequential(*[nn.Linear(2, 2) for _ in range(30)]), threading.Event()
    passes, loss = [], model(torch.ones(1, 2)).sum()

    def train():
        while not is_over.is_set():
            loss.backward(retain_graph=True)
            passes.append(1)

    other = threading.Thread(target=train)
    other.start()
    for run in range(30):
        debugger = PrecisionDebugger(dump_path=tmp_path / str(run), level="L0")
        debugger.start(model=model)
        time.sleep(0.01)
        debugger.stop()
        debugger.step()
        debugger.close()
    before = len(passes)
    while other.is_alive() and len(passes) < before + 2:  # it trains on: a freed hook would have ended the process
        time.sleep(0.001)
    is_over.set()
    other.join()

    assert len(passes) >= before + 2


def test_hooks_of_the_user_s_are_called_while_ours_come_and_go(tmp_path):
    model, is_over, called = nn.Linear(2, 2), threading.Event(), Counter()
    for number in range(3):
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(lambda _, number=number: called.update([number]))
    passes, loss = [], model(torch.ones(1, 2)).sum()

    def train():
        while not is_over.is_set():
            loss.backward(retain_graph=True)
            passes.append(1)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        other = threading.Thread(target=train)
        other.start()
        debugger = PrecisionDebugger(dump_path=tmp_path, level="L0")
        for _ in range(100):
            debugger.start(model=model)
            debugger.stop()
            debugger.step()
        is_over.set()
        other.join()
        debugger.close()
    finally:
        sys.setswitchinterval(interval)

    assert called == {number: 2 * len(passes) for number in range(3)}


def test_a_thread_has_no_parent_from_an_earlier_step(tmp_path):
    class Waits(nn.Module):
        def forward(self, x):
            places["inside"].wait()
            places["stopped"].wait()
            return x + 1

    places = {name: threading.Barrier(2, timeout=60) for name in ("inside", "stopped", "outside", "started")}
    model = nn.ModuleList([Waits(), nn.ReLU()])

    def work():
        model[0](torch.ones(2))
        places["outside"].wait()
        places["started"].wait()
        model[1](torch.ones(2))

    debugger = PrecisionDebugger(dump_path=tmp_path, level="L0")
    debugger.start(model=model)
    other = threading.Thread(target=work)
    other.start()
    places["inside"].wait()
    debugger.stop()
    debugger.step()
    places["stopped"].wait()
    places["outside"].wait()
    debugger.start(model=model)
    places["started"].wait()
    other.join()
    debugger.close()

    assert open_run(tmp_path).parts[-1].construct["Module.1.ReLU.forward.0"] is None
