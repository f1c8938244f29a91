"""The text of the stand-alone scripts; its rules are those of check/judging, on the samples saved beside a script."""

from __future__ import annotations

from string import Template

SCRIPT = Template('''"""$name against a reference of higher precision; needs torch alone. An argument names a device."""
import sys
from pathlib import Path
import torch

saved = torch.load(Path(__file__).with_suffix(".pt"), weights_only=True)
DEVICE, WIDE, DEFAULT = ([*sys.argv[1:], "$device"])[0], $wide, $default

def call(t, device, wider):
    return $call

def flat(value, path=""):
    if isinstance(value, (tuple, list)):
        return {key: leaf for i, part in enumerate(value) for key, leaf in flat(part, f"{path}.{i}").items()}
    return {path.removeprefix(".") or "0": value}

def run(device, wide):
    def wider(dtype):
        if wide is None or not (dtype.is_floating_point or dtype.is_complex):
            return dtype
        return wide.to_complex() if dtype.is_complex else wide

    leaves = {path: tensor.to(device, wider(tensor.dtype)).detach() for path, tensor in saved["inputs"].items()}
    graded = {path: leaves[path].requires_grad_() for path in saved["graded"]}
    t = {path: leaf.clone() if path in saved["writes"] else leaf for path, leaf in leaves.items()}
    outputs = flat(call(t, device, wider))
    results = {f"forward.input.{path}": t[path] for path in saved["writes"]}
    results |= {f"forward.output.{path}": value for path, value in outputs.items()}
    seeds = {path: seed.to(outputs[path]) for path, seed in saved["seeds"].items()}
    if seeds and graded:
        ends = [outputs[path] for path in seeds]
        found = torch.autograd.grad(ends, [*graded.values()], [*seeds.values()], allow_unused=True)
        results |= {f"backward.output.{path}": gradient for path, gradient in zip(graded, found)}
    return {name: leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf for name, leaf in results.items()}

def is_wrong(mine, truth, rounded):
    if not isinstance(mine, torch.Tensor) or mine.shape != truth.shape or not mine.numel():
        return mine.shape != truth.shape if isinstance(mine, torch.Tensor) else mine != truth
    if not (mine.is_floating_point() or mine.is_complex()):
        return bool(((mine != truth) & ~sum(((r != truth) for r in rounded), torch.zeros_like(truth) != 0)).any())
    facts, kind = torch.finfo(mine.dtype), torch.promote_types(mine.dtype, torch.float64)
    a, b, half = mine.to(kind), truth.to(kind), facts.eps > 1e-4
    size = b.abs().nan_to_num(0, 0, 0)
    power = torch.frexp(size.clamp(min=facts.tiny))[1].long()  # the samples show how rounding errs at each magnitude
    place = power - power.min() + 1
    errors = torch.zeros(int(place.max()) + 2, dtype=torch.float64)
    for r in rounded:
        errors.scatter_reduce_(0, place.flatten(), (r.to(kind) - b).abs().nan_to_num(0, 0, 0).flatten(), "amax")
    around = torch.stack([errors, errors.roll(1), errors.roll(-1)]).amax(0)[place]
    allowed = facts.eps * 2.0 ** (power - 1) + (4 if half else 16) * around
    allowed += (0 if half else 32 * facts.eps) * size.square().mean().sqrt() + (facts.tiny if facts.tiny < 1e-30 else 0)
    is_far = (a - b).abs().nan_to_num(torch.inf, torch.inf) > 2 * allowed
    return bool((is_far & (a != b) & ~(a.isnan() & b.isnan())).any())

mine = run(DEVICE, None)
torch.set_default_dtype(DEFAULT)
truth, failed = run("cpu", WIDE), False
for name, rounded in saved["rounded"].items():
    failed |= (wrong := is_wrong(mine[name], truth[name], rounded))
    print(f"$name.{name}: {'error' if wrong else 'pass'}")
sys.exit(failed)
''')
