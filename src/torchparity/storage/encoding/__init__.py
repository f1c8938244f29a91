"""Records as the JSON of dump.json; the door for whoever makes records out of other things than `Record`.

encode_record         a finished record, whatever is in it
assemble_record       a record whose arguments are JSON already, by the functions below
tensor_json           a tensor
argument_json         any argument but a tensor
encode_each           the JSON of each of many values
OriginTable           what the numbers of origins below zero stand for
"""

from torchparity.storage.encoding.encode import (
    EncodedRecord,
    EncodedStep,
    argument_json,
    assemble_record,
    encode_record,
    record_to_json,
    tensor_json,
)
from torchparity.storage.encoding.json_text import encode_each
from torchparity.storage.encoding.origins import OriginTable

__all__ = [
    "EncodedRecord",
    "EncodedStep",
    "OriginTable",
    "argument_json",
    "assemble_record",
    "encode_each",
    "encode_record",
    "record_to_json",
    "tensor_json",
]
