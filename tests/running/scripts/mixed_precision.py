"""A training under autocast to bfloat16."""

import hashlib

import torch
from torch import nn


def fingerprint(model):
    state = b"".join(value.float().numpy().tobytes() for value in model.state_dict().values())
    return hashlib.sha256(state).hexdigest()


torch.manual_seed(3)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
images, labels = torch.randn(4, 1, 8, 8), torch.randint(2, (4,))
for step in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    print("step", step, "loss", loss.item())
print("weights", fingerprint(model))
