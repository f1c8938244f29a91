"""The zoo trained on the simulated NPU, against the CPU: run as a program, it prints one JSON object.

python -m tests.simulation.zoo_training
"""

from __future__ import annotations

import json
from contextlib import nullcontext

import torch
from torch.nn import functional as F

import torchparity
from tests.support.bits import same_bits
from tests.support.zoo import ZOO, Animal

STEPS = 2


def trained(animal: Animal, device: str) -> dict[str, torch.Tensor]:
    """Return losses, parameters, gradients and the optimizer's state after some steps, on the host."""
    torch.manual_seed(0)
    model = animal.build()
    batches = [animal.batch() for _ in range(STEPS)]
    model.to(device)
    optimizer = animal.optimizer([each for each in model.parameters() if each.requires_grad], lr=0.05)
    scaler = torch.amp.GradScaler(device, enabled=animal.autocast)
    kept: dict[str, torch.Tensor] = {}
    torch.manual_seed(1)
    with torch.device(device) if device != "cpu" else nullcontext():
        for step, (inputs, labels) in enumerate(batches):
            optimizer.zero_grad()
            with torch.autocast(device, dtype=torch.bfloat16, enabled=animal.autocast):
                loss = F.cross_entropy(model(inputs.to(device)), labels.to(device))
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.grad is not None], 1.0)
            scaler.step(optimizer)
            scaler.update()
            kept[f"loss of step {step}"] = loss.detach().cpu()
    kept |= {name: value.detach().cpu() for name, value in model.state_dict().items()}
    kept |= {f"gradient of {name}": p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None}
    for index, state in optimizer.state_dict()["state"].items():
        kept |= {f"{key} of {index}": value.cpu() for key, value in state.items() if isinstance(value, torch.Tensor)}
    return kept


def differences(animal: Animal) -> list[str]:
    """Return the names of what is not bit-identical."""
    on_cpu, on_npu = trained(animal, "cpu"), trained(animal, "npu")
    missing = sorted(on_cpu.keys() ^ on_npu.keys())
    return missing + [name for name in on_cpu if name in on_npu and not same_bits(on_cpu[name], on_npu[name])]


if __name__ == "__main__":
    torchparity.simulate_npu()
    print(json.dumps({name: differences(animal) for name, animal in ZOO.items()}))
