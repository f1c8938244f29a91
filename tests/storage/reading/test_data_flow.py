"""Origins of a run read from its files, also where the files say nonsense."""

from __future__ import annotations

import json

import pytest
import torch

from torchparity import capture, open_run
from torchparity.records import Origin, Record, TensorLeaf
from torchparity.storage import OriginTable, RunWriter, convert_run
from torchparity.storage.reading.data_flow import DataFlow

NAMES = ["Torch.sin.0.forward", "Torch.exp.0.forward"]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("outside", [Origin("outside")]),
        ("uninitialised", [Origin("uninitialised")]),
        ("unknown", [Origin("unknown")]),
        ("parameter fc.weight", [Origin("parameter", "fc.weight")]),
        ("parameter", [Origin("parameter")]),
        ("buffer bn.running_mean", [Origin("buffer", "bn.running_mean")]),
        ("Torch.exp.0.forward", [Origin("record", "Torch.exp.0.forward")]),
        ("step12 Torch.exp.3.forward", [Origin("earlier", "Torch.exp.3.forward", 12)]),
        (["outside", "Torch.sin.0.forward"], [Origin("outside"), Origin("record", "Torch.sin.0.forward")]),
        ("Torch.cos.0.forward", []),
        ("step12345678901 Torch.exp.3.forward", []),
        (["outside", 3], []),
        (["outside"] * 1000, []),
        ([["outside"]], []),
        (None, []),
        (7, []),
        ({"outside": 1}, []),
        ("", []),
    ],
)
def test_an_entry_is_understood_or_not_told(entry, expected):
    assert list(DataFlow(NAMES, [entry]).origins(-1)) == expected


@pytest.mark.parametrize("number", [2, 10**30, -2, -(10**30), None])
def test_a_number_that_stands_for_nothing_is_not_told(number):
    assert DataFlow(NAMES, ["outside"]).origins(number) == ()


@pytest.mark.parametrize("origins", [None, "outside", {}, 3])
def test_a_run_without_a_list_of_origins_tells_nothing(origins):
    flow = DataFlow(NAMES, origins)

    assert (flow.is_told, flow.origins(0), flow.table()) == (False, (), None)


def recorded(path, **fields):
    x = torch.randn(3)
    with capture(path, level="L1", **fields) as recording:
        y = torch.sin(x)
        y[0] = 1
        torch.exp(y)
        recording.step()
    return path / "step0" / "rank0" / "dump.json"


def origins_in(path):
    part = open_run(path).part()
    return {
        f"{record.name}.{item.name}": part.origins_of(item.leaf)
        for record in part.records.values()
        for item in record.items()
        if isinstance(item.leaf, TensorLeaf)
    }


@pytest.mark.parametrize("value", ["1", 1.5, None, [1], {"a": 1}, True, 10**40])
@pytest.mark.parametrize("is_strict", [True, False])
def test_an_origin_that_is_no_number_is_not_told(tmp_path, value, is_strict):
    file = recorded(tmp_path / "run")
    document = json.loads(file.read_text())
    document["data"]["Torch.exp.0.forward"]["input_args"][0]["from"] = value
    if not is_strict:
        document["data"]["Torch.exp.0.forward"]["input_args"][0]["Max"] = float("nan")
    file.write_text(json.dumps(document))

    origins = origins_in(tmp_path / "run")

    assert origins["Torch.exp.0.forward.input.0"] == ()
    assert origins["Torch.exp.0.forward.output.0"] == (Origin("record", "Torch.exp.0.forward"),)


def test_origins_stand_after_the_records(tmp_path):
    document = json.loads(recorded(tmp_path / "run").read_text())

    assert list(document)[-2:] == ["data", "origins"]
    assert document["origins"] == ["outside", ["Torch.sin.0.forward", "Tensor.__setitem__.0.forward"]]
    assert document["data"]["Torch.exp.0.forward"]["output"][0]["from"] == 2


@pytest.mark.parametrize("tensor_format", ["pt", "safetensors"])
def test_a_converted_run_tells_the_same(tmp_path, tensor_format):
    recorded(tmp_path / "run", task="tensor")

    convert_run(open_run(tmp_path / "run"), tmp_path / "copy", tensor_format)

    assert origins_in(tmp_path / "copy") == origins_in(tmp_path / "run")
    assert all(origins_in(tmp_path / "copy").values())


def test_a_run_that_breaks_off_tells_nothing(tmp_path):
    file = recorded(tmp_path / "run")
    content = file.read_bytes()
    file.write_bytes(content[: content.index(b'"Torch.exp.0')])

    assert set(origins_in(tmp_path / "run").values()) == {()}


def test_where_a_record_was_left_out_numbers_are_not_told(tmp_path):
    leaf = TensorLeaf(dtype="torch.float32", shape=(3,), origin=1)
    names = ["Torch.sin.0.forward", "Torch.exp.0.forward"]
    for run, said in (("whole", 2), ("lacking", 3)):
        with RunWriter(tmp_path / run) as writer:
            writer.start_step(0)
            for name in names:
                writer.add(Record(name=name, direction="forward", input_args=[leaf]))
            writer.finish_step(origins=OriginTable(["outside"], said))

    assert origins_in(tmp_path / "whole")["Torch.exp.0.forward.input.0"] == (Origin("record", names[1]),)
    assert set(origins_in(tmp_path / "lacking").values()) == {()}


def test_values_saved_by_hand_tell_who_made_them(tmp_path):
    x = torch.randn(3)
    with capture(tmp_path / "run", level="L1") as recording:
        recording.save(torch.sin(x), "mine")
        torch.exp(x)
        recording.step()

    origins = origins_in(tmp_path / "run")

    assert origins["mine.0.debug."] == (Origin("record", "Torch.sin.0.forward"),)
    assert origins["Torch.exp.0.forward.output.0"] == (Origin("record", "Torch.exp.0.forward"),)
