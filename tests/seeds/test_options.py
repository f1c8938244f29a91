"""The options of the fourth document: each in its long form, and each argument of the functions as a keyword."""

from __future__ import annotations

import inspect
import json
import re
import sys

import pytest
import torch
import yaml

from tests.seeds.samples import blocks, needs_seeds
from tests.support.results import merged_cells
from torchparity import PrecisionDebugger
from torchparity.compat import msprobe, msprobe_pytorch


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of two ranks; the second multiplies by another number."""
    folder = tmp_path_factory.mktemp("options")
    for name, scale in (("npu_dump", 1.5), ("bench_dump", 1.0)):
        for rank in (0, 1):
            debugger = PrecisionDebugger(dump_path=str(folder / name), task="tensor", level="L1")
            debugger.start(rank_id=rank)
            torch.relu(torch.mul(torch.ones(3), scale))
            debugger.stop()
            debugger.step()
            PrecisionDebugger.close()
    return folder


@pytest.fixture
def asked(runs, tmp_path, monkeypatch):
    """An empty folder with the compare.json of one rank, as the document names its runs."""
    monkeypatch.chdir(tmp_path)
    for name in ("npu_dump", "bench_dump"):
        (tmp_path / name).symlink_to(runs / name / "step0" / "rank0")
        (tmp_path / f"{name}_all").symlink_to(runs / name)
    paths = {"npu_path": "./npu_dump/dump.json", "bench_path": "./bench_dump/dump.json"}
    (tmp_path / "compare.json").write_text(json.dumps(paths | {"stack_path": "./npu_dump/stack.json"}))
    return tmp_path


def run_msprobe(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["msprobe", "--framework", "pytorch", *words])
    return msprobe.main()


def written(folder):
    return sorted(re.sub(r"\d{14}", "{timestamp}", file.name) for file in folder.iterdir())


@needs_seeds
def test_the_files_of_a_comparison_are_these():
    one, several, points, *_ = (re.sub("#.*", "", text) for text in blocks(3, "json"))

    assert json.loads(one) == {
        "npu_path": "./npu_dump/dump.json",
        "bench_path": "./bench_dump/dump.json",
        "stack_path": "./npu_dump/stack.json",
        "is_print_compare_log": True,
    }
    assert json.loads(several)["bench_path"] == "./bench_dump/step0"
    assert json.loads(points) == {"npu_path": "./npu_dump/debug.json", "bench_path": "./bench_dump/debug.json"}


def test_the_long_forms_of_compare_write_the_same_files(asked, monkeypatch, capsys):
    long = ["compare", "--input_path", "./compare.json", "--output_path", "./output", "--stack_mode", "--highlight"]
    assert run_msprobe(monkeypatch, *long, "--fuzzy_match") == 0
    assert written(asked / "output") == ["advisor_{timestamp}.txt", "compare_result_{timestamp}.xlsx"]

    assert run_msprobe(monkeypatch, "compare", "-i", "./compare.json", "-o", "./only", "--compare_only") == 0
    assert written(asked / "only") == ["compare_result_{timestamp}.xlsx"]


def test_the_long_form_of_the_first_differing_node(asked, monkeypatch):
    words = ["compare", "--input_path", "./compare.json", "--output_path", "./output", "--diff_analyze"]

    assert run_msprobe(monkeypatch, *words) == 0

    names = written(asked / "output")
    assert "diff_analyze_{timestamp}.json" in names
    assert "compare_result_rank0_{timestamp}.json" in names


def test_the_long_form_of_a_mapping(asked, monkeypatch):
    item = "Torch.mul.0.forward.input.0"
    (asked / "data_mapping.yaml").write_text(yaml.safe_dump({item: item}))
    words = ["compare", "-i", "./compare.json", "-o", "./output", "--data_mapping", "data_mapping.yaml"]

    assert run_msprobe(monkeypatch, *words) == 0

    assert "compare_result_{timestamp}.xlsx" in written(asked / "output")


def test_the_long_forms_of_merge_result(asked, monkeypatch):
    msprobe_pytorch.compare_distributed("npu_dump_all/step0", "bench_dump_all/step0", "input_dir")
    (asked / "config.yaml").write_text("api:\n- Torch.mul\ncompare_index:\n- Cosine\n")
    words = ["merge_result", "--input_dir", "./input_dir", "--output_dir", "./output_dir"]

    assert run_msprobe(monkeypatch, *words, "--config-path", "./config.yaml") == 0

    assert written(asked / "output_dir") == ["multi_ranks_compare_merge_{timestamp}.xlsx"]
    assert merged_cells(asked / "output_dir")["Cosine"][0] == ["NPU Name", "rank0", "rank1"]


@needs_seeds
def test_single_points_are_compared_by_their_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, scale in (("npu_dump", 2.0), ("bench_dump", 1.0)):
        debugger = PrecisionDebugger(dump_path=f"{name}_all", task="tensor", level="debug")
        debugger.start()
        debugger.save(torch.ones(3) * scale, "point")
        debugger.stop()
        PrecisionDebugger.close()
        (file,) = (tmp_path / f"{name}_all").rglob("debug.json")
        (tmp_path / name).symlink_to(file.parent)
    (tmp_path / "compare.json").write_text(blocks(3, "json")[2])

    assert run_msprobe(monkeypatch, "compare", "-i", "./compare.json", "-o", "./output") == 0

    assert "debug_compare_result_{timestamp}.xlsx" in written(tmp_path / "output")


def test_every_argument_of_compare_is_a_keyword(asked, capsys):
    input_param = {"npu_json_path": "./npu_dump/dump.json", "bench_json_path": "./bench_dump/dump.json"}
    input_param |= {"stack_json_path": "./npu_dump/stack.json"}

    msprobe_pytorch.compare(
        input_param=input_param,
        output_path="./output",
        stack_mode=True,
        auto_analyze=False,
        fuzzy_match=True,
        highlight=True,
    )

    assert written(asked / "output") == ["compare_result_{timestamp}.xlsx"]
    assert "Torch.mul.0.forward.input.0" in capsys.readouterr().err


def test_a_line_for_each_item_is_left_out_where_it_is_not_wanted(asked, capsys):
    input_param = {"npu_json_path": "./npu_dump/dump.json", "bench_json_path": "./bench_dump/dump.json"}

    msprobe_pytorch.compare(input_param | {"is_print_compare_log": False}, "./output")

    assert "Torch.mul.0.forward.input.0" not in capsys.readouterr().err


def test_every_argument_of_compare_distributed_is_a_keyword(asked):
    msprobe_pytorch.compare_distributed(
        npu_dump_dir="npu_dump_all/step0",
        bench_dump_dir="bench_dump_all/step0",
        output_path="./output",
        stack_mode=True,
        auto_analyze=False,
        fuzzy_match=False,
        highlight=False,
    )

    names = written(asked / "output")
    assert names[:2] == [f"compare_result_rank{rank}_{{timestamp}}.xlsx" for rank in (0, 1)]
    assert not any(name.startswith("advisor") for name in names)


@needs_seeds
def test_the_prototype_of_compare_is_ours():
    (prototype,) = [code for code in blocks(3, "python") if code.startswith("compare(input_param")]

    ours = inspect.signature(msprobe_pytorch.compare).parameters

    printed = re.findall(r"(\w+)(?:=(\w+))?[,)]", prototype)
    assert [name for name, _ in printed] == list(ours)[: len(printed)]
    assert all(str(ours[name].default) == value for name, value in printed if value)
