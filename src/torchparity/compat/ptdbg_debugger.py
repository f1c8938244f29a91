"""PrecisionDebugger as ptdbg_ascend 4 to 6 has it: made with a path, then told what to record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import msgspec
from torch import nn

from torchparity.compat.ptdbg_settings import Asked, Mode, Switch, check_filter, names_in, overflow_task
from torchparity.config import CaptureConfig
from torchparity.errors import ConfigError
from torchparity.recording import Session


class PrecisionDebugger:
    """Records a training, or looks for overflows in it; there is one per process."""

    _instance: ClassVar[PrecisionDebugger | None] = None

    def __init__(
        self,
        dump_path: str | Path | None = None,
        hook_name: Literal["dump", "overflow_check"] = "dump",
        rank: int | None = None,
        step: Sequence[int] | int = (),
        enable_dataloader: bool = False,
        model: nn.Module | None = None,
    ) -> None:
        if hook_name not in ("dump", "overflow_check"):
            raise ConfigError(f'hook_name is "dump" or "overflow_check", not {hook_name!r}.')
        if dump_path is None:
            raise ConfigError("PrecisionDebugger needs dump_path, the folder of the run.")
        if PrecisionDebugger._instance is not None:
            raise ConfigError("this process has a PrecisionDebugger already; there is one at a time.")
        self._path, self._hook_name, self._model = Path(dump_path), hook_name, model
        self._when = {
            "rank": [] if rank is None else [rank],
            "step": _steps(step),
            "enable_dataloader": enable_dataloader,
        }
        self._asked = Asked("api_stack")
        self._overflow = overflow_task(1)
        self._session: Session | None = None
        self._await_batches()
        PrecisionDebugger._instance = self

    def configure_hook(
        self,
        mode: Mode = "api_stack",
        scope: Sequence[str] = (),
        api_list: Sequence[str] = (),
        filter_switch: Switch = "OFF",
        acl_config: str | None = None,
        backward_input: Sequence[str] = (),
        input_output_mode: Sequence[str] = ("all",),
        summary_only: bool = False,
        summary_mode: Literal["all", "summary", "md5"] = "all",
        overflow_nums: int = 1,
        need_replicate: bool = False,
    ) -> None:
        """Say what to record; call it before the first `start`."""
        if self._session is not None and not self._session.is_new:
            raise ConfigError("configure_hook must come before the first start().")
        if summary_mode not in ("all", "summary", "md5"):
            raise ConfigError(f'summary_mode is "all", "summary" or "md5", not {summary_mode!r}.')
        check_filter(filter_switch)
        is_short = summary_only or summary_mode != "all"
        sides = names_in("input_output_mode", input_output_mode)
        names, parts = names_in("scope", scope), names_in("api_list", api_list)
        self._asked = Asked(mode, names, parts, sides, is_short, summary_mode == "md5")
        self._overflow = overflow_task(overflow_nums)
        self._await_batches()

    @classmethod
    def start(cls) -> None:
        """Begin to record."""
        self = cls._made("start")
        if self._session is None:
            self._session = Session(self._config())
        self._session.start(self._model)

    @classmethod
    def stop(cls) -> None:
        """Stop recording calls; gradients still arrive until `step`."""
        session = cls._made("stop")._session
        if session is not None:
            session.stop()

    @classmethod
    def step(cls) -> None:
        """End the step: write it, and count up."""
        session = cls._made("step")._session
        if session is not None:
            session.step()

    @classmethod
    def close(cls) -> None:
        """End the recording; another PrecisionDebugger may be made afterwards."""
        if cls._instance is not None and cls._instance._session is not None:
            cls._instance._session.close()
        PrecisionDebugger._instance = None

    @classmethod
    def _made(cls, method: str) -> PrecisionDebugger:
        if cls._instance is None:
            raise ConfigError(f"{method}() needs a PrecisionDebugger; make one first.")
        return cls._instance

    def _await_batches(self) -> None:
        """With `enable_dataloader`, record from the next batch on; nobody needs to call `start`."""
        if self._session is not None:
            self._session.close()
        self._session = Session(self._config()) if self._when["enable_dataloader"] else None

    def _config(self) -> CaptureConfig:
        config = self._asked.config(self._path)
        changes: dict[str, object] = {"dump_path": str(self._path), **self._when}
        if self._hook_name == "overflow_check":
            changes |= {"task": "overflow_check", "overflow_check": self._overflow}
        elif self._model is not None:
            changes["level"] = "L0"
        return msgspec.structs.replace(config, **changes)


def _steps(step: Sequence[int] | int) -> list[int]:
    steps = [step] if isinstance(step, int) else step
    if not isinstance(steps, Sequence) or not all(type(each) is int and each >= 0 for each in steps):
        raise ConfigError(f"step takes the numbers of steps, such as [0, 2], not {step!r}.")
    return list(steps)
