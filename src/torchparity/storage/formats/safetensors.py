"""Our own format: safetensors shards of about 128 MiB, equal tensors stored once, mapped when read."""

from __future__ import annotations

from pathlib import Path

from torchparity.storage.formats import TensorFormat, TensorSink, TensorSource


class SafetensorsFormat:
    """Shards written by `ShardSink`, read by `ShardSource`."""

    suffix = ".safetensors"
    bare_nan = False
    is_writable = True

    def source(self, folder: Path) -> TensorSource:
        from torchparity.storage.shards.shard_source import ShardSource

        return ShardSource(folder)

    def prepare_to_write(self) -> None:
        """Nothing is missing."""

    def sink(self, folder: Path) -> TensorSink:
        from torchparity.storage.shards.shard_writer import ShardSink

        return ShardSink(folder)


PLUGIN: TensorFormat = SafetensorsFormat()
