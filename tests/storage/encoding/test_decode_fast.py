"""Records decoded the quick way are those that the long way gives."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchparity.errors import ParityError
from torchparity.storage.encoding.decode_any import MalformedError, record_from_json
from torchparity.storage.encoding.decode_fast import QuickDecoder, quick_entries

TENSOR = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3]}
NUMBERS = {"Max": 1.5, "Min": -1, "Mean": "nan", "Norm": None}

values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.sampled_from(["nan", "inf", "torch.x", "", "A" * 43, "A" * 86]),
)
keys = st.sampled_from(
    [
        "type", "dtype", "shape", "Max", "Min", "Mean", "Norm", "requires_grad", "md5", "data_name", "zero", "nan",
        "finite", "numel", "layout", "stored_in", "value", "group_ranks", "group_id", "format", "sketch",
    ]
)  # fmt: skip
kinds = st.sampled_from(
    ["torch.Tensor", "numpy.ndarray", "int", "float", "complex", "torch.Size", "torch.memory_format", "slice", ""]
)
shapes = st.lists(st.integers(-1, 5), max_size=3)
leaves = st.one_of(
    st.dictionaries(keys, values),
    st.builds(lambda more, kind, shape: {**TENSOR, "shape": shape, **more, "type": kind},
              st.dictionaries(keys, st.one_of(values, shapes)), kinds, shapes),
    st.builds(lambda more: {**TENSOR, **NUMBERS, **more}, st.dictionaries(keys, values, max_size=2)),
)  # fmt: skip
nests = st.recursive(st.one_of(leaves, values), lambda inner: st.lists(inner, max_size=3), max_leaves=4)
entries = st.dictionaries(
    st.sampled_from(["input_args", "input", "input_kwargs", "output", "output_kwargs", "parameters", "is_recompute",
                     "in_backward", "error", "seconds", "weight"]),
    st.one_of(nests, st.lists(nests, max_size=3), st.dictionaries(st.sampled_from(["weight", "type"]), nests)),
)  # fmt: skip
names = st.sampled_from(
    ["Torch.exp.0.forward", "Torch.exp.0.backward", "Module.a.B.forward.0", "Module.a.B.parameters_grad", "odd"]
)


def outcome(read, *arguments, **options):
    try:
        return repr(read(*arguments, **options))
    except MalformedError as error:
        return f"malformed: {error}"


@given(names, entries)
def test_any_record_is_read_alike(name, entry):
    content = msgspec.json.encode(entry)

    quick = outcome(QuickDecoder(Path("dump.json")).record, name, msgspec.Raw(content), debug=False)
    plain = outcome(record_from_json, name, msgspec.json.decode(content))

    assert quick == plain


def test_golden_records_are_read_alike(golden):
    for path in sorted((golden / "runs").rglob("dump.json")):
        found = quick_entries(path.read_bytes())
        if found is None:
            continue  # bare NaN, which only the long way round can read
        document = json.loads(path.read_bytes())

        decoder = QuickDecoder(path)
        quick = {name: outcome(decoder.record, name, entry, debug=False) for name, entry in found[1].items()}

        assert quick == {name: outcome(record_from_json, name, entry) for name, entry in document["data"].items()}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b'{"data": {"a": NaN}}', id="bare-nan"),
        pytest.param(b'{"data": {"a": "\xff"}}', id="no-utf-8"),
        pytest.param(b'{"data": {"a": {}', id="cut-off"),
        pytest.param(b'{"data": []}', id="no-records"),
        pytest.param(b"[]", id="no-object"),
    ],
)
def test_what_is_not_strict_goes_the_long_way(content):
    assert quick_entries(content) is None


def test_a_number_beyond_float64_is_infinite():
    entry = b'{"output": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [], "Max": 1e999}]}'

    record = QuickDecoder(Path("dump.json")).record("Torch.exp.0.forward", msgspec.Raw(entry), debug=False)

    assert math.isinf(record.output[0].statistics.max)


def test_what_is_nested_without_end_is_refused():
    entry = b'{"output": ' + b"[" * 5000 + b"]" * 5000 + b"}"

    with pytest.raises((ParityError, MalformedError)):
        QuickDecoder(Path("dump.json")).record("Torch.exp.0.forward", msgspec.Raw(entry), debug=False)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"format": "channels_last"}, id="named"),
        pytest.param({"format": None}, id="nothing"),
        pytest.param({}, id="left-out"),
        pytest.param({"value": "x", "format": "y"}, id="both"),
    ],
)
@pytest.mark.parametrize("name", ["Torch.exp.0.forward", "Module.a.B.parameters_grad"])
@pytest.mark.parametrize("kind", ["torch.memory_format", "numpy.ndarray", "int"])
def test_a_memory_format_is_read_alike(name, kind, more):
    entry = {"input_args": [{"type": kind, **more}]}

    quick = outcome(QuickDecoder(Path("x")).record, name, msgspec.Raw(msgspec.json.encode(entry)), debug=False)

    assert quick == outcome(record_from_json, name, entry)
