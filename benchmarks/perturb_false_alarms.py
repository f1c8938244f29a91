"""False alarms of task free_benchmark: rows of sound models, by perturbation and dtype, of all results compared.

The models are those of the tests, which nothing is wrong with; what is not float32 is cast as a whole.

    python -m benchmarks.perturb_false_alarms [--stage backward]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import shutil
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import torch

from tests.support.perturbing import MODES, mode_fields, rows_in
from tests.support.zoo import ZOO, Training
from torchparity import PrecisionDebugger

LEFT_OUT = ("spectral", "autocast")  # no kernels for its complex weights; casts by itself


def rows_of(name: str, dtype: torch.dtype, fields: dict[str, object]) -> tuple[int, list[str]]:
    """Train one model for two steps; return how many calls were perturbed, and the APIs of its rows."""
    training = Training(ZOO[name])
    training.model.to(dtype)
    batch = training.animal.batch

    def cast() -> tuple[torch.Tensor, ...]:
        return tuple(each.to(dtype) if each.is_floating_point() else each for each in batch())

    training.animal = type(training.animal)(training.animal.build, cast, training.animal.optimizer)
    folder = Path(tempfile.mkdtemp())
    debugger = PrecisionDebugger(task="free_benchmark", dump_path=folder, **fields)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        for _ in range(2):
            debugger.start(training.model)
            training.step()
            debugger.stop()
            debugger.step()
        PrecisionDebugger.close()
    apis = [row["api_name"].rpartition(".")[0].rpartition(".")[0] for row in rows_in(folder)]
    shutil.rmtree(folder)
    perturbed = re.search(r"perturbed (\d+)", said.getvalue())
    return int(perturbed.group(1)) if perturbed else 0, apis


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", choices=("forward", "backward"), default="forward")
    stage = parser.parse_args().stage
    of_stage = {"fuzz_stage": stage, "list": ["."]} if stage == "backward" else {}  # which every name has
    warnings.simplefilter("ignore")
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for mode in MODES:
            calls, alarms, failed = 0, Counter[str](), []
            for name in (name for name in ZOO if name not in LEFT_OUT):
                try:
                    perturbed, apis = rows_of(name, dtype, {**mode_fields(mode), **of_stage})
                except (RuntimeError, NotImplementedError) as error:  # the model has no kernels in this dtype
                    failed.append(f"{name}: {str(error).splitlines()[0][:60]}")
                    with contextlib.redirect_stdout(io.StringIO()):
                        PrecisionDebugger.close()
                    continue
                calls += perturbed
                alarms.update(apis)
            rate = round(100 * sum(alarms.values()) / max(calls, 1), 2)
            line = {
                "dtype": str(dtype),
                "stage": stage,
                "mode": mode,
                "calls": calls,
                "rows": sum(alarms.values()),
                "percent": rate,
            }
            print(json.dumps({**line, "apis": dict(alarms.most_common(5)), "left_out": failed}), flush=True)


if __name__ == "__main__":
    main()
