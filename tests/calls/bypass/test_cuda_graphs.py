"""CUDA graphs: what is captured is skipped, and a replay invalidates what was measured."""

from __future__ import annotations

import ctypes

import torch

from torchparity import open_run
from torchparity.recording import capture


def test_what_is_captured_into_a_cuda_graph_is_passed_over_and_a_replay_is_noticed(tmp_path, monkeypatch, capsys):
    tensor = torch.zeros(2)

    def replay(graph):
        (ctypes.c_float * 2).from_address(graph)[:] = [7.0, 7.0]

    address = tensor.data_ptr()
    graph = torch.cuda.CUDAGraph
    monkeypatch.setattr(graph, "capture_begin", lambda graph: None)
    monkeypatch.setattr(graph, "capture_end", lambda graph: None)
    monkeypatch.setattr(graph, "replay", replay)
    with capture(tmp_path):
        torch.exp(tensor)
        graph.capture_begin(None)
        torch.sin(tensor)
        graph.capture_end(None)
        graph.replay(address)
        torch.exp(tensor)
    assert graph.replay is replay

    part = open_run(tmp_path).part()
    assert list(part.records) == ["Torch.exp.0.forward", "Torch.exp.1.forward"]
    assert part.records["Torch.exp.1.forward"].input_args[0].statistics.max == 7
    assert "captured into a CUDA graph was not recorded" in capsys.readouterr().out
