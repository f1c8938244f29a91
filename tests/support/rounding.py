"""Real rounding, measured: operators of torch in other dtypes and kernels, and with noise on what they receive."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional as F

from torchparity.comparing.precision.expectation import expected
from torchparity.comparing.precision.facts import CallFacts, Expectation, Received, Returned

Tensors = list[torch.Tensor]
NOISES = ("proportional", "spread", "rank one", "one row", "one element")


@dataclass(frozen=True, eq=False)
class Case:
    """An operator on inputs of one size; `arguments` are what a record would say of it."""

    name: str
    operator: str
    make: Callable[[], Tensors]
    call: Callable[..., torch.Tensor]
    arguments: dict[str, Any] = field(default_factory=dict)
    names: Sequence[str] = ()
    has_gradient: bool = True
    is_conditioned: bool = True  # False where the size of the tolerance says nothing


@dataclass(frozen=True)
class Sample:
    """One output: how far it was off and what was expected."""

    case: str
    kind: str
    direction: str
    deviation: float
    expectation: Expectation

    @property
    def is_beyond(self) -> bool:
        """Whether it is off by more than expected."""
        return self.deviation > self.expectation.tolerance


def normal(*shape: int, mean: float = 0.0) -> torch.Tensor:
    return torch.randn(shape) + mean


def _linear(rows: int, terms: int, width: int, mean: float = 0.0) -> Callable[[], Tensors]:
    return lambda: [normal(rows, terms, mean=mean), normal(width, terms) / math.sqrt(terms), normal(width)]


def _conv(channels: int, size: int) -> Callable[[], Tensors]:
    return lambda: [normal(2, channels, size, size), normal(8, channels, 3, 3) / (3 * math.sqrt(channels)), normal(8)]


def _norm(rows: int, width: int, mean: float = 0.0) -> Callable[[], Tensors]:
    return lambda: [normal(rows, width, mean=mean), 1 + 0.1 * normal(width), 0.1 * normal(width)]


def _layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def _batch_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, None, None, weight, bias, training=True)


def _rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, x.shape[-1:], weight, 1e-6)


def _addcmul(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return torch.addcmul(a, b, c, value=0.5)


def _images() -> Tensors:
    return [normal(2, 3, 16, 16)]


def _heads(length: int, width: int) -> Callable[[], Tensors]:
    return lambda: [normal(2, 2, length, width) for _ in range(3)]


def _pair(*shape: int) -> Callable[[], Tensors]:
    return lambda: [normal(*shape), normal(*shape)]


def _one(*shape: int, mean: float = 0.0) -> Callable[[], Tensors]:
    return lambda: [normal(*shape, mean=mean)]


def _away_from_zero(*shape: int) -> Callable[[], Tensors]:
    return lambda: [normal(*shape), normal(*shape).abs() + 0.2]


def _positive(*shape: int) -> Callable[[], Tensors]:
    return lambda: [normal(*shape).abs() + 0.05]


def _labels(rows: int, classes: int) -> torch.Tensor:
    return torch.arange(rows) * 7 % classes


CASES = [
    *(
        Case(f"linear {rows}x{terms}x{width}", "linear", _linear(rows, terms, width), F.linear)
        for rows, terms, width in ((3, 4, 5), (32, 64, 16), (64, 1024, 32), (16, 4096, 8), (4, 16384, 2), (8, 64, 1))
    ),
    Case("linear with a mean", "linear", _linear(32, 512, 32, mean=3.0), F.linear),
    Case("matmul in batches", "matmul", lambda: [normal(4, 16, 64), normal(4, 64, 24)], torch.matmul),
    Case("matmul square", "matmul", lambda: [normal(96, 96), normal(96, 96)], torch.matmul),
    Case("conv2d 3", "conv2d", _conv(3, 8), lambda *given: F.conv2d(*given, padding=1)),
    Case("conv2d 32", "conv2d", _conv(32, 12), lambda *given: F.conv2d(*given, padding=1)),
    Case("sum 64", "sum", _one(16, 64), lambda x: x.sum(-1)),
    Case("sum 65536", "sum", _one(65536), torch.sum),
    Case("sum with a mean", "sum", _one(4, 20000, mean=1.0), lambda x: x.sum(-1)),
    Case("mean", "mean", _one(8, 4096), lambda x: x.mean(-1)),
    Case("mean of squares", "mean", _positive(8, 1024), lambda x: x.mean(-1)),
    Case("vector_norm", "linalg.vector_norm", _one(5000), lambda x: x.norm()),
    Case("var", "var", _one(8, 512), lambda x: x.var(-1)),
    Case("cumsum", "cumsum", _one(4, 1024), lambda x: x.cumsum(-1)),
    Case("add", "add", _pair(32, 32), torch.add),
    Case("add a row", "add", lambda: [normal(32, 32), normal(32)], torch.add),
    Case("mul", "mul", _pair(32, 32), torch.mul),
    Case("mul by a row", "mul", lambda: [normal(32, 32), normal(32)], torch.mul),
    Case("div", "div", _away_from_zero(32, 32), torch.div),
    Case("exp", "exp", _one(32, 32), torch.exp),
    Case("log", "log", _positive(32, 32), torch.log, is_conditioned=False),
    Case("sqrt", "sqrt", _positive(32, 32), torch.sqrt, is_conditioned=False),
    Case("rsqrt", "rsqrt", _positive(32, 32), torch.rsqrt, is_conditioned=False),
    Case("pow 3", "pow", _one(32, 32), lambda x: x.pow(3), {"input.1": 3}),
    Case("sin", "sin", _one(32, 32), torch.sin),
    *(
        Case(function.__name__, function.__name__, _one(32, 64), function)
        for function in (F.gelu, F.silu, torch.tanh, torch.sigmoid, F.softplus, F.elu)
    ),
    Case("layer_norm 64", "layer_norm", _norm(16, 64), _layer_norm, names=("0", "weight", "bias")),
    Case("layer_norm 4096", "layer_norm", _norm(4, 4096), _layer_norm, names=("0", "weight", "bias")),
    Case("layer_norm off centre", "layer_norm", _norm(16, 256, mean=5.0), _layer_norm, names=("0", "weight", "bias")),
    Case("batch_norm", "batch_norm", _norm(64, 16), _batch_norm, names=("0", "weight", "bias")),
    Case("batch_norm off centre", "batch_norm", _norm(64, 16, mean=5.0), _batch_norm, names=("0", "weight", "bias")),
    Case("rms_norm", "rms_norm", lambda: [normal(8, 256), normal(256)], _rms_norm, names=("0", "weight")),
    Case("softmax", "softmax", _one(16, 64), lambda x: x.softmax(-1)),
    Case("softmax of large scores", "softmax", lambda: [10 * normal(16, 64)], lambda x: x.softmax(-1)),
    Case("log_softmax", "log_softmax", _one(16, 256), lambda x: x.log_softmax(-1)),
    Case("cross_entropy", "cross_entropy", _one(64, 100), lambda x: F.cross_entropy(x, _labels(64, 100))),
    Case(
        "cross_entropy sum", "cross_entropy", _one(64, 100),
        lambda x: F.cross_entropy(x, _labels(64, 100), reduction="sum"), {"input.reduction": "sum"},
    ),
    Case("mse_loss", "mse_loss", _pair(32, 32), F.mse_loss),
    Case("attention 16", "scaled_dot_product_attention", _heads(16, 8), F.scaled_dot_product_attention),
    Case("attention 128", "scaled_dot_product_attention", _heads(128, 32), F.scaled_dot_product_attention),
    Case("lerp", "lerp", _pair(32, 32), lambda a, b: torch.lerp(a, b, 0.1), {"input.2": 0.1}),
    Case("addcmul", "addcmul", lambda: [normal(32, 32) for _ in range(3)], _addcmul, {"input.value": 0.5}),
    Case("expand", "expand", _one(1, 32), lambda x: x.expand(64, 32)),
    Case("embedding", "embedding", _one(50, 16), lambda w: F.embedding(_labels(200, 50), w), names=("1",)),
    Case("fft", "fft.fft", _one(8, 64), lambda x: torch.fft.fft(x).abs(), has_gradient=False),
    Case("avg_pool2d", "avg_pool2d", _images, lambda x: F.avg_pool2d(x, 2)),
    Case("relu", "relu", _one(64, 64), F.relu, is_conditioned=False),
    Case("max_pool2d", "max_pool2d", _images, lambda x: F.max_pool2d(x, 2), is_conditioned=False),
]  # fmt: skip


def own_rounding(case: Case) -> Iterator[Sample]:
    """Measure the operator's own rounding: other threads, kernels, orders and dtypes, equal inputs."""
    given = case.make()
    behind = _gradient_like(case, given)
    yield from _samples(case, "float64", given, given, behind, behind, torch.float64)
    with _without_mkldnn():
        yield from _samples(case, "float64 without mkldnn", given, given, behind, behind, torch.float64)
    with _threads(1):
        yield from _samples(case, "one thread", given, given, behind, behind, torch.float64)
    coarse = [tensor.bfloat16().float() for tensor in given]
    rough = None if behind is None else behind.bfloat16().float()
    with contextlib.suppress(NotImplementedError, RuntimeError):
        yield from _samples(case, "bfloat16", coarse, coarse, rough, rough, torch.float32, torch.bfloat16)
    halves = [tensor.half().float() for tensor in given]
    half = None if behind is None else behind.half().float()
    with contextlib.suppress(NotImplementedError, RuntimeError):
        yield from _samples(case, "float16", halves, halves, half, half, torch.float32, torch.float16)


