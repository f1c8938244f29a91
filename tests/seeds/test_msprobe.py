"""The fourth and fifth document: every sample and command line of msprobe as it is printed, and the files it leaves."""

from __future__ import annotations

import json
import shlex
import shutil
import sys

import pytest
import yaml

from tests.seeds.samples import blocks, needs_seeds, run_command, run_sample

pytestmark = needs_seeds
RECORD = """
import sys, torch
from msprobe.pytorch import PrecisionDebugger, seed_all
folder, scale = sys.argv[1], float(sys.argv[2])
seed_all()
layer = torch.nn.Linear(4, 4)
for rank in (0, 1):
    debugger = PrecisionDebugger(dump_path=folder, task="tensor", level="mix", summary_mode="md5")
    debugger.start(model=layer, rank_id=rank)
    torch.relu(layer(torch.ones(2, 4)) * scale).sum().backward()
    debugger.stop()
    debugger.step()
    debugger.close()
"""
POINTS = """
import sys, torch
from msprobe.pytorch import PrecisionDebugger
debugger = PrecisionDebugger(dump_path=sys.argv[1], task="tensor", level="debug")
debugger.start()
debugger.save(torch.ones(3) * float(sys.argv[2]), "point")
debugger.stop()
debugger.step()
"""


def commands(number):
    lines = [line for kind in ("shell", "bash") for code in blocks(number, kind) for line in code.splitlines()]
    return [line.strip() for line in lines if line.strip().startswith("msprobe ")]


def run_printed(line, folder):
    program, *words = shlex.split(line)
    assert program == "msprobe"
    return run_command([sys.executable, "-m", "torchparity.compat.msprobe", *words], folder)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A folder with npu_dump, bench_dump and gpu_dump as the documents name them, of one rank and of two."""
    folder = tmp_path_factory.mktemp("msprobe")
    for name, scale in (("npu_dump", 1.1), ("bench_dump", 1.0)):
        code = RECORD.replace("sys.argv[1], float(sys.argv[2])", f"{name!r}, {scale}")
        done = run_sample(code, folder, f"record_{name}.py")
        assert done.returncode == 0, done.stderr
        for file in (folder / name / "step0" / "rank0").iterdir():
            copy = shutil.copytree if file.is_dir() else shutil.copy
            copy(file, folder / name / file.name)
    shutil.copytree(folder / "bench_dump", folder / "gpu_dump")
    return folder


def written(folder, before):
    return sorted(file.name for file in set(folder.glob("*/*")) - before)


def compare_json(folder, number):
    text = blocks(3, "json")[number]
    (folder / "compare.json").write_text(text, encoding="utf-8")


def run_all(folder, lines):
    for line in lines:
        done = run_printed(line, folder)
        assert done.returncode == 0, (line, done.stderr)


def test_the_five_forms_of_compare_are_printed():
    assert [line for line in commands(3) if " compare " in line] == [
        "msprobe -f pytorch compare -i ./compare.json -o ./output -s",
        "msprobe -f pytorch compare -i ./compare.json -o ./output -s",
        "msprobe -f pytorch compare -i ./compare.json -o ./output -s -dm data_mapping.yaml",
        "msprobe -f pytorch compare -i ./compare.json -o ./output",
        "msprobe -f pytorch compare -i ./compare.json -o ./output -da",
    ]


def test_one_rank_is_compared_with_call_stacks_and_a_mapping(recorded):
    compare_json(recorded, 0)
    mapping = {"Functional.linear.0.forward.input.0": "Functional.linear.0.forward.input.0"}
    (recorded / "data_mapping.yaml").write_text(yaml.safe_dump(mapping))
    lines = [line for line in commands(3) if " -s" in line]
    shutil.rmtree(recorded / "output", ignore_errors=True)

    run_all(recorded, lines[1:])

    names = [file.name for file in (recorded / "output").iterdir()]
    assert any(name.startswith("compare_result_2") and name.endswith(".xlsx") for name in names)
    assert any(name.startswith("advisor_2") and name.endswith(".txt") for name in names)


def test_several_ranks_are_compared_and_merged(recorded):
    compare_json(recorded, 1)  # with its comments behind "#"
    shutil.rmtree(recorded / "output", ignore_errors=True)
    run_all(recorded, ["msprobe -f pytorch compare -i ./compare.json -o ./output"])
    names = [file.name for file in (recorded / "output").iterdir()]
    assert all(any(name.startswith(f"compare_result_rank{rank}_") for name in names) for rank in (0, 1))

    shutil.rmtree(recorded / "input_dir", ignore_errors=True)
    (recorded / "output").rename(recorded / "input_dir")
    (recorded / "config.yaml").write_text("api:\n- Functional.linear\ncompare_index:\n- Cosine\n")
    (line,) = [line for line in commands(3) if "merge_result" in line]

    run_all(recorded, [line])

    (merged,) = (recorded / "output_dir").iterdir()
    assert merged.name.startswith("multi_ranks_compare_merge_2")
    assert merged.suffix == ".xlsx"


def test_the_first_differing_node_is_written(recorded):
    compare_json(recorded, 1)
    shutil.rmtree(recorded / "output", ignore_errors=True)

    run_all(recorded, [line for line in commands(3) if line.endswith("-da")])

    names = [file.name for file in (recorded / "output").iterdir()]
    (found,) = [name for name in names if name.startswith("diff_analyze_")]
    nodes = json.loads((recorded / "output" / found).read_text())
    assert "mul" in json.dumps(nodes)
    assert any(name.startswith("compare_result_rank1_") and name.endswith(".json") for name in names)


def test_single_points_are_compared(tmp_path):
    for name, scale in (("npu_dump", 2), ("bench_dump", 1)):
        done = run_sample(POINTS.replace("sys.argv[1]", repr(name)).replace("sys.argv[2]", str(scale)), tmp_path)
        assert done.returncode == 0, done.stderr
    compare_json(tmp_path, 3)

    run_all(tmp_path, ["msprobe -f pytorch compare -i ./compare.json -o ./output"])

    assert [file.name for file in (tmp_path / "output").glob("*.xlsx")]


def test_the_functions_compare_one_rank_and_several(recorded):
    samples = [code for code in blocks(3, "python") if "from msprobe.pytorch" in code]
    shutil.rmtree(recorded / "output", ignore_errors=True)

    for code in samples:
        done = run_sample(code, recorded)
        assert done.returncode == 0, done.stderr

    names = [file.name for file in (recorded / "output").iterdir()]
    assert len(samples) == 2
    assert any(name.startswith("compare_result_2") for name in names)
    assert any(name.startswith("compare_result_rank0_") for name in names)
    assert "Functional.linear.0.forward.input.0" in run_sample(samples[0], recorded).stderr


def test_free_benchmark_runs_as_its_document_prints_it(tmp_path):
    (config,) = blocks(4, "json")
    (tmp_path / "config.json").write_text(config)
    (sample,) = blocks(4, "python")
    before, _, after = sample.partition("debugger.start()")
    start, _, end = after.partition("...")
    loop = (
        "import logging, torch\nlogging.basicConfig(level=logging.INFO)\nlayer = torch.nn.Linear(4, 4).bfloat16()\n"
        f"{before.replace('...', '')}\nfor _ in range(2):\n    debugger.start(){start}"
        "    layer(torch.ones(2, 4).bfloat16()).sum().backward()\n"
        + "".join(f"    {line}\n" for line in end.partition("\n")[2].splitlines())
    )

    done = run_sample(loop, tmp_path)

    assert done.returncode == 0, done.stderr
    assert "Perturbation is improve_precision of Functional.linear.0.forward" in done.stderr
