"""A run on disk: `RunWriter` writes it, `open_run` reads it, whichever tool wrote it.

Plugin folder: each `x.py` is a tensor format and its `PLUGIN` a `TensorFormat`: a file
suffix, a `source` that reads the tensors of one folder and a `sink` that writes them. A
source returns mapped bytes after checking that they are what the record says; it runs
nothing that a file asks for. A sink is used by one thread and may keep what it is given
until `close`. `_x.py` is machinery; `_torch.py` alone imports torch.

The names load when they are first used: reading records needs no NumPy, which takes as long to load.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchparity.storage._convert import Conversion, convert_run
    from torchparity.storage._encoding import (
        EncodedRecord,
        encoded,
        encoded_record,
        encoded_tensor,
        encoded_usual,
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
    "encoded_record",
    "encoded_tensor",
    "encoded_usual",
    "encoded_value",
    "nonfinite_records",
    "open_run",
    "record_to_json",
    "summarise",
]

_HOME = {
    "Conversion": "_convert",
    "EncodedRecord": "_encoding",
    "RunPart": "_run_reader",
    "RunReader": "_run_reader",
    "RunWriter": "_run_writer",
    "SharedTensor": "_shared",
    "TensorFormat": "_formats",
    "TensorSink": "_formats",
    "TensorSource": "_formats",
    "convert_run": "_convert",
    "encoded": "_encoding",
    "encoded_record": "_encoding",
    "encoded_tensor": "_encoding",
    "encoded_usual": "_encoding",
    "encoded_value": "_encoding",
    "nonfinite_records": "_summary",
    "open_run": "_run_reader",
    "record_to_json": "_encoding",
    "summarise": "_summary",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'torchparity.storage' has no attribute {name!r}")
    return getattr(import_module(f"torchparity.storage.{_HOME[name]}"), name)
