"""Records as the JSON of dump.json; the door for whoever makes records out of other things than `Record`.

encode_record         a finished record, whatever is in it
assemble_record       a record whose arguments are JSON already, by the functions below
tensor_json           a tensor
finite_tensor_json    the same for nearly every tensor, faster: all its values are finite
argument_json         any argument but a tensor
OriginTable           what the numbers of origins below zero stand for
"""

from torchparity.storage.encoding.encode import (
    EncodedRecord,
    argument_json,
    assemble_record,
    encode_record,
    finite_tensor_json,
    record_to_json,
    tensor_json,
)
from torchparity.storage.encoding.origins import OriginTable

__all__ = [
    "EncodedRecord",
    "OriginTable",
    "argument_json",
    "assemble_record",
    "encode_record",
    "finite_tensor_json",
    "record_to_json",
    "tensor_json",
]
