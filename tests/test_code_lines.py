"""The lines of code that a headline names: the user's, and the library's that made the call."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from torchparity import open_run
from torchparity.code_lines import code_lines


def frame(path, line):
    return f"File {path}, line {line}, in forward, \n x = self.layer(x)"


USER = frame("/home/me/train.py", 77)
LLAMA = frame("/venv/lib/python3.11/site-packages/transformers/models/llama/modeling_llama.py", 111)
TORCH = frame("/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", 125)
THREADS = frame("/usr/lib/python3.11/threading.py", 982)


@pytest.mark.parametrize(
    ("frames", "lines"),
    [
        pytest.param([LLAMA, USER], ("train.py, line 77", "modeling_llama.py, line 111"), id="both"),
        pytest.param([USER, LLAMA], ("train.py, line 77",), id="the-user-s-is-the-innermost"),
        pytest.param([TORCH, LLAMA, TORCH, USER], ("train.py, line 77", "modeling_llama.py, line 111"), id="no-torch"),
        pytest.param([TORCH, LLAMA, THREADS], ("modeling_llama.py, line 111",), id="a-thread-of-a-library"),
        pytest.param([TORCH, THREADS], (), id="torch-and-python-alone"),
        pytest.param([], (), id="no-stack"),
        pytest.param(["", "no frame at all", USER], ("train.py, line 77",), id="not-a-frame"),
        pytest.param([frame("/home/me/torch/train.py", 3)], ("train.py, line 3",), id="a-project-named-torch"),
        pytest.param([frame("/opt/pytorch/torch/nn/modules/linear.py", 9), USER], ("train.py, line 77",), id="built"),
        pytest.param([frame("/usr/lib/python3/dist-packages/torch/_tensor.py", 9), USER], ("train.py, line 77",)),
        pytest.param([frame("C:\\Python311\\Lib\\threading.py", 9), USER], ("train.py, line 77",), id="windows-python"),
        pytest.param([frame("C:\\Users\\me\\train.py", 9)], ("train.py, line 9",), id="windows"),
        pytest.param([frame("<ipython-input-3-8d2f>", 5)], ("a notebook's cell, line 5",), id="ipython"),
        pytest.param([frame("/tmp/ipykernel_12/345.py", 5)], ("a notebook's cell, line 5",), id="ipykernel"),
        pytest.param([frame("<string>", 1)], ("<string>, line 1",), id="python-c"),
        pytest.param([frame("<frozen runpy>", 1)], (), id="runpy"),
        pytest.param([LLAMA, frame("/venv/bin/trl", 8)], ("modeling_llama.py, line 111",), id="a-console-script"),
        pytest.param([frame("/home/me/a, line 3/train.py", 9)], ("train.py, line 9",), id="a-folder-like-a-line"),
        pytest.param([frame("<eval_with_key>.3", 4), USER], ("train.py, line 77",), id="made-by-torch"),
    ],
)
def test_lines_of_a_stack(frames, lines):
    assert code_lines(frames) == lines


def test_a_recorded_stack_has_the_line_of_the_library_and_the_user_s(tmp_path):
    package = tmp_path / "site-packages" / "models"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import torch\n\ndef layer(x):\n    return torch.nn.functional.gelu(x)\n")
    (tmp_path / "train.py").write_text(
        textwrap.dedent(
            """
            import sys
            sys.path.insert(0, "site-packages")
            import models, torch, torchparity
            with torchparity.capture("run"):
                models.layer(torch.ones(2))
            """
        )
    )
    subprocess.run([sys.executable, "train.py"], cwd=tmp_path, check=True, capture_output=True)

    frames = open_run(tmp_path / "run").part().stack_of("Functional.gelu.0.forward")

    assert code_lines(frames) == ("train.py, line 6", "__init__.py, line 4")
