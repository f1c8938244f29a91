"""Scripts that train in another thread than the main one."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from torchparity import open_run

TRAINING = """
import queue, threading, time
from concurrent.futures import ThreadPoolExecutor
import torch
from torch import nn

def train(steps=3):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        time.sleep(0.05)
        model(torch.ones(2, 4)).mean().backward()
        optimizer.step()
    print(model[0].weight.tolist())
"""
NEVER_JOINED = f"{TRAINING}\nthreading.Thread(target=train).start()\n"
JOINED = (
    f"{TRAINING}\nthread = threading.Thread(target=train, args=(30,))\nthread.start()\nthread.join()\nprint('end')\n"
)
WAITING_FOR_EVER = f"{TRAINING}\nthreading.Thread(target=train, daemon=True).start()\nqueue.Queue().get()\n"


@pytest.fixture(scope="module", autouse=True)
def silent_about_system_exit():
    """Let threads end with SystemExit in silence, as they do without pytest; one may end after its test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", threading.__excepthook__)
        yield


def test_a_thread_that_is_never_joined_is_recorded_to_its_end(scripts):
    done = scripts.recorded("-o", "run", scripts.write(NEVER_JOINED))

    assert done.code == 0, done.err
    assert done.out.startswith("[[")
    parts = open_run(scripts.folder / "run").parts
    assert [part.step for part in parts] == [0, 1, 2]
    assert all("Module.0.Linear.backward.0" in part.records for part in parts)


@pytest.mark.parametrize("script", [NEVER_JOINED, JOINED, WAITING_FOR_EVER], ids=["never joined", "joined", "waits"])
def test_the_script_is_ended_from_its_thread(scripts, script):
    done = scripts.recorded("--steps", "0-1", "--stop-after", "-o", "run", scripts.write(script))

    assert (done.code, done.out) == (0, ""), done.err
    recorded, ended = done.err.splitlines()
    assert recorded.startswith("torchparity: recorded ")
    assert ended == "torchparity: the script was ended after step 1, as --stop-after asks."
    assert [part.step for part in open_run(scripts.folder / "run").parts] == [0, 1]


def test_the_idle_threads_of_a_pool_are_not_waited_for(tmp_path):
    """In a process of its own: no pool can be used after its end."""
    (tmp_path / "script.py").write_text(f"{TRAINING}\nThreadPoolExecutor(2).submit(train)\n")
    words = [sys.executable, "-m", "torchparity", "run", "-o", "run", "script.py"]

    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[[")
    assert [part.step for part in open_run(tmp_path / "run").parts] == [0, 1, 2]
