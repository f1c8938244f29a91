"""PyTorch's own operator database through the check: run as a program, it prints a table.

    python -m tests.check.operator_database [--samples N] [--every N] [--first N] [--device D] [--json FILE] [NAME ...]

Each entry is recorded with its own samples, forward and backward, in float32 and bfloat16, and checked from its
record: with the recorded values, and with values drawn from the recorded statistics. The recording is made on the CPU;
for a GPU set NVIDIA_TF32_OVERRIDE=0, or its convolutions use TF32.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves

from tests.check.recorded_zoo import without_values
from torchparity.calls import attempted
from torchparity.check.cases import Case, cases_of
from torchparity.check.checking import check_case
from torchparity.check.judging import Status, join
from torchparity.config import CaptureConfig
from torchparity.recording.session import Session
from torchparity.recording.writing.memory_output import MemoryOutput

DTYPES = (torch.float32, torch.bfloat16)
OTHERWISE = (torch.int64, torch.complex64)  # for entries that take no such numbers
DATA = ("real", "random")


@dataclass
class Entry:
    """What became of one entry in one dtype with one kind of data."""

    name: str
    dtype: str
    data: str
    status: str | None = None  # of all its calls together; None where none was recorded
    backward: str | None = None
    reasons: list[str] = field(default_factory=list)  # of what was skipped
    failures: list[str] = field(default_factory=list)

    @property
    def is_judged(self) -> bool:
        return self.status in ("pass", "warning", "error")


def entries(
    names: list[str], every: int, samples: int, device: torch.device, dtypes=DTYPES, first: int = 0
) -> list[Entry]:
    chosen = [info for info in op_db if not names or info.formatted_name in names][first::every]
    return [entry for info in chosen for entry in _entries_of(info, samples, device, dtypes)]


def _entries_of(info, samples: int, device: torch.device, dtypes) -> list[Entry]:
    taken = info.supported_dtypes("cpu")
    tried = [dtype for dtype in dtypes if dtype in taken] or [dtype for dtype in OTHERWISE if dtype in taken]
    found = []
    for dtype in tried:
        kind = str(dtype).removeprefix("torch.")
        parts = attempted(lambda dtype=dtype: list(_recorded(info, dtype, samples)))
        if isinstance(parts, Exception):
            found += [Entry(info.formatted_name, kind, data, reasons=[f"not recorded: {parts!r}"]) for data in DATA]
            continue
        for data in DATA:
            cases = [case for part in parts for case in cases_of(part)]
            found.append(_checked(Entry(info.formatted_name, kind, data), cases, data, device))
    return found


def _recorded(info, dtype, count: int):
    """Yield a part with the calls of each sample."""
    backward = info.supports_autograd and dtype in info.supported_backward_dtypes("cpu")
    torch.manual_seed(0)
    for sample in islice(info.sample_inputs("cpu", dtype, requires_grad=backward), count):
        inputs = [sample.input, *sample.args]
        graded = _graded(info, sample, inputs)
        seeds = [torch.randn_like(leaf) for leaf in graded]
        yield _recorded_call(info, sample, inputs, seeds)


def _recorded_call(info, sample, inputs, seeds):
    output = MemoryOutput(task="tensor", level="L1", rank=0)
    session = Session(CaptureConfig(task="tensor", level="L1", views=True), output=output)
    try:
        session.start(torch.nn.Module())
        ends = _graded(info, sample, inputs)
        if ends:
            torch.autograd.backward(ends, seeds)
        session.step()
        return output.take()
    finally:
        session.close(None)


def _graded(info, sample, inputs):
    output = info.op(*inputs, **sample.kwargs)
    leaves = tree_leaves(sample.output_process_fn_grad(output))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]


def _checked(entry: Entry, cases: list[Case], data: str, device: torch.device) -> Entry:
    results = [check_case(case if data == "real" else without_values(case), device).result for case in cases]
    entry.status = _text(join(result.forward for result in results if result.forward))
    entry.backward = _text(join(result.backward for result in results if result.backward))
    entry.status = _text(join(Status(word) for word in (entry.status, entry.backward) if word)) or entry.status
    entry.reasons = [f"{result.name}: {result.message}" for result in results if Status.SKIP is result.status]
    wrong = (row for result in results for row in result.details if row.status in (Status.ERROR, Status.WARNING))
    entry.failures = [f"{row.status} {row.name} {row.device_dtype} {row.shape}: {row.message}" for row in wrong]
    return entry


def _text(status: Status | None) -> str | None:
    return None if status is None else str(status)


def table(found: list[Entry]) -> str:
    """Return the numbers of each dtype and kind of data, then every entry that was not judged or failed."""
    lines = [
        f"{'dtype':10} {'data':7} {'entries':>7} {'judged':>7} {'share':>6} {'error':>6} {'warning':>8} {'skipped':>8}"
    ]
    for kind, data in dict.fromkeys((entry.dtype, entry.data) for entry in found):
        here = [entry for entry in found if (entry.dtype, entry.data) == (kind, data)]
        counts = Counter(entry.status for entry in here)
        judged = sum(entry.is_judged for entry in here)
        lines.append(
            f"{kind:10} {data:7} {len(here):7} {judged:7} {judged / len(here):6.1%} {counts['error']:6} "
            f"{counts['warning']:8} {len(here) - judged:8}"
        )
    for entry in found:
        if entry.failures:
            lines.append(f"{entry.name} {entry.dtype} {entry.data} {entry.failures[0][:300]}")
        elif not entry.is_judged:
            reason = entry.reasons[0] if entry.reasons else "no call of an API was recorded"
            lines.append(f"{entry.name} {entry.dtype} {entry.data} skipped: {reason[:250]}")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="entry: several processes take turns with --every")
    parser.add_argument("--samples", type=int, default=3, help="inputs of each entry")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--json", type=Path)
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    kinds = [getattr(torch, name) for name in asked.dtypes.split(",")]
    found = entries(asked.names, asked.every, asked.samples, torch.device(asked.device), kinds, asked.first)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(entry) for entry in found], indent=1))
    print(table(found))
