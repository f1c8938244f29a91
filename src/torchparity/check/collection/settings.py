"""Settings of a collection: which iteration, and where its files go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from torchparity.config import LARGEST_INDEX
from torchparity.errors import ConfigError
from torchparity.whole_file import with_home


@dataclass(frozen=True)
class CollectionSettings:
    """The settings of `msCheckerConfig.update_config`, with its names and defaults; raises for what cannot work."""

    dump_path: str | Path = "./"
    real_data: bool = False
    enable_dataloader: bool = True
    target_iter: int = 1
    error_data_path: str | Path = "./"

    def __post_init__(self) -> None:
        for name in ("real_data", "enable_dataloader"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"update_config: {name} is {getattr(self, name)!r}; it must be True or False.")
        if type(self.target_iter) is not int or not 0 <= self.target_iter <= LARGEST_INDEX:
            raise ConfigError(
                f"update_config: target_iter is {self.target_iter!r}; it must be one whole number from 0 to "
                f"{LARGEST_INDEX}, where 0 is the first iteration."
            )
        for name in ("dump_path", "error_data_path"):
            if not isinstance(getattr(self, name), (str, os.PathLike)):
                raise ConfigError(f"update_config: {name} is {getattr(self, name)!r}; give a folder as text.")
        if not self.folder.is_dir():
            raise ConfigError(f"update_config: dump_path {str(self.dump_path)!r} is no folder; make it first.")

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return with_home(self.dump_path)

    @property
    def error_data_folder(self) -> Path | None:
        """The folder in which run_ut shall save what fails; None: the one that it is started in."""
        given = with_home(self.error_data_path)
        return None if given == Path() else given