def passed_noise(case: Case, amount: float) -> Iterator[Sample]:
    """Measure what becomes of noise of a relative size in what the operator receives."""
    for noise in NOISES:
        given = case.make()
        behind = _gradient_like(case, given)
        changed = [_noisy(tensor, noise, amount) for tensor in given]
        other = None if behind is None else _noisy(behind, noise, amount)
        yield from _samples(case, noise, changed, given, other, behind, torch.float32)


def _samples(
    case: Case,
    kind: str,
    mine: Tensors,
    other: Tensors,
    behind: torch.Tensor | None,
    other_behind: torch.Tensor | None,
    reference: torch.dtype,
    dtype: torch.dtype = torch.float32,
) -> Iterator[Sample]:
    """Run both sides, the baseline in `reference`, and say what was expected of each output."""
    left, left_gradients = _run(case, [tensor.to(dtype) for tensor in mine], behind)
    right, right_gradients = _run(case, [tensor.to(reference) for tensor in other], other_behind)
    names = [f"input.{name}" for name in case.names or range(len(mine))]
    # A run in float64 is the truth: what it is told of is a second run in the candidate's dtype.
    told = dtype if reference == torch.float64 else reference
    received = [_fact(Received, *row, dtype, told) for row in zip(names, mine, other, strict=True)]
    call = CallFacts(operator=case.operator, arguments=case.arguments)
    output = _fact(Returned, "output.0", left, right, dtype, told)
    yield Sample(case.name, kind, "forward", output.deviation or 0.0, expected(output, received, call))
    if behind is None or other_behind is None:
        return
    call = CallFacts(operator=case.operator, direction="backward", arguments=case.arguments, forward_received=received)
    gradient = _fact(Received, "input.0", behind, other_behind, dtype, told)
    for name, made, true in zip(names, left_gradients, right_gradients, strict=True):
        output = _fact(Returned, name.replace("input", "output"), made, true, dtype, told)
        yield Sample(case.name, kind, "backward", output.deviation or 0.0, expected(output, [gradient], call))


