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
    from torchparity.storage.convert import Conversion, convert_run
    from torchparity.storage.encoding.encode import (
        EncodedRecord,
        encoded,
        encoded_record,
        encoded_tensor,
        encoded_usual,
        encoded_value,
        record_to_json,
    )
    from torchparity.storage.formats import TensorFormat, TensorSink, TensorSource
    from torchparity.storage.reading.run_reader import RunPart, RunReader, open_run
    from torchparity.storage.reading.summary import nonfinite_records, summarise
    from torchparity.storage.shared_tensor import SharedTensor
    from torchparity.storage.writing.run_writer import RunWriter
    from torchparity.storage.writing.space_limit import DiskUsage
    from torchparity.storage.writing.step_report import StepReport

__all__ = [
    "Conversion",
    "DiskUsage",
    "EncodedRecord",
    "RunPart",
    "RunReader",
    "RunWriter",
    "SharedTensor",
    "StepReport",
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
    "Conversion": "convert",
    "DiskUsage": "writing.space_limit",
    "EncodedRecord": "encoding.encode",
    "RunPart": "reading.run_reader",
    "RunReader": "reading.run_reader",
    "RunWriter": "writing.run_writer",
    "SharedTensor": "shared_tensor",
    "StepReport": "writing.step_report",
    "TensorFormat": "formats",
    "TensorSink": "formats",
    "TensorSource": "formats",
    "convert_run": "convert",
    "encoded": "encoding.encode",
    "encoded_record": "encoding.encode",
    "encoded_tensor": "encoding.encode",
    "encoded_usual": "encoding.encode",
    "encoded_value": "encoding.encode",
    "nonfinite_records": "reading.summary",
    "open_run": "reading.run_reader",
    "record_to_json": "encoding.encode",
    "summarise": "reading.summary",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'torchparity.storage' has no attribute {name!r}")
    return getattr(import_module(f"torchparity.storage.{_HOME[name]}"), name)
