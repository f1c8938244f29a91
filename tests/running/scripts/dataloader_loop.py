"""A training over a DataLoader, with an evaluation after every epoch."""

import argparse
import hashlib

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.head = nn.Linear(16, 3)

    def forward(self, inputs):
        return self.head(self.body(inputs))


def fingerprint(model):
    state = b"".join(value.float().numpy().tobytes() for value in model.state_dict().values())
    return hashlib.sha256(state).hexdigest()


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        right = sum((model(inputs).argmax(1) == labels).sum().item() for inputs, labels in loader)
    model.train()
    return right


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--workers", type=int, default=0)
options = parser.parse_args()
torch.manual_seed(1)
training = TensorDataset(torch.randn(8, 8), torch.randint(3, (8,)))
held_out = TensorDataset(torch.randn(6, 8), torch.randint(3, (6,)))
loader = DataLoader(training, batch_size=4, shuffle=True, num_workers=options.workers)
model = Classifier()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
for epoch in range(options.epochs):
    for inputs, labels in loader:
        inputs = (inputs - inputs.mean()) / inputs.std()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        print("loss", loss.item())
    scheduler.step()
    print("epoch", epoch, "right", evaluate(model, DataLoader(held_out, batch_size=3)))
print("weights", fingerprint(model))
