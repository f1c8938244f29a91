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
        is_exact = wide is None or not (dtype.is_floating_point or dtype.is_complex)
        return dtype if is_exact else wide.to_complex() if dtype.is_complex else wide
    leaves = {path: tensor.to(device, wider(tensor.dtype)).detach() for path, tensor in saved["inputs"].items()}
    graded = {path: leaves[path].requires_grad_() for path in saved["graded"]}
    t = {path: leaf.clone() if saved["writes"] else leaf for path, leaf in leaves.items()}
    outputs = flat(call(t, device, wider))
    results = {f"forward.output.{path}": value for path, value in outputs.items()}
    results |= {f"forward.input.{path}": leaf for path, leaf in t.items()}
    ends = [outputs[path] for path in saved["seeds"]]
    if ends and graded:
        seeds = [seed.to(end) for seed, end in zip(saved["seeds"].values(), ends)]
        found = torch.autograd.grad(ends, [*graded.values()], seeds, allow_unused=True)
        results |= {f"backward.output.{path}": gradient for path, gradient in zip(graded, found)}
    return {name: leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf for name, leaf in results.items()}

def is_wrong(mine, truth, rounded, exact):
    if not isinstance(mine, torch.Tensor) or mine.shape != truth.shape or not mine.numel():
        return mine.shape != truth.shape if isinstance(mine, torch.Tensor) else mine != truth
    if not (mine.is_floating_point() or mine.is_complex()):
        return mine.dtype != truth.dtype or not sum([r != truth for r in rounded], mine == truth).all()
    facts, kind = torch.finfo(mine.dtype), torch.promote_types(mine.dtype, torch.float64)
    a, b, half, size = mine.to(kind), truth.to(kind), facts.eps > 1e-4, truth.to(kind).abs().nan_to_num(0, 0, 0)
    near = truth.to(mine.dtype).to(kind)
    if exact:
        return not torch.stack([(a == r) | (a.isnan() & r.isnan()) for r in [near, *rounded]]).any(0).all()
    sums = [((x - near) * near).real.nansum() / near.abs().square().nansum() for x in [a, *rounded]]
    bias, *usual = (max(abs(s), abs(((x - near) / near).real.nanmedian()) / 2) for s, x in zip(sums, [a, *rounded]))
    is_biased = half and a.numel() >= 256 and abs(bias) > max([facts.eps / 2, *(3 * abs(x) for x in usual)])
    power = torch.frexp(size.clamp(min=facts.tiny))[1].long()  # the samples show how rounding errs at each magnitude
    place, errors = power - power.min() + 1, torch.zeros(int(power.max() - power.min()) + 3, dtype=torch.float64)
    for r in rounded:
        errors.scatter_reduce_(0, place.flatten(), (r.to(kind) - b).abs().nan_to_num(0, 0, 0).flatten(), "amax")
    larger = errors.roll(-1) * (1 - 0.5 * half * (torch.bincount(place.flatten(), minlength=len(errors)) >= 16))
    around = torch.stack([errors, errors.roll(1), larger]).amax(0)[place]
    allowed = facts.eps * 2.0 ** (power - 1) + (4 if half else 16) * around
    allowed += (0 if half else 32 * facts.eps) * size.square().mean().sqrt() + (facts.tiny if facts.tiny < 1e-30 else 0)
    is_far = (a - b).abs().nan_to_num(torch.inf, torch.inf) > 2 * allowed
    return bool(is_biased or (is_far & (a != b) & ~(a.isnan() & b.isnan())).any())
mine, failed = run(DEVICE, None), False
torch.set_default_dtype(DEFAULT)
truth = run("cpu", WIDE)
for name, rounded in saved["rounded"].items():
    failed |= (wrong := is_wrong(mine[name], truth[name], rounded, saved["exact"] and name.startswith("forward")))
    print(f"$name.{name}: {'error' if wrong else 'pass'}")
sys.exit(failed)
''')
