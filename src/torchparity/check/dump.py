"""Importing this file collects the calls of one iteration for the check, and ends the training after it.

import torchparity.check.dump                       # watches the DataLoader, records its second batch

import torchparity.check.dump as DP                 # for other loops: in every iteration
DP.dump.set_dump_switch("ON")

from torchparity.check.dump import msCheckerConfig  # before the training
msCheckerConfig.update_config(dump_path="my/dump/path", real_data=True, target_iter=3)

The import itself is the interface, as api_accuracy_checker has it; so this file alone keeps an object.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from torchparity.check.collection.collector import Collector
from torchparity.check.collection.settings import CollectionSettings
from torchparity.errors import ConfigError, with_nearest_option


class Dump:
    """The switch of the collection."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def set_dump_switch(self, switch: Literal["ON", "OFF"]) -> None:
        """Begin an iteration ("ON"), or leave out what comes ("OFF")."""
        if switch not in ("ON", "OFF"):
            raise ConfigError(f'set_dump_switch was given {switch!r}; it must be "ON" or "OFF".')
        if switch == "ON":
            self._collector.switch_on()
        else:
            self._collector.switch_off()


class CheckerConfig:
    """The settings of the collection."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    @with_nearest_option
    def update_config(
        self,
        dump_path: str | Path = "./",
        real_data: bool = False,
        enable_dataloader: bool = True,
        target_iter: int = 1,
        error_data_path: str | Path = "./",
    ) -> None:
        """Change where and what is collected; `dump_path` must exist. Call it before the training."""
        self._collector.configure(
            CollectionSettings(
                dump_path=dump_path,
                real_data=real_data,
                enable_dataloader=enable_dataloader,
                target_iter=target_iter,
                error_data_path=error_data_path,
            )
        )


_collector = Collector()
dump = Dump(_collector)
msCheckerConfig = CheckerConfig(_collector)
_collector.watch()
