"""Record with a script and a config.json that were written for msprobe.

Only the import changes: `from msprobe.pytorch import PrecisionDebugger` becomes the line below.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from torch import nn

from torchparity import PrecisionDebugger, cli, seed_all

CONFIG = Path(__file__).with_name("config.json")
RUN = Path("example_runs/msprobe_config")  # dump_path in config.json


def main() -> None:
    shutil.rmtree(RUN, ignore_errors=True)
    seed_all(1234)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = PrecisionDebugger(config_path=CONFIG)
    for _ in range(3):
        debugger.start(model=model)
        loss = model(torch.randn(2, 1, 8, 8)).square().mean()
        loss.backward()
        debugger.stop()
        optimizer.step()
        optimizer.zero_grad()
        debugger.step()
    debugger.close()
    cli.main(["show", str(RUN)])


if __name__ == "__main__":
    main()
