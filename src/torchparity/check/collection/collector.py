"""The collection of one iteration: it is recorded, written as forward_info and its kin, and ends the training."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import suppress

from torch.utils.data import get_worker_info

from torchparity.check.collection.settings import CollectionSettings
from torchparity.config import CaptureConfig
from torchparity.errors import ConfigError
from torchparity.recording.in_memory import handing_session
from torchparity.recording.process import close_at_exit
from torchparity.recording.session import Session
from torchparity.storage import InfoWriter, MemoryPart, write_run_ut_settings
from torchparity.text import counted

_log = logging.getLogger("torchparity")


class Collector:
    """Records iteration `target_iter`, counted by a DataLoader's batches or by calls of `switch_on`."""

    def __init__(self, settings: CollectionSettings | None = None) -> None:
        self._settings = settings or CollectionSettings()
        self._session: Session | None = None
        self._writer: InfoWriter | None = None
        self._switched = 0  # iterations that the switch began
        self._is_replacing = False
        self._is_told = False  # how it ended

    def watch(self) -> None:
        """Wait for the iteration; a DataLoader's batches are counted from here on."""
        self._replace_session(by_loader=self._settings.enable_dataloader)
        close_at_exit(self)

    def configure(self, settings: CollectionSettings) -> None:
        """Change the settings, before the first iteration."""
        if self._session is None or not self._session.is_new:
            raise ConfigError("update_config came after the first iteration began; call it before the training.")
        self._settings = settings
        self._replace_session(by_loader=settings.enable_dataloader)

    def switch_on(self) -> None:
        """Begin an iteration; without a DataLoader's batches this counts them.

        With `enable_dataloader` the iteration before it is over, and after `target_iter` so is the training.
        Without, everything is recorded from here on.
        """
        session, settings = self._session, self._settings
        if session is None or self._is_told:
            return
        if not settings.enable_dataloader:
            session.start()
            self._switched = 1
            return
        if not self._switched:
            if not session.is_new:
                return  # a DataLoader counts
            session = self._replace_session(by_loader=False)
        else:
            session.step()
        if self._switched > settings.target_iter:
            session.close()
            raise _ending(settings.target_iter)
        self._switched += 1
        session.start()

    def switch_off(self) -> None:
        """Leave out what comes, until `switch_on`."""
        if self._session is not None and self._switched and not self._is_told:
            self._session.stop()

    def close(self, error: BaseException | None = None) -> None:
        """Write what there is, and say what came of it; `error` ended the training."""
        if self._session is not None:
            self._session.close(error)

    def _replace_session(self, *, by_loader: bool) -> Session:
        if self._session is not None:
            self._is_replacing = True
            self._session.close()
            self._is_replacing = False
        settings = self._settings
        config = CaptureConfig(
            task="tensor" if settings.real_data else "statistics",
            level="L1",
            step=[settings.target_iter] if settings.enable_dataloader else [],
            enable_dataloader=by_loader,
        )
        self._session = handing_session(config, take=self._write, end=self._tell_end, ending=_ending)
        return self._session

    def _write(self, part: MemoryPart) -> None:
        settings = self._settings
        self._writer = InfoWriter(settings.folder, os.getpid(), real_data=settings.real_data)
        self._writer.add(part)
        if settings.error_data_folder is not None:
            write_run_ut_settings(self._writer.forward, settings.error_data_folder)

    def _tell_end(self, missing: Sequence[str]) -> None:
        if self._is_replacing or self._is_told or get_worker_info() is not None:
            return  # a worker of a DataLoader may import the script, and trains nothing
        self._is_told = True
        line = self._closing_line(missing)
        _log.info("%s", line)
        with suppress(OSError, ValueError):  # nobody reads it, or the terminal has no such letter
            print(line)  # noqa: T201 - the one line at the end

    def _closing_line(self, missing: Sequence[str]) -> str:
        settings, writer = self._settings, self._writer
        if writer is not None:
            calls, gradients = writer.counts
            which = f" of iteration {settings.target_iter}" if settings.enable_dataloader else ""
            left_out = f" Left out: {' '.join(missing)}" if missing else ""
            return (
                f"torchparity: {counted(calls, 'call')}{which} collected, {gradients} with gradients; next: "
                f"torchparity run_ut -forward {writer.forward} -backward {writer.backward}{left_out}"
            )
        advice = 'or call DP.dump.set_dump_switch("ON") in every iteration where no DataLoader is used'
        if not settings.enable_dataloader:
            return 'torchparity: nothing was collected: DP.dump.set_dump_switch("ON") was never called.'
        why = f" ({' '.join(missing).removesuffix('.')})" if missing else ""
        return (
            f"torchparity: nothing was collected: iteration {settings.target_iter} never came{why}; "
            f"give update_config a target_iter that comes, {advice}."
        )


def _ending(iteration: int) -> Exception:
    """Return what ends the training; scripts and people look for this very text and for no class of ours."""
    return Exception(f"Model pretest: exit after iteration {iteration}.")
