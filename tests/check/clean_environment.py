"""Stand-alone scripts of failed calls, run where torch is installed and nothing else: run as a program.

    python -m venv clean && clean/bin/pip install torch==2.13.0
    python -m tests.check.clean_environment clean/bin/python

Wrong kernels are planted for float32 alone, a call of each is recorded, checked, and saved with -save_error_data. Each
script then runs in the clean environment, with the wrong kernel planted there too (by the few lines of `PLANTING`,
which need torch alone), where it must give the check's verdicts; and with torch's own kernel, where it must pass. Calls
of PyTorch's operator database that fail in bfloat16 with torch's own kernels need nothing planted.
"""

from __future__ import annotations

import csv
import runpy
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F
from torch.testing._internal.common_methods_invocations import op_db

import torchparity
from tests.check.operator_database import _recorded
from torchparity.check.cases import cases_of
from torchparity.check.checking import check_case
from torchparity.check.judging import Status
from torchparity.check.reproduction import ErrorData
from torchparity.cli import main

# The right result comes from the kernel with `out`, which is another one and stays.
PLANTING = """
import torch

def a_thousandth_more(result): return result * 1.001
def as_bfloat16(result): return result.bfloat16().to(result.dtype)
def last_is_zero(result):
    result = result.clone()
    result.view(-1)[-1] = 0
    return result

FAULTS = {
    "exp": a_thousandth_more, "log": as_bfloat16, "sin": last_is_zero, "cos": a_thousandth_more,
    "tanh": as_bfloat16, "sigmoid": a_thousandth_more, "sqrt": as_bfloat16, "rsqrt": last_is_zero,
    "erf": a_thousandth_more, "expm1": as_bfloat16, "log1p": last_is_zero, "atan": a_thousandth_more,
    "sinh": as_bfloat16, "reciprocal": last_is_zero, "silu": a_thousandth_more, "gelu": as_bfloat16,
    "softplus": last_is_zero, "elu": a_thousandth_more, "mm": as_bfloat16, "bmm": last_is_zero,
    "addmm": a_thousandth_more, "_softmax": as_bfloat16, "_log_softmax": last_is_zero, "cumsum": a_thousandth_more,
    "tanh_backward": a_thousandth_more,
}
library = torch.library.Library("aten", "IMPL")

def planted(name, fault):
    operator = getattr(torch.ops.aten, name)
    into, key = (operator.grad_input, "grad_input") if name.endswith("_backward") else (operator.out, "out")
    def kernel(*args, **kwargs):
        tensor = next(value for value in args if isinstance(value, torch.Tensor))
        result = into(*args, **kwargs, **{key: torch.empty(0, dtype=tensor.dtype)})
        return fault(result) if result.dtype == torch.float32 else result
    return kernel

def plant():
    for name, fault in FAULTS.items():
        library.impl(name, planted(name, fault), "CPU")
"""
RUNNING = """
import runpy, sys, warnings
warnings.simplefilter("ignore")
plant()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
FAILING_OF_TORCH = ("matrix_exp", "log_softmax", "nn_functional_cross_entropy", "nn_functional_grid_sample")
SAMPLES = 3
FEWEST = 20
Said = dict[Path, set[str]]  # by script the results that the check called an error


def calls() -> None:
    """Make a call of every API with a planted kernel."""
    x = torch.linspace(0.1, 2.0, 48).view(6, 8)
    for name in ("exp", "log", "sin", "cos", "sqrt", "rsqrt", "erf", "expm1", "log1p", "atan", "sinh", "reciprocal"):
        getattr(torch, name)(x)
    torch.sigmoid(x), F.silu(x), F.gelu(x), F.softplus(x), F.elu(-x), F.softmax(x, -1), F.log_softmax(x, -1)
    torch.mm(x, x.T), torch.bmm(x.view(2, 3, 8), x.view(2, 8, 3)), torch.cumsum(x, 0)
    torch.addmm(x, x[:, :6], x)
    torch.tanh(x.clone().requires_grad_()).sum().backward()


def with_planted_kernels(folder: Path) -> Said:
    """Check the calls with wrong kernels."""
    with torchparity.capture(str(folder / "run"), task="tensor", level="L1"):
        calls()
    (folder / "planting.py").write_text(PLANTING)  # the very text that the clean environment is given
    planting: dict[str, Any] = runpy.run_path(str(folder / "planting.py"))
    planting["plant"]()
    saving = ["-save_error_data", "--error_data_path", str(folder / "planted")]
    main(["check", str(folder / "run"), "-d", "cpu", "-o", str(folder), *saving])
    planting["library"]._destroy()
    with (folder / "accuracy_checking_details.csv").open(encoding="utf-8") as file:
        failed = [row["API Name"] for row in csv.DictReader(file) if row["Status"] == "error"]
    scripts = sorted((folder / "planted" / "scripts").glob("*.py"))
    return {script: {name for name in failed if name.startswith(f"{script.stem}.")} for script in scripts}


def with_kernels_of_torch(folder: Path) -> Said:
    """Check what fails of the operator database in bfloat16."""
    said: Said = {}
    for info in op_db:
        if info.formatted_name not in FAILING_OF_TORCH:
            continue
        cases = [case for part in list(_recorded(info, torch.bfloat16, SAMPLES)) for case in cases_of(part)]
        for checked in (check_case(case, torch.device("cpu")) for case in cases):
            if checked.result.has_failed and checked.performed is not None:
                with ErrorData(folder / info.formatted_name, "cpu") as data:
                    data.add(checked.result, checked.performed)
                script = folder / info.formatted_name / "scripts" / f"{checked.result.name}.py"
                said[script] = {row.name for row in checked.result.details if row.status is Status.ERROR}
                break
    return said


def printed(python: str, script: Path, *, plants: bool) -> dict[str, str]:
    """Run a script where torch is alone; return its verdicts."""
    before = ["-c", PLANTING + RUNNING] if plants else []
    command = [python, "-I", "-W", "ignore", *before, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=script.parent)
    verdicts = dict(line.rsplit(": ", 1) for line in done.stdout.splitlines())
    if done.returncode != int("error" in verdicts.values()):
        return {"it ended": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else str(done.returncode)}
    return verdicts


def table(python: str, said: Said, *, plants: bool) -> Iterator[tuple[str, bool]]:
    """Yield a line for each script, and whether it gave what the check said."""
    for script, failed in said.items():
        first = printed(python, script, plants=plants)
        is_same = first == dict.fromkeys(failed, "error")
        shown = f"{script.stem:26} {'planted' if plants else 'of torch':9} check: {len(failed)} error  script: "
        shown += f"{sum(word == 'error' for word in first.values())} error"
        if plants:
            right = printed(python, script, plants=False)
            is_same = is_same and right == dict.fromkeys(failed, "pass")
            shown += f"  script without the wrong kernel: {sum(word == 'pass' for word in right.values())} pass"
        yield f"{shown}  {'same' if is_same else f'NOT THE SAME: {first}'}", is_same


def report(python: str) -> bool:
    """Print what is installed there, and the table; return whether every script gave the check's verdict."""
    alone = subprocess.run(
        [python, "-I", "-c", "import torch; print(torch.__version__); import torchparity"],
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"torch {alone.stdout.strip()}; {alone.stderr.strip().splitlines()[-1]}")
    outcomes: list[bool] = []
    with tempfile.TemporaryDirectory() as folder:
        of_torch = with_kernels_of_torch(Path(folder))
        for said, plants in ((with_planted_kernels(Path(folder)), True), (of_torch, False)):
            for line, is_same in table(python, said, plants=plants):
                print(line, flush=True)
                outcomes.append(is_same)
    print(f"{sum(outcomes)} of {len(outcomes)} scripts reproduce their verdict.")
    return all(outcomes) and len(outcomes) >= FEWEST


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(not report(sys.argv[1]))
