"""Records survive their JSON."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchparity import Record, TensorLeaf
from torchparity.records import GroupLeaf, Statistics, ValueLeaf
from torchparity.storage import record_to_json
from torchparity.storage.encoding.decode_any import record_from_json
from torchparity.storage.encoding.json_text import encode
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
