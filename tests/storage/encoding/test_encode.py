"""Records survive their JSON."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchparity import Record, TensorLeaf
from torchparity.records import GroupLeaf, Statistics, ValueLeaf
from torchparity.storage import record_to_json
from torchparity.storage.encoding import tensor_json
from torchparity.storage.encoding.decode_any import MalformedError, record_from_json
from torchparity.storage.encoding.decode_fast import QuickDecoder
from torchparity.storage.encoding.encode import leaf_to_json
from torchparity.storage.encoding.finite_tensors import finite_tensor, finite_tensors_json
from torchparity.storage.encoding.json_text import encode, encode_each
from torchparity.tensors import DTYPES

shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)

numbers = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(2**70), 2**70) | st.booleans() | st.none()

leaves = st.one_of(
    st.none(),
    st.builds(
        ValueLeaf,
        st.sampled_from(["int", "bool", "str", "torch.dtype", "torch.device", "Ellipsis"]),
        st.none() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    ),
    st.builds(ValueLeaf, st.just("float"), st.floats()),
    st.builds(ValueLeaf, st.just("complex"), st.tuples(st.floats(), st.floats()).map(list)),
    st.builds(ValueLeaf, st.just("slice"), st.lists(st.none() | st.integers(), min_size=3, max_size=3)),
    st.builds(GroupLeaf, ranks=st.lists(st.integers(0, 99)).map(tuple), id=st.none() | st.text(max_size=4)),
    st.builds(
        TensorLeaf,
        dtype=st.sampled_from(sorted(DTYPES)),
        shape=shapes,
        statistics=st.none() | st.builds(Statistics, max=numbers, min=numbers, mean=numbers, norm=numbers),
        requires_grad=st.none() | st.booleans(),
        checksum=st.none() | st.just("a5305148"),
    ),
)

keys = st.text(min_size=1, max_size=5)

nests = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(nests, max_size=3), st.dictionaries(keys, nests, max_size=3), st.lists(nests, max_size=3), st.booleans()
)
def test_records_survive_their_json(arguments, keywords, output, is_recompute):
    import json

    record = Record(
        name="Torch.add.0.forward",
        direction="forward",
        input_args=arguments,
        input_kwargs=keywords,
        output=output,
        is_recompute=is_recompute,
        seconds=0.5,
    )

    text = encode(record_to_json(record))
    read = record_from_json(record.name, json.loads(text, parse_constant=lambda name: pytest.fail(f"bare {name}")))

    assert encode(record_to_json(read)) == text
    assert [item.name for item in read.items()] == [item.name for item in record.items()]
    assert repr(read) == repr(record)


finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
sketches = st.none() | st.binary(min_size=32, max_size=32) | st.binary(min_size=64, max_size=64)


@given(st.builds(Statistics.of_finite, finite, finite, finite, finite, st.integers(0, 9), sketches), st.booleans())
@settings(deadline=None)
def test_a_sketch_survives_both_ways_of_writing_and_of_reading(statistics, is_stored):
    leaf = TensorLeaf(dtype="torch.float32", shape=(3, 3), statistics=statistics, requires_grad=False)
    written = tensor_json(leaf)
    if is_stored:
        leaf = msgspec.structs.replace(leaf, data_name="a.pt")
        written = msgspec.Raw(encode(record_to_json(Record(name="a", direction="debug", value=leaf))))
    entry = msgspec.Raw(b'{"input_args":[' + bytes(written) + b'],"input_kwargs":{},"output":[],"is_recompute":false}')

    quick = QuickDecoder(Path("dump.json")).record("Torch.exp.0.forward", entry, debug=False)
    slow = record_from_json("Torch.exp.0.forward", msgspec.json.decode(entry))

    assert quick.input_args == slow.input_args == [leaf]
    assert b"=" not in bytes(written)


def test_counts_of_zero_are_left_out_beside_a_sketch_alone():
    with_sketch, without = (Statistics.of_finite(1.0, 1.0, 1.0, 2.0, 0, sketch) for sketch in (bytes(32), None))
    nonfinite = Statistics(*[math.nan] * 4, 1.0, 1.0, 1.0, 2.0, 1, 0, 0, 0, bytes(64))
    entries = [
        msgspec.json.decode(tensor_json(TensorLeaf(dtype="torch.float32", shape=(4,), statistics=statistics)))
        for statistics in (with_sketch, without, nonfinite)
    ]

    assert ["zero" in entry for entry in entries] == [False, True, False]
    assert [len(entry.get("sketch", "")) for entry in entries] == [43, 0, 86]
    back = [record_from_json("a.b.0.forward", {"input_args": [entry]}).input_args[0].statistics for entry in entries]
    assert back[:2] == [with_sketch, without]
    assert (back[2].nan_count, back[2].zero_count, back[2].sketch) == (1, 0, bytes(64))


@pytest.mark.parametrize("sketch", ["", "AAAA", "A" * 44, 5, ["A"], "é" * 43])
def test_a_sketch_of_another_size_is_malformed(sketch):
    entry = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "sketch": sketch}

    with pytest.raises(MalformedError, match="sketch"):
        record_from_json("Torch.exp.0.forward", {"input_args": [entry]})


def test_tensors_encoded_together_have_the_entries_of_each_alone():
    finite = st.floats(allow_nan=False, allow_infinity=False)
    sketches = st.none() | st.binary(min_size=32, max_size=32) | st.binary(min_size=64, max_size=64)
    counts, origins = st.integers(0, 3), st.none() | st.integers(-9, 9)

    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.tuples(shapes, finite, finite, counts, sketches, origins, st.none() | st.just("a5305148"))))
    def check(rows):
        leaves = [
            TensorLeaf(
                dtype="torch.float32",
                shape=(2, *shape),
                statistics=Statistics.of_finite(most, -most, 0.25, norm, zeros, sketch),
                requires_grad=True,
                checksum=checksum,
                origin=origin,
            )
            for shape, most, norm, zeros, sketch, origin, checksum in rows
            if 0 not in shape
        ]
        entries = [
            finite_tensor(leaf.dtype, leaf.shape, leaf.statistics, True, leaf.checksum, leaf.origin) for leaf in leaves
        ]
        texts = [bytes(text) for text in finite_tensors_json(entries)]
        assert texts == [encode(leaf_to_json(leaf)) for leaf in leaves]

    check()


def test_texts_encoded_together_lose_half_a_surrogate_pair_alone():
    assert encode_each(["a\nb", ["c"], 1.5]) == [b'"a\\nb"', b'["c"]', b"1.5"]
    assert encode_each(["a", "\ud800"]) == [b'"a"', b'"?"']
    assert encode_each([]) == []
