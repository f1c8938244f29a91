"""Records as the JSON of dump.json; the door for whoever makes records out of other things than `Record`.

encode_record         a finished record, whatever is in it
assemble_record       a record whose arguments are JSON already, by the functions below
tensor_json           a tensor
finite_tensor         the entry of nearly every tensor: all its values are finite
finite_tensors_json   many of those, faster
argument_json         any argument but a tensor
OriginTable           what the numbers of origins below zero stand for
"""

from torchparity.storage.encoding.encode import (
    EncodedRecord,
    argument_json,
    assemble_record,
    encode_record,
    record_to_json,
    tensor_json,
)
from torchparity.storage.encoding.finite_tensors import finite_tensor, finite_tensors_json
from torchparity.storage.encoding.origins import OriginTable

__all__ = [
    "EncodedRecord",
    "OriginTable",
    "argument_json",
    "assemble_record",
    "encode_record",
    "finite_tensor",
    "finite_tensors_json",
    "record_to_json",
    "tensor_json",
]
