"""The tensors of one folder, in whichever formats they are."""

from __future__ import annotations

from functools import cache
from os.path import splitext
from pathlib import Path
from typing import TYPE_CHECKING

from torchparity import plugins
from torchparity.storage.files.urls import UrlPath
from torchparity.storage.formats import TensorSource, load_format

if TYPE_CHECKING:
    from torchparity.records import TensorLeaf
    from torchparity.storage.files.stored_tensor import StoredTensor


class TensorFolder:
    """Reads tensors by the leaves that describe them; a copy that is sent to another process opens its own files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sources: dict[str, TensorSource] = {}

    def __reduce__(self) -> tuple[type[TensorFolder], tuple[Path]]:
        return TensorFolder, (self.path,)

    @property
    def is_remote(self) -> bool:
        """True where it lies on an object store."""
        return isinstance(self.path, UrlPath)

    def source_of(self, leaf: TensorLeaf) -> TensorSource:
        """Return what reads a tensor that has data in this folder."""
        suffix = ".safetensors" if leaf.stored_in else splitext(leaf.data_name or "")[1]
        kind = _formats_by_suffix().get(suffix, "pt")
        if kind not in self._sources:
            self._sources[kind] = load_format(kind).source(self.path)
        return self._sources[kind]

    def stored(self, leaf: TensorLeaf) -> StoredTensor:
        """Return a tensor, mapped but not checked, with the checksum its bytes should have."""
        return self.source_of(leaf).stored(leaf)

    def release(self) -> None:
        """Close the files; they are opened again when something of theirs is asked for."""
        self._sources.clear()


@cache
def _formats_by_suffix() -> dict[str, str]:
    return {load_format(name).suffix: name for name in plugins.names("storage.formats")}
