"""The third document: collecting an iteration, checking its APIs and telling overflows apart, all as printed."""

from __future__ import annotations

import csv
import json
import os
import sys

import pytest

from tests.seeds.samples import blocks, needs_seeds, run_command, run_sample
from tests.support.processes import ROOT

pytestmark = needs_seeds
NAMES = ROOT / "packages" / "seed-names" / "src"
TRAINING = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
layer = torch.nn.Linear(4, 4)
for iteration, (batch,) in enumerate(DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)):
    {inside}
    torch.relu(layer(batch)).sum().backward()
print("the training came to its end")
"""
OVERFLOWING = """
import torch
from ptdbg_ascend import overflow_check, register_hook, set_dump_path
layer = torch.nn.Linear(4, 4)
set_dump_path("./overflow")
register_hook(layer, overflow_check, overflow_nums=-1)
torch.exp(layer(torch.full((2, 4), 1e4)).abs() + 1000)
"""


def samples():
    return [code for code in blocks(2, "python") if "api_accuracy_checker" in code]


def collected(folder):
    return sorted(file.name.rstrip("0123456789.json") for file in folder.glob("*_info_*.json"))


def run_file(name, words, folder):
    """Run a file of seed-names in the folder of its results, as the document changes directory to the file's."""
    script = NAMES / "api_accuracy_checker" / "run_ut" / name
    return run_command([sys.executable, str(script), *words], folder)


def commands(program):
    lines = [line.strip() for code in blocks(2, "bash") for line in code.splitlines()]
    return [line.split()[2:] for line in lines if line.startswith(f"python {program}")]


@pytest.fixture(scope="module")
def iteration(tmp_path_factory):
    """What the first sample collects, under the names that the commands of the document have."""
    folder = tmp_path_factory.mktemp("checker")
    done = run_sample(samples()[0] + TRAINING.format(inside="pass"), folder)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "Exception: Model pretest: exit after iteration 1."
    assert collected(folder) == ["backward_info_", "forward_info_", "stack_info_"]
    for kind in ("forward", "backward"):
        (file,) = folder.glob(f"{kind}_info_*.json")
        file.rename(folder / f"{kind}_info_0.json")
    return folder


def test_importing_the_module_collects_the_second_iteration(iteration):
    (stacks,) = iteration.glob("stack_info_*.json")

    forward = json.loads((iteration / "forward_info_0.json").read_text())

    assert forward.keys() == json.loads(stacks.read_text()).keys()
    assert any("linear" in name for name in forward)


def test_the_switch_collects_where_there_is_no_dataloader(tmp_path):
    imported, switched = samples()[1].strip().splitlines()
    assert imported == "import api_accuracy_checker.dump as DP"
    assert switched.strip() == 'DP.dump.set_dump_switch("ON")'
    loop = TRAINING.format(inside=switched).replace(
        "DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)", "DATA"
    )
    code = f"{imported}\nimport torch\nDATA = [(torch.ones(2, 4),)] * 4\n{loop}"

    run_sample(code, tmp_path)

    assert collected(tmp_path) == ["backward_info_", "forward_info_", "stack_info_"]


def test_the_settings_say_where_and_what_to_collect(tmp_path):
    (tmp_path / "my" / "dump" / "path").mkdir(parents=True)
    settings = 'dump_path="my/dump/path", real_data=True, enable_dataloader=True, target_iter=1'
    assert f"msCheckerConfig.update_config({settings})" in samples()[2]

    done = run_sample(samples()[2] + TRAINING.format(inside="pass"), tmp_path)

    assert "Model pretest: exit after iteration 1." in done.stderr
    folder = tmp_path / "my" / "dump" / "path"
    assert collected(folder) == ["backward_info_", "forward_info_", "stack_info_"]
    assert (folder / "forward_real_data").is_dir()
    assert (folder / "backward_real_data").is_dir()


def test_run_ut_is_a_file_that_runs_as_printed(iteration):
    lines = commands("run_ut.py")
    first = ["-forward", "./forward_info_0.json", "-backward", "./backward_info_0.json"]
    assert lines == [first, [*first, "-save_error_data"]]

    for words in lines:
        done = run_file("run_ut.py", words, iteration)
        assert done.returncode == 0, done.stderr

    with (iteration / "accuracy_checking_result.csv").open(newline="") as opened:
        rows = {row["API name"]: row["Forward Test Success"] for row in csv.DictReader(opened)}
    assert any("linear" in name and verdict == "pass" for name, verdict in rows.items())
    assert (iteration / "accuracy_checking_details.csv").is_file()


def test_overflows_are_told_apart_by_the_file_as_printed(tmp_path):
    recorded = run_sample(OVERFLOWING, tmp_path)
    assert recorded.returncode == 0, recorded.stderr
    (forward,) = tmp_path.glob("forward_info_*.json")
    forward.rename(tmp_path / "forward_info_0.json")
    (words,) = commands("run_overflow_check.py")

    done = run_file("run_overflow_check.py", words, tmp_path)

    assert done.returncode == 0, done.stderr
    assert "exp" in done.stdout
    assert "normal" in done.stdout


def test_every_name_of_seed_names_leads_to_the_same_object(tmp_path):
    code = (
        "import ptdbg_ascend, msprobe.pytorch, torch_npu.hooks.tools, torchparity.compat.ptdbg_ascend as ours\n"
        "from torchparity.compat import hooks_tools, msprobe_pytorch\n"
        "assert ptdbg_ascend.register_hook is ours.register_hook\n"
        "assert msprobe.pytorch.compare is msprobe_pytorch.compare\n"
        "assert torch_npu.hooks.tools.compare is hooks_tools.compare\n"
        "print('all there')"
    )
    search = os.pathsep.join([str(NAMES), str(ROOT / "src")])

    done = run_command([sys.executable, "-c", f"import sys; sys.path[:0] = {search!r}.split(':')\n{code}"], tmp_path)

    assert done.stdout.strip() == "all there", done.stderr
