"""msprobe's format: one .pt file per tensor, as torch.save writes it; read without torch and without unpickling."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from torchparity.storage.formats import TensorFormat, TensorSink, TensorSource


class PtFormat:
    """One file per tensor, for exchange with msprobe."""

    suffix = ".pt"
    bare_nan = True
    is_writable = True

    def source(self, folder: Path) -> TensorSource:
        from torchparity.storage.pickles.pt_files import PtSource

        return PtSource(folder)

    def prepare_to_write(self) -> None:
        import_module("torchparity.tensors.torch_tensors")

    def sink(self, folder: Path) -> TensorSink:
        from torchparity.storage.pickles.pt_files import PtSink

        return PtSink(folder)


PLUGIN: TensorFormat = PtFormat()
