"""STUB, replaced by the compiled kernel."""

from __future__ import annotations
import msgspec, numpy as np
from torchparity.tensors import HostTensor


class PairMetrics(msgspec.Struct, frozen=True, gc=False):
    count: int
    cosine: float | None
    euclidean: float
    max_abs: float
    max_relative: float
    within_1e3: float
    within_5e3: float
    mismatched: int
    candidate_is_zero: bool
    baseline_is_zero: bool
    has_nonfinite: bool


def compare_pair(candidate: HostTensor, baseline: HostTensor) -> PairMetrics:
    a = np.asarray(candidate.numbers()).reshape(-1).astype(np.float64)
    b = np.asarray(baseline.numbers()).reshape(-1).astype(np.float64)
    bad = ~(np.isfinite(a) & np.isfinite(b))
    same = bad & ((np.isnan(a) & np.isnan(b)) | (a == b))
    mis = int((bad & ~same).sum())
    a = np.where(bad, 0, a)
    b = np.where(bad, 0, b)
    d = np.abs(a - b)
    re = np.where(d == 0, 0, d / np.where(b == 0, 2.0**-52, np.abs(b)))
    na, nb = np.linalg.norm(a), np.linalg.norm(b)
    cos = 1.0 if na == 0 and nb == 0 else None if na == 0 or nb == 0 else float(a @ b / (na * nb))
    return PairMetrics(
        a.size,
        cos,
        float(np.linalg.norm(d)),
        float(d.max()),
        float(re.max()),
        float((re < 0.001).mean()),
        float((re < 0.005).mean()),
        mis,
        na == 0,
        nb == 0,
        bool(bad.any()),
    )
