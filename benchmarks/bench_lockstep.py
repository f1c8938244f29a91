"""What lockstep costs beside running both models bare: forward and backward of the GPT in gpt.py, on the CPU.

A lap runs both models bare and then in lockstep; the ratio of the two is what counts. `steps` is larger than one so
that starting and ending count as little as they do in a run.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
from pathlib import Path

import gpt
import torch
from capture_laps import seconds
from torch import nn
from torch.nn import functional

import torchparity

MODES = [("statistics", "L0"), ("statistics", "mix"), ("tensor", "L1"), ("tensor", "mix")]


def nothing() -> None:
    pass


def run_bare(models: tuple[nn.Module, nn.Module], tokens: torch.Tensor, steps: int, *, backward: bool) -> None:
    for _ in range(steps):
        for model in models:
            output = model(tokens[:, :-1])
            if backward:
                loss(output, tokens).backward()
            model.zero_grad()


def loss(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def resident() -> dict[str, int]:
    """Return the resident and the peak KiB of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith(("VmRSS", "VmHWM"))}


def measure(
    models: tuple[nn.Module, nn.Module], tokens: torch.Tensor, options: argparse.Namespace, task: str, level: str
) -> dict[str, object]:
    """Return the ratios of the laps and what one step of both models took."""
    backward = not options.forward
    ratios, bare_times, times, headline = [], [], [], ""

    def in_lockstep() -> None:
        nonlocal headline
        given = {"backward": True, "loss": lambda logits: loss(logits, tokens)} if backward else {}
        steps = options.steps
        headline = torchparity.lockstep(*models, tokens[:, :-1], task=task, level=level, steps=steps, **given).headline

    for lap in range(options.laps + 1):
        bare = seconds(lambda: run_bare(models, tokens, options.steps, backward=backward), nothing)
        compared = seconds(in_lockstep, nothing)
        if lap:  # the first is a warm-up
            ratios.append(round(compared / bare, 3))
            bare_times.append(bare / options.steps)
            times.append(compared / options.steps)
    return {
        "task": task,
        "level": level,
        "backward": backward,
        "ratio": statistics.median(ratios),
        "ratios": sorted(ratios),
        "ms_a_step": round(1000 * statistics.median(times), 1),
        "bare_ms": round(1000 * statistics.median(bare_times), 1),
        "rss_mb": round(resident()["VmRSS"] / 1024),
        "peak_mb": round(resident()["VmHWM"] / 1024),
        "headline": headline,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--forward", action="store_true", help="without gradients")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = gpt.Gpt(gpt.CPU)
    models = model, copy.deepcopy(model)
    tokens = torch.randint(gpt.CPU.vocabulary, (gpt.CPU.batch, gpt.CPU.tokens + 1))
    for task, level in MODES:
        print(json.dumps({"bench": "lockstep", **measure(models, tokens, options, task, level)}), flush=True)


if __name__ == "__main__":
    main()
