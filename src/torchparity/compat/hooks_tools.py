"""torch_npu.hooks.tools: compare two runs of the hooks, and write cosine, RMSE and MAPE of every tensor as a csv."""

from __future__ import annotations

from pathlib import Path

from torchparity.comparing.hooks_table import write_hooks_table
from torchparity.compat import hooks
from torchparity.compat.recorded import recorded_run

__all__ = ["compare"]


def compare(npu_pkl_path: str | Path, bench_pkl_path: str | Path, output_path: str | Path) -> None:
    """Compare two runs that `set_dump_path` named, and write a csv."""
    hooks.finish()
    write_hooks_table(recorded_run(npu_pkl_path), recorded_run(bench_pkl_path), Path(output_path))
