"""Steps and ranks of a session: what is warned about, and what an error cut off."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn

from tests.support.processes import run_python
from torchparity import ParityError, compare, open_run
from torchparity.recording import PrecisionDebugger, capture


def test_a_step_that_was_not_started_is_warned_about_once(tmp_path, caplog):
    recording = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    recording.start()
    torch.ones(1).exp()
    for _ in range(3):
        recording.step()

    assert caplog.text.count("step() was called again without start()") == 1


def test_a_rank_that_is_not_wanted_says_so(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    recording = PrecisionDebugger(dump_path=str(tmp_path), level="L1", rank=[3])
    recording.start()
    recording.stop()
    PrecisionDebugger.close()

    assert "recorded nothing: this is rank 0, and rank=[3]" in caplog.text


@pytest.mark.parametrize("step", [-3, 2.5, "5", True, 10**7])
def test_a_first_step_that_is_no_number_of_one_is_refused(tmp_path, step):
    with pytest.raises(ParityError, match=r"set_init_step was given .* whole number"):
        PrecisionDebugger(dump_path=str(tmp_path), level="L1").set_init_step(step)


def test_a_step_that_an_error_cut_off_says_so(tmp_path, capsys):
    model = nn.Linear(2, 2)

    def train(path, *, fails):
        with capture(path, model=model):
            loss = model(torch.ones(1, 2)).sum()
            if fails:
                raise ValueError("no")
            loss.backward()

    train(tmp_path / "whole", fails=False)
    with pytest.raises(ValueError, match="no"):
        train(tmp_path / "cut", fails=True)

    assert "step 0 was cut off by ValueError" in capsys.readouterr().out
    assert "step 0 was cut off by ValueError." in " ".join(open_run(tmp_path / "cut").part().problems)
    assert "cut off" in " ".join(compare(tmp_path / "cut", tmp_path / "whole").notes)


def test_a_program_that_an_error_ended_says_so(tmp_path):
    code = (
        "import sys, torch; from torchparity import PrecisionDebugger\n"
        "PrecisionDebugger(dump_path=sys.argv[1], level='L1').start(); torch.ones(1).exp(); raise KeyError('no')"
    )
    done = run_python(code, tmp_path)

    assert done.returncode == 1 and "step 0 was cut off by KeyError" in done.stdout
