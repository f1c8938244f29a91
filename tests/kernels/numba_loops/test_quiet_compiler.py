"""A program that logs everything hears nothing of the compiling of our loops, and all of its own."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import logging, sys
import numba, torch, torchparity
logging.basicConfig(stream=sys.stdout, level=logging.DEBUG)
with torchparity.capture(sys.argv[1], level="L1", task="tensor") as recording:
    torch.ones(2) + 1
    recording.step()
logging.info("the user's")
numba.njit(lambda x: x + 1)(1)
"""


def test_only_the_user_s_compiling_is_logged(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "run")]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "compiled")}

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    before, _, after = done.stdout.partition("INFO:root:the user's\n")
    assert "DEBUG:numba" not in before
    assert "DEBUG:numba" in after
    assert "compiles its kernels for the CPU" in done.stdout
