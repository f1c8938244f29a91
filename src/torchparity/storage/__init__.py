"""A run on disk: `RunWriter` writes it, `open_run` reads it, whichever tool wrote it.

Plugin folder: each `x.py` is a tensor format and its `PLUGIN` a `TensorFormat`: a file
suffix, a `source` that reads the tensors of one folder and a `sink` that writes them. A
source returns mapped bytes after checking that they are what the record says; it runs
nothing that a file asks for. A sink is used by one thread and may keep what it is given
until `close`. `_x.py` is machinery; `_torch.py` alone imports torch.
"""

from torchparity.storage._convert import Conversion, convert_run
from torchparity.storage._encoding import (
    EncodedRecord,
    encoded,
    encoded_leaves,
    encoded_tensor,
    encoded_value,
    record_to_json,
)
from torchparity.storage._formats import TensorFormat, TensorSink, TensorSource
from torchparity.storage._run_reader import RunPart, RunReader, open_run
from torchparity.storage._run_writer import RunWriter
from torchparity.storage._shared import SharedTensor
from torchparity.storage._summary import nonfinite_records, summarise

__all__ = [
    "Conversion",
    "EncodedRecord",
    "RunPart",
    "RunReader",
    "RunWriter",
    "SharedTensor",
    "TensorFormat",
    "TensorSink",
    "TensorSource",
    "convert_run",
    "encoded",
    "encoded_leaves",
    "encoded_tensor",
    "encoded_value",
    "nonfinite_records",
    "open_run",
    "record_to_json",
    "summarise",
]
