"""Record two steps of a training loop, and look at what was recorded.

`recording.step()` at the end of an iteration is all that the loop needs; `step=[0, 50]` records
those two iterations, and the others run as if nothing were there.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import torchparity
from torchparity import cli

RUN = "example_runs/training_loop"


def main() -> None:
    torchparity.seed_all(1234)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = TensorDataset(torch.randn(512, 16), torch.randint(4, (512,)))
    batches = list(DataLoader(data, batch_size=32, shuffle=True))
    loss_of = nn.CrossEntropyLoss()
    with torchparity.capture(RUN, model=model, step=[0, 50], overwrite=True) as recording:
        for _ in range(4):
            for inputs, labels in batches:
                optimizer.zero_grad()
                loss = loss_of(model(inputs), labels)
                loss.backward()
                optimizer.step()
                recording.step()
    cli.main(["show", RUN])
    cli.main(["show", RUN, "--step", "50", "Module.0.Linear.forward.0"])


if __name__ == "__main__":
    main()
