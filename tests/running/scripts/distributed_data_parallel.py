"""DistributedDataParallel on the CPU; start it with torchrun."""

import hashlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def fingerprint(model):
    state = b"".join(value.float().numpy().tobytes() for value in model.state_dict().values())
    return hashlib.sha256(state).hexdigest()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(4)
    data = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, wanted in DataLoader(data, batch_size=2, sampler=DistributedSampler(data, shuffle=False)):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), wanted)
        total = loss.detach().clone()
        dist.all_reduce(total)
        loss.backward()
        optimizer.step()
        if rank == 0:
            print("sum of the losses", total.item())
    if rank == 0:
        print("weights", fingerprint(model))


main()
dist.barrier()
time.sleep(1)  # gloo's threads let go of tensors, which aborts while the interpreter ends (pytorch pull 179291)
dist.destroy_process_group()
