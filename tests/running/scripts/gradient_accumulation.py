"""A training that steps once for every two batches."""

import hashlib

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATED = 2


def fingerprint(model):
    state = b"".join(value.float().numpy().tobytes() for value in model.state_dict().values())
    return hashlib.sha256(state).hexdigest()


torch.manual_seed(2)
data = TensorDataset(torch.randn(12, 6), torch.randn(12, 1))
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for number, (inputs, wanted) in enumerate(DataLoader(data, batch_size=2), 1):
    loss = nn.functional.mse_loss(model(inputs), wanted) / ACCUMULATED
    loss.backward()
    if number % ACCUMULATED == 0:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print("stepped after batch", number, loss.item())
print("weights", fingerprint(model))
