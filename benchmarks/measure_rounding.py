"""Rounding as it is and as the model expects it: the table of docs/precision.md.

python -m benchmarks.measure_rounding [draws]   prints, for each operator, the share of outputs beyond expectation and
the median of tolerance over deviation: own rounding with equal inputs, and noise passed on.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict

import torch

from tests.support.rounding import CASES, Sample, own_rounding, passed_noise

NOISE = (1e-7, 1e-5, 1e-3)


def measure(draws: int) -> list[Sample]:
    """Return samples of every case."""
    samples: list[Sample] = []
    for case in CASES:
        for _ in range(draws):
            samples += own_rounding(case)
            for amount in NOISE:
                samples += passed_noise(case, amount)
    return samples


def main() -> None:
    """Print the table."""
    torch.manual_seed(0)
    rows: dict[tuple[str, str, str], list[Sample]] = defaultdict(list)
    samples = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    for sample in samples:
        rows[sample.case, sample.kind, sample.direction].append(sample)
    print("| operator | rounding or noise | direction | outputs | beyond | tolerance / deviation, median |")
    for (case, kind, direction), group in rows.items():
        ratios = [s.expectation.tolerance / s.deviation for s in group if s.deviation]
        median = f"{statistics.median(ratios):.3g}" if ratios else "equal"
        worst = f" (worst {1 / min(ratios):.3g})" if ratios and min(ratios) < 1 else ""
        print(f"| {case} | {kind} | {direction} | {len(group)} | {sum(s.is_beyond for s in group)}{worst} | {median} |")
    beyond = sum(sample.is_beyond for sample in samples)
    print(f"{beyond} of {len(samples)} beyond expectation ({beyond / len(samples):.2%})")


if __name__ == "__main__":
    main()
