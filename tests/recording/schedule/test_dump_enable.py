"""dump_enable: recording is switched on and off in config.json while the training runs."""

from __future__ import annotations

import pytest
import torch

from torchparity import open_run
from torchparity.recording import PrecisionDebugger


def test_dump_enable_is_read_again_at_every_start(tmp_path, caplog):
    config = tmp_path / "config.json"
    contents = ['{"dump_enable": false}', '{"dump_enable": true}', '{"dump_enable": fal', "{}", '{"dump_enable": 0}']
    contents.append('{"dump_enable": false}')
    config.write_text(contents[0])
    debugger = PrecisionDebugger(config, dump_path=tmp_path / "run")
    for content in contents:
        config.write_text(content)
        debugger.start()
        torch.exp(torch.ones(1))
        debugger.stop()
        debugger.step()
    debugger.close()

    assert open_run(tmp_path / "run").steps == [1, 2, 3, 4]
    assert caplog.text.count("Recording stays on") == 1


def test_without_dump_enable_from_the_beginning_there_is_no_switch(tmp_path):
    config = tmp_path / "config.json"
    config.write_text("{}")
    debugger = PrecisionDebugger(config, dump_path=tmp_path / "run")
    config.write_text('{"dump_enable": false}')
    debugger.start()
    torch.exp(torch.ones(1))
    debugger.close()

    assert open_run(tmp_path / "run").steps == [0]


@pytest.mark.parametrize("task", ["statistics", "free_benchmark"])
def test_a_switch_that_was_never_on_is_told_in_the_end(task, tmp_path, capsys):
    debugger = PrecisionDebugger(task=task, dump_path=str(tmp_path), dump_enable=False)
    for _ in range(2):
        debugger.start()
        torch.ones(2).exp()
        debugger.stop()
        debugger.step()
    debugger.close()

    assert "dump_enable was off at every start" in capsys.readouterr().out
