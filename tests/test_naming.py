"""Names as text and as parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchparity.errors import RecordNameError
from torchparity.naming import (
    RECOMPUTE_MARK,
    RecordName,
    backward_of,
    call_of,
    canonical_operator,
    family_of,
    flatten,
    forward_of,
    forward_of_call,
    is_module_name,
    parse_record,
    split_item,
    without_call,
)

words = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,12}", fullmatch=True)
numbers = st.integers(0, 10**9)
directions = st.sampled_from(["forward", "backward"])
marks = st.sampled_from([None, "recompute", "2"])
apis = st.builds(
    RecordName,
    words.filter(lambda word: word != "Module"),
    st.lists(words | directions, min_size=1, max_size=3).map(".".join),
    numbers,
    directions,
    mark=marks,
)
modules = st.builds(
    RecordName,
    st.just("Module"),
    st.lists(words | directions | numbers.map(str), max_size=4).map(".".join),
    numbers,
    directions,
    words | directions,
    marks,
)
SOURCE = Path(__file__).parent.parent / "src" / "torchparity"
PARSED_BY_HAND = re.compile(
    r'startswith\("Module\.|(?:replace|partition|split|removesuffix)\("\.(?:forward|backward)|"\.forward"\.join|"#recompute"'
)
PACKAGES_TO_CONVERT: set[str] = set()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        pytest.param(
            "Functional.conv2d.1.backward", RecordName("Functional", "conv2d", 1, "backward"), id="msprobe-api"
        ),
        pytest.param("Functional_conv2d_1_backward", RecordName("Functional", "conv2d", 1, "backward"), id="ptdbg-api"),
        pytest.param(
            "Tensor___getitem___0_forward", RecordName("Tensor", "__getitem__", 0, "forward"), id="ptdbg-dunder"
        ),
        pytest.param(
            "Functional_max_pool2d_12_forward", RecordName("Functional", "max_pool2d", 12, "forward"), id="ptdbg-long"
        ),
        pytest.param(
            "Torch.linalg.inv.3.forward", RecordName("Torch", "linalg.inv", 3, "forward"), id="dotted-operator"
        ),
        pytest.param(
            "Module.layer1.0.Conv2d.forward.2",
            RecordName("Module", "layer1.0", 2, "forward", "Conv2d"),
            id="direction-before-number",
        ),
        pytest.param("Module.Net.forward.0", RecordName("Module", "", 0, "forward", "Net"), id="the-model-itself"),
        pytest.param(
            "Module.fc.Linear.parameters_grad",
            RecordName("Module", "fc", None, "parameters_grad", "Linear"),
            id="gradients-of-msprobe-8",
        ),
        pytest.param(
            "Module.fc.Linear.parameters_grad.4",
            RecordName("Module", "fc", 4, "parameters_grad", "Linear"),
            id="gradients-of-msprobe-26",
        ),
        pytest.param(
            "Functional.relu.0.backward#2", RecordName("Functional", "relu", 0, "backward", mark="2"), id="second-pass"
        ),
        pytest.param(
            "Module.fc.Linear.forward.1#recompute",
            RecordName("Module", "fc", 1, "forward", "Linear", mark="recompute"),
            id="recomputed",
        ),
        pytest.param("x.y.3.debug", RecordName("", "x.y", 3, "debug"), id="single-point"),
    ],
)
def test_record_name_parses(text, parts):
    assert parse_record(text) == parts
    assert text in (str(parts), parts.ptdbg() if parts.module_class is None and parts.direction != "debug" else "")


@pytest.mark.parametrize(
    "text", ["", "conv2d", "Functional.conv2d.forward", "Module.forward.0", "a.b.c", "Functional.relu.x.forward"]
)
def test_what_is_no_record_name_is_refused_with_an_example(text):
    with pytest.raises(RecordNameError, match=r"Functional\.conv2d\.0\.forward"):
        parse_record(text)


@given(words, words, numbers, st.sampled_from(["forward", "backward"]))
def test_api_names_survive_a_round_trip_in_both_spellings(api_type, operator, call, direction):
    name = RecordName(api_type if api_type != "Module" else "Torch", operator, call, direction)

    assert parse_record(str(name)) == name
    # With underscores a type that has one itself cannot be told from the operator.
    if "_" not in name.api_type:
        assert parse_record(name.ptdbg()) == name


@given(st.lists(words | numbers.map(str), max_size=4), words, numbers, st.sampled_from(["forward", "backward"]))
def test_module_names_survive_a_round_trip(path, module_class, call, direction):
    name = RecordName("Module", ".".join(path), call, direction, module_class)

    assert parse_record(str(name)) == name


@pytest.mark.parametrize(
    ("text", "record", "item"),
    [
        ("Functional.conv2d.1.backward.input.0", "Functional.conv2d.1.backward", "input.0"),
        ("Functional_conv2d_1_backward_input.0", "Functional.conv2d.1.backward", "input.0"),
        ("Functional.linear.0.forward.input.weight", "Functional.linear.0.forward", "input.weight"),
        ("Module.fc.Linear.forward.0.parameters.bias", "Module.fc.Linear.forward.0", "parameters.bias"),
        ("Module.input.Linear.forward.0.output.0.aux.2.0", "Module.input.Linear.forward.0", "output.0.aux.2.0"),
        ("Module.a.output.Linear.forward.0.input.0", "Module.a.output.Linear.forward.0", "input.0"),
        ("Module.fc.Linear.parameters_grad.weight", "Module.fc.Linear.parameters_grad", "weight"),
        ("Module.fc.Linear.parameters_grad.1.weight", "Module.fc.Linear.parameters_grad.1", "weight"),
        ("Module.pl.ParameterList.parameters_grad.0.0", "Module.pl.ParameterList.parameters_grad.0", "0"),
        ("Functional.relu.0.forward#recompute.input.0", "Functional.relu.0.forward#recompute", "input.0"),
        ("x.0.debug.k.1", "x.0.debug", "k.1"),
        ("x.0.debug", "x.0.debug", ""),
    ],
)
def test_item_names_split_into_record_and_item(text, record, item):
    name, found = split_item(text)

    assert (str(name), found) == (record, item)


@pytest.mark.parametrize(
    ("spellings", "canonical"),
    [
        (["add", "__add__", "__radd__"], "add"),
        (["add_", "__iadd__"], "add_"),
        (["sub", "__sub__", "subtract"], "sub"),
        (["rsub", "__rsub__"], "rsub"),
        (["mul", "__mul__", "__rmul__", "multiply"], "mul"),
        (["mul_", "__imul__", "multiply_"], "mul_"),
        (["div", "__truediv__", "__div__", "true_divide", "divide"], "div"),
        (["div_", "__itruediv__", "__idiv__"], "div_"),
        (["rdiv", "__rdiv__", "__rtruediv__"], "rdiv"),
        (["matmul", "__matmul__"], "matmul"),
        (["pow", "__pow__"], "pow"),
        (["rpow", "__rpow__"], "rpow"),
        (["neg", "__neg__", "negative"], "neg"),
        (["gt", "__gt__", "greater"], "gt"),
        (["getitem", "__getitem__"], "getitem"),
        (["setitem", "__setitem__"], "setitem"),
        (["bitwise_and", "__and__"], "bitwise_and"),
        (["bitwise_not", "__invert__"], "bitwise_not"),
        (["floor_divide", "__floordiv__"], "floor_divide"),
        (["arctanh", "atanh"], "atanh"),
        (["linalg.inv"], "linalg.inv"),
        (["relu_"], "relu_"),
        (["index_put_"], "index_put_"),
    ],
)
def test_spellings_of_one_operator_have_one_canonical_name(spellings, canonical):
    assert {canonical_operator(spelling) for spelling in spellings} == {canonical}


def test_a_canonical_record_keeps_type_call_and_direction():
    name = parse_record("Tensor.__iadd__.4.forward").canonical

    assert str(name) == "Tensor.add_.4.forward"


def test_nested_arguments_flatten_by_position_and_key():
    nested = [1, {"k": (2, None), "empty": {}}, [], "text", b"raw"]

    assert list(flatten("input.0", nested, ())) == [
        ("input.0.0", 1),
        ("input.0.1.k.0", 2),
        ("input.0.1.k.1", None),
        ("input.0.1.empty", {}),
        ("input.0.2", []),
        ("input.0.3", "text"),
        ("input.0.4", b"raw"),
    ]


@given(apis | modules)
def test_what_is_read_off_the_text_is_what_the_parts_say(name):
    text = str(name)

    assert parse_record(text) == name
    assert is_module_name(text) == name.is_module
    assert text.endswith(RECOMPUTE_MARK) == name.is_recompute
    assert family_of(text) == name.family
    assert without_call(text) == name.without_call
    if name.direction == "forward":
        assert backward_of(text) == str(name.backward)
    else:
        assert forward_of(text) == str(name.forward)


@pytest.mark.parametrize(
    ("forward", "backward"),
    [
        ("Functional.conv2d.1.forward", "Functional.conv2d.1.backward"),
        ("Attention.forward.0.forward", "Attention.forward.0.backward"),
        ("Module.forward.0.Linear.forward.2", "Module.forward.0.Linear.backward.2"),
        ("Functional.relu.0.forward#recompute", "Functional.relu.0.backward#recompute"),
    ],
)
def test_forward_and_backward_of_one_call_name_each_other(forward, backward):
    assert backward_of(forward) == backward
    assert forward_of(backward) == forward


def test_a_second_backward_belongs_to_the_same_forward():
    assert forward_of("Functional.relu.0.backward#2") == "Functional.relu.0.forward"
    assert str(parse_record("Functional.relu.0.backward#2").forward) == "Functional.relu.0.forward"


@pytest.mark.parametrize("name", ["x.forward.0.debug", "Module.forward.Linear.parameters_grad", "optimizer", ""])
def test_a_name_without_a_direction_has_no_other(name):
    assert backward_of(name) == forward_of(name) == name


@pytest.mark.parametrize(
    ("forward", "call"),
    [
        ("Functional.conv2d.0.forward", "Functional.conv2d.0"),
        ("Torch.linalg.norm.12.forward", "Torch.linalg.norm.12"),
        ("Torch.exp.3.forward#recompute", "Torch.exp.3#recompute"),
    ],
)
def test_a_call_is_named_without_its_direction(forward, call):
    assert call_of(forward) == call
    assert forward_of_call(call) == forward


@pytest.mark.parametrize("call", ["Functional.conv2d.0", "Functional*conv2d*0", "Functional_conv2d_0"])
def test_a_call_may_be_named_with_stars_and_underscores(call):
    assert forward_of_call(call) == "Functional.conv2d.0.forward"


def test_what_is_no_call_has_no_forward_record():
    with pytest.raises(RecordNameError):
        forward_of_call("nonsense")


def test_names_are_taken_apart_in_one_file():
    files = [file for file in SOURCE.rglob("*.py") if file.name != "naming.py"]
    others = {
        str(file.relative_to(SOURCE)): PARSED_BY_HAND.findall(file.read_text())
        for file in files
        if file.relative_to(SOURCE).parts[0] not in PACKAGES_TO_CONVERT
    }

    assert {file: lines for file, lines in others.items() if lines} == {}
