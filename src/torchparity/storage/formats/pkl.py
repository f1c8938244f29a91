"""ptdbg's format: one .npy file per tensor beside a .pkl of JSON lines; read only."""

from __future__ import annotations

from pathlib import Path

from torchparity.errors import ConfigError, InternalError
from torchparity.storage.formats import TensorFormat, TensorSink, TensorSource


class NpyFormat:
    """The .npy files of old ptdbg runs, which are only read."""

    suffix = ".npy"
    bare_nan = False
    is_writable = False

    def source(self, folder: Path) -> TensorSource:
        from torchparity.storage.files.npy import NpySource

        return NpySource(folder)

    def prepare_to_write(self) -> None:
        raise ConfigError("ptdbg's format (pkl) can only be read; write safetensors or pt.")

    def sink(self, folder: Path) -> TensorSink:
        raise InternalError("ptdbg's format has no writer.")


PLUGIN: TensorFormat = NpyFormat()
