"""A run on disk: `RunWriter` writes it, `open_run` reads it, whichever tool wrote it.

    formats/     one file for each tensor format; `formats/__init__.py` has the contract
    reading/     parts of a run by step and rank, their records, call stacks and tensors
    writing/     the thread that owns the files, and what it is handed
    encoding/    records to JSON and back
    info_files/  forward_info, backward_info and stack_info of api_accuracy_checker
    files/       opening files that nobody vouches for
    pickles/     .pt files read as data, nothing in them is run
    shards/      safetensors files

The names load when they are first used: reading records needs no NumPy, which takes as long to load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchparity.lazy import lazy_names

if TYPE_CHECKING:
    from torchparity.storage.convert import Conversion, convert_run
    from torchparity.storage.encoding import EncodedRecord, OriginTable, record_to_json
    from torchparity.storage.files.stored_tensor import MappedTensor, StoredTensor
    from torchparity.storage.files.urls import run_path
    from torchparity.storage.formats import TensorFormat, TensorSink, TensorSource
    from torchparity.storage.info_files.info_part import InfoPart, open_info_files
    from torchparity.storage.info_files.info_writer import InfoWriter, write_info_files
    from torchparity.storage.info_files.run_ut_settings import collected_error_data_path, write_run_ut_settings
    from torchparity.storage.memory_part import MemoryPart
    from torchparity.storage.reading.layout import remove_part
    from torchparity.storage.reading.run_part import RunPart
    from torchparity.storage.reading.run_reader import RunReader, open_run
    from torchparity.storage.reading.summary import nonfinite_records, summarise
    from torchparity.storage.reading.tensor_folder import TensorFolder
    from torchparity.storage.writing.run_writer import RunWriter
    from torchparity.storage.writing.shared_tensor import SharedTensor
    from torchparity.storage.writing.space_limit import DiskUsage
    from torchparity.storage.writing.step_report import StepReport

__all__ = [
    "Conversion",
    "DiskUsage",
    "EncodedRecord",
    "InfoPart",
    "InfoWriter",
    "MappedTensor",
    "MemoryPart",
    "OriginTable",
    "RunPart",
    "RunReader",
    "RunWriter",
    "SharedTensor",
    "StepReport",
    "StoredTensor",
    "TensorFolder",
    "TensorFormat",
    "TensorSink",
    "TensorSource",
    "collected_error_data_path",
    "convert_run",
    "nonfinite_records",
    "open_info_files",
    "open_run",
    "record_to_json",
    "remove_part",
    "run_path",
    "summarise",
    "write_info_files",
    "write_run_ut_settings",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Conversion": "convert",
        "DiskUsage": "writing.space_limit",
        "EncodedRecord": "encoding",
        "InfoPart": "info_files.info_part",
        "InfoWriter": "info_files.info_writer",
        "MappedTensor": "files.stored_tensor",
        "MemoryPart": "memory_part",
        "OriginTable": "encoding",
        "RunPart": "reading.run_part",
        "RunReader": "reading.run_reader",
        "RunWriter": "writing.run_writer",
        "SharedTensor": "writing.shared_tensor",
        "StepReport": "writing.step_report",
        "StoredTensor": "files.stored_tensor",
        "TensorFolder": "reading.tensor_folder",
        "TensorFormat": "formats",
        "TensorSink": "formats",
        "TensorSource": "formats",
        "collected_error_data_path": "info_files.run_ut_settings",
        "convert_run": "convert",
        "nonfinite_records": "reading.summary",
        "open_info_files": "info_files.info_part",
        "open_run": "reading.run_reader",
        "record_to_json": "encoding",
        "remove_part": "reading.layout",
        "run_path": "files.urls",
        "summarise": "reading.summary",
        "write_info_files": "info_files.info_writer",
        "write_run_ut_settings": "info_files.run_ut_settings",
    },
)