def _run(case: Case, given: Tensors, behind: torch.Tensor | None) -> tuple[torch.Tensor, Sequence[torch.Tensor]]:
    leaves = [tensor.clone().requires_grad_(case.has_gradient) for tensor in given]
    result = case.call(*leaves)
    if behind is None:
        return result.detach(), ()
    return result.detach(), torch.autograd.grad(result, leaves, behind.to(result.dtype))


def _gradient_like(case: Case, given: Tensors) -> torch.Tensor | None:
    return torch.randn_like(case.call(*given)) if case.has_gradient else None


def _fact(kind: Any, name: str, mine: torch.Tensor, other: torch.Tensor, dtype: torch.dtype, told: torch.dtype) -> Any:
    left, right = mine.double(), other.double()
    norm = float(right.norm())
    distance = float((left - right).norm())
    return kind(
        name=name, dtype=str(dtype), baseline_dtype=str(told), shape=tuple(other.shape), norm=norm,
        largest=float(right.abs().max()), mean=float(right.mean()), deviation=distance / norm if norm else distance,
    )  # fmt: skip


def _noisy(tensor: torch.Tensor, noise: str, amount: float) -> torch.Tensor:
    """Return the tensor with noise whose norm is `amount` of its own."""
    flat = tensor.reshape(-1, tensor.shape[-1]) if tensor.dim() else tensor.reshape(1, 1)
    added = torch.randn_like(flat)
    if noise == "proportional":
        added = added * flat
    elif noise == "rank one":
        added = added[:, :1] * added[:1]
    elif noise == "one row":
        added[torch.arange(len(flat)) != int(torch.randint(len(flat), ()))] = 0.0
    elif noise == "one element":
        kept = int(torch.randint(flat.numel(), ()))
        added = torch.where(torch.arange(flat.numel()).reshape(flat.shape) == kept, added, 0.0)
    scale = amount * float(flat.norm()) / max(float(added.norm()), 1e-30)
    return (flat.double() + scale * added.double()).float().reshape(tensor.shape)


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def _without_mkldnn() -> Iterator[None]:
    before = torch.backends.mkldnn.set_flags(False)[0]  # `flags` warns of what it does not change
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(before)
