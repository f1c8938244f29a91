"""Settings of ptdbg_ascend, translated into those of torchparity."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import msgspec

from torchparity.config import CaptureConfig, OverflowTask, StatisticsTask, TensorTask
from torchparity.errors import ConfigError, RecordNameError, nearest
from torchparity.naming import parse_record

Switch = Literal["ON", "OFF"]
Mode = Literal["all", "list", "range", "stack", "api_list", "api_stack", "acl"]
_SIDES = ("all", "forward", "backward", "input", "output")
_KERNELS = "records kernels of an NPU, which torchparity does not see; use 'api_stack'"

_log = logging.getLogger("torchparity")


@dataclass(frozen=True)
class Asked:
    """The calls to record, and what to keep of them, as `set_dump_switch` and `configure_hook` say it."""

    mode: Mode = "all"
    scope: Sequence[str] = ()
    api_list: Sequence[str] = ()
    sides: str | Sequence[str] = "all"
    summary_only: bool = False
    checksums: bool = False

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            there_are = ", ".join(get_args(Mode))
            raise ConfigError(
                f"mode {self.mode!r} does not exist.{nearest(str(self.mode), get_args(Mode))} There are: {there_are}."
            )
        if self.mode == "acl":
            raise ConfigError(f"mode 'acl' {_KERNELS}.")
        if self.mode == "list" and not self.scope:
            raise ConfigError("mode 'list' needs scope: the names of the calls, such as ['Torch.relu.3.backward'].")
        if self.mode in ("range", "stack") and len(self.scope) not in ((2,) if self.mode == "range" else (0, 2)):
            raise ConfigError(f"mode {self.mode!r} takes two names in scope, the first call and the last.")
        if self.mode == "api_list" and not self.api_list:
            raise ConfigError("mode 'api_list' needs api_list: texts in the names of calls, such as ['relu'].")

    def folder(self, path: Path) -> Path:
        """Return the folder of the run: the mode stands before its name, but for mode `all`."""
        return path if self.mode == "all" else path.with_name(f"{self.mode}_{path.name}")

    def config(self, path: Path) -> CaptureConfig:
        """Return the settings of the recording."""
        names = [_our_name(name) for name in self.scope]
        scope = names if self.mode in ("range", "stack") else []
        listed = names if self.mode == "list" else list(self.api_list) if self.mode == "api_list" else []
        return CaptureConfig(
            task="structure" if self.mode == "stack" else "statistics" if self.summary_only else "tensor",
            level="L1",
            dump_path=str(self.folder(path)),
            overwrite=True,
            statistics=msgspec.convert(self._block(scope, listed), StatisticsTask),
            tensor=msgspec.convert(self._block(scope, listed), TensorTask),
        )

    def _block(self, scope: Sequence[str], listed: Sequence[str]) -> dict[str, object]:
        sides = [self.sides] if isinstance(self.sides, str) else list(self.sides)
        for side in sides:
            if side not in _SIDES:
                raise ConfigError(f"dump_mode {side!r} does not exist. There are: {', '.join(_SIDES)}.")
        summary_mode = "md5" if self.checksums else "statistics"
        return {"scope": scope, "list": listed, "data_mode": sides, "summary_mode": summary_mode}


def names_in(setting: str, names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of a setting; one name may stand without a list around it."""
    if names is None or isinstance(names, str):
        return () if not names else (names,)
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{setting} takes a list of names, such as ['Torch.relu.3.forward'], not {names!r}.")
    return tuple(names)


def overflow_task(overflow_nums: int) -> OverflowTask:
    """Return the settings of an overflow check that stops the training."""
    if type(overflow_nums) is not int or overflow_nums < -1 or overflow_nums == 0:
        raise ConfigError(f"overflow_nums is a whole number from 1, or -1 for no limit, not {overflow_nums!r}.")
    return OverflowTask(overflow_nums=overflow_nums, stop_training=True)


def check_switch(function: str, switch: object) -> None:
    """Raise `ConfigError` where a switch is neither on nor off."""
    if switch not in get_args(Switch):
        raise ConfigError(f'{function} was given {switch!r}; it must be "ON" or "OFF".')


def check_filter(filter_switch: object) -> None:
    """Say that whole numbers and truth values are recorded, whatever the filter says."""
    check_switch("filter_switch", filter_switch)
    if filter_switch == "ON":
        _log.info("torchparity: filter_switch has no effect; tensors of whole numbers and truth values are recorded")


def refuse_kernels(dump_mode: str) -> None:
    """Raise `ConfigError` where kernels are asked for in place of APIs."""
    if dump_mode != "api":
        reason = _KERNELS.replace("'api_stack'", "'api'") if dump_mode == "acl" else "does not exist; use 'api'"
        raise ConfigError(f"dump_mode {dump_mode!r} {reason}.")


def _our_name(name: str) -> str:
    """Return the name of a call as runs have it; ptdbg_ascend writes Functional_conv2d_1_forward."""
    try:
        return str(parse_record(name))
    except RecordNameError:
        return name
