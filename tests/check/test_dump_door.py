"""`import torchparity.check.dump`, in programs of their own: the import is the interface."""

from __future__ import annotations

from tests.support.processes import run_python
from torchparity.storage import open_info_files

LOOP = """
import sys, torch
{head}
for step in range(5):
    {switch}
    torch.exp(torch.full((2,), float(step)))
"""
LOADER = """
import torchparity.check.dump
from torchparity.check.dump import msCheckerConfig
import os, sys, torch
msCheckerConfig.update_config(dump_path=sys.argv[1], real_data=True, enable_dataloader=True, target_iter=2)
from torch.utils.data import DataLoader, TensorDataset
for (batch,) in DataLoader(TensorDataset(torch.arange(10.0)), batch_size=2):
    torch.exp(batch)
"""


def test_a_training_with_a_loader_ends_with_the_seed_s_sentence(tmp_path):
    done = run_python(LOADER, tmp_path)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "Exception: Model pretest: exit after iteration 2."
    assert "1 call of iteration 2 collected" in done.stdout
    (path,) = tmp_path.glob("forward_info_*.json")
    part = open_info_files(path)
    assert part.tensor(part.records["Torch.exp.0.forward"].input_args[0]).array.tolist() == [4.0, 5.0]


def test_the_switch_serves_loops_without_a_loader(tmp_path):
    head = f"import os\nimport torchparity.check.dump as DP\nos.chdir({str(tmp_path)!r})"
    done = run_python(LOOP.format(head=head, switch='DP.dump.set_dump_switch("ON")'))

    assert done.stderr.splitlines()[-1] == "Exception: Model pretest: exit after iteration 1."
    (path,) = tmp_path.glob("forward_info_*.json")
    assert open_info_files(path).records["Torch.exp.0.forward"].input_args[0].statistics.max == 1.0


def test_a_training_without_loader_and_switch_is_told_so_at_exit():
    done = run_python(LOOP.format(head="import torchparity.check.dump", switch="pass"))

    assert done.returncode == 0
    assert "iteration 1 never came" in done.stdout
    assert 'set_dump_switch("ON")' in done.stdout


def test_a_switch_that_is_neither_on_nor_off_is_refused():
    done = run_python(LOOP.format(head="import torchparity.check.dump as DP", switch='DP.dump.set_dump_switch("on")'))

    assert done.returncode == 1
    assert "set_dump_switch was given 'on'" in done.stderr.splitlines()[-1]


def test_a_setting_that_does_not_exist_is_answered_with_the_nearest():
    wrong = "from torchparity.check.dump import msCheckerConfig\nmsCheckerConfig.update_config(real_dta=True)"

    done = run_python(wrong)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "torchparity.errors.ConfigError: update_config has no option 'real_dta'. Did you mean 'real_data'? "
        "There are: dump_path, real_data, enable_dataloader, target_iter, error_data_path."
    )
