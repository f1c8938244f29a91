"""Devices by the words of the command line: a name, or the number of one of the default accelerator."""

from __future__ import annotations

import torch

from torchparity.calls import attempted
from torchparity.errors import ConfigError


def device_named(word: str | None) -> torch.device:
    """Return a device that is there; without a word the default accelerator, or the CPU where there is none."""
    kind = _accelerator()
    if word is None:
        return torch.device(kind or "cpu")
    if word.isdecimal() and kind is None:
        raise ConfigError(f"-d {word} names an accelerator by number, and torch finds none here; -d cpu works.")
    name = f"{kind}:{word}" if word.isdecimal() else word
    device = attempted(lambda: torch.device(name))
    if isinstance(device, Exception):
        raise ConfigError(
            f"{word!r} is no device of this torch; -d takes cpu, cuda:0 or the number of an accelerator, and npu where "
            "torch_npu is installed."
        )
    there = attempted(lambda: torch.zeros(1, device=device).cpu())
    if isinstance(there, Exception):
        reason = str(there).strip().splitlines()[0] if str(there).strip() else type(there).__name__
        raise ConfigError(f"device {name} cannot be used here ({reason[:120]}); -d cpu works.")
    return device


def choose_compilation(device: torch.device, *, jit_compile: bool) -> None:
    """Let an NPU compile its operators for each shape, or take those that are there; other devices have no choice."""
    choose = getattr(getattr(torch, "npu", None), "set_compile_mode", None)
    if device.type == "npu" and choose is not None:
        choose(jit_compile=jit_compile)


def _accelerator() -> str | None:
    """Return the type of the default accelerator; None where there is none."""
    found = torch.accelerator.current_accelerator() if hasattr(torch, "accelerator") else None
    if found is not None and torch.accelerator.is_available():
        return str(found.type)
    return "cuda" if torch.cuda.is_available() else None
