"""Memory does not grow with what a step makes and lets go of."""

from __future__ import annotations

import sys

import pytest

from tests.support.processes import run_python

PREPARE = """
import sys, torch
from torchparity.recording import capture

def most():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1]) >> 10
"""
STEP = """
settings = eval(sys.argv[2])
with capture(sys.argv[1] + "/warm", **settings):
    torch.randn(500_000).add(1)
before = most()
with capture(sys.argv[1] + "/run", **settings):
    for number in range(500):  # 2 GB
        torch.randn(500_000).add(number)
print("grew by", most() - before)
"""


def growth(code, path, *arguments):
    if sys.platform != "linux":
        pytest.skip("/proc tells how much memory was used")
    done = run_python(PREPARE + code, path, *arguments, timeout=200)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("grew by")]
    return int(line.split()[-1])


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        pytest.param({}, 200, id="statistics"),
        # The queue, two shards and what is used again.
        pytest.param({"task": "tensor"}, 800, id="tensor"),
        pytest.param({"tensor_list": ["add"]}, 800, id="tensor-list"),
    ],
)
def test_what_a_step_lets_go_of_does_not_pile_up(tmp_path, settings, most):
    assert growth(STEP, tmp_path, repr(settings)) < most


EXPANDED = """
class Nothing(torch.nn.Module):
    def forward(self, tensor):
        return None
model = Nothing()
before = most()
with capture(sys.argv[1] + "/run", model=model):
    model(torch.ones(1).expand(30_000, 30_000))
    model(torch.ones(1, 1_000, dtype=torch.bool).expand(1_000_000, 1_000))
print("grew by", most() - before)
"""


def test_an_expanded_tensor_is_not_made_real(tmp_path):
    assert growth(EXPANDED, tmp_path) < 400


DISK_FULL = """
import resource, signal, time
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with capture(sys.argv[1] + "/run", task="tensor"):
    torch.ones(3).exp()
    time.sleep(0.2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    before = most()
    for number in range(500):
        torch.randn(500_000).add(number)
    print("grew by", most() - before)
"""


def test_once_the_disk_is_full_nothing_is_kept(tmp_path):
    assert growth(DISK_FULL, tmp_path) < 800
