"""ptdbg_ascend: register a hook, say where to record, and switch recording on and off.

    register_hook(model, acc_cmp_dump)
    set_dump_path("./npu_dump")
    set_dump_switch("ON", mode="api_stack")    # ... one iteration ...
    set_dump_switch("OFF")

The functions are the interface, as ptdbg_ascend has it; so this file keeps an object.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from torchparity.comparing import compare as compare_runs
from torchparity.comparing import compare_distributed as compare_ranks
from torchparity.compat.dumping import Dumping, HookedModels, folder_of
from torchparity.compat.ptdbg_debugger import PrecisionDebugger
from torchparity.compat.ptdbg_settings import (
    Asked,
    Mode,
    Switch,
    check_filter,
    check_switch,
    names_in,
    overflow_task,
    refuse_kernels,
)
from torchparity.compat.recorded import recorded_run
from torchparity.config import CaptureConfig
from torchparity.errors import ConfigError
from torchparity.randomness import seed_all

__all__ = [
    "PrecisionDebugger",
    "acc_cmp_dump",
    "compare",
    "compare_distributed",
    "overflow_check",
    "parse",
    "register_hook",
    "seed_all",
    "set_backward_input",
    "set_dump_path",
    "set_dump_switch",
    "set_overflow_check_switch",
]

_RUN_KEYS = {"npu_json_path": "npu_pkl_path", "bench_json_path": "bench_pkl_path"}


class Hook:
    """A name that stands for what `register_hook` is to do."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


acc_cmp_dump = Hook("acc_cmp_dump")
overflow_check = Hook("overflow_check")


class _Ptdbg:
    """The path, the hooked models and the runs that the functions share."""

    def __init__(self) -> None:
        self.models = HookedModels()
        self.path: Path | None = None
        self.switched_on: Dumping | None = None
        self.overflows: Dumping | None = None
        self._runs: dict[str, tuple[CaptureConfig, Dumping]] = {}  # by folder, all under one path

    def folder(self) -> Path:
        if self.path is not None:
            return self.path
        work = os.environ.get("ASCEND_WORK_PATH")
        return Path(work, "dump_data") if work else Path("ptdbg_dump")

    def hook(self, model: nn.Module) -> None:
        if self.models.add(model):
            for _, dumping in self._runs.values():
                dumping.see(model)

    def started(self, config: CaptureConfig) -> Dumping:
        """Record into the folder of a run, and go on with it where it was begun with the same settings."""
        before, dumping = self._runs.get(config.dump_path, (config, None))
        if before != config:
            raise ConfigError(
                f"{config.dump_path} was begun with other settings, and would be lost; "
                "call set_dump_path with another path first."
            )
        if dumping is None:
            dumping = Dumping(self.models)
            dumping.open(config)
        dumping.start()
        self._runs[config.dump_path] = config, dumping
        return dumping

    def switch_off(self) -> None:
        if self.switched_on is not None:
            self.switched_on.stop()
        self.switched_on = None

    def close(self) -> None:
        """Make every run whole."""
        for _, dumping in self._runs.values():
            dumping.close()
        self._runs.clear()
        self.switched_on = self.overflows = None


_ptdbg = _Ptdbg()


def set_dump_path(fpath: str | Path | None = None, dump_tag: str | None = None) -> None:
    """Record into a run at `fpath`, or into `dump_tag` in the folder of `fpath`; the run before is whole."""
    _ptdbg.close()
    path = folder_of(_ptdbg.folder() if fpath is None else fpath)
    _ptdbg.path = path.parent / dump_tag / path.name if dump_tag else path


def register_hook(
    model: nn.Module,
    hook: Hook,
    overflow_nums: int = 1,
    dump_mode: str = "api",
    dump_config: str | None = None,
    rank: int | None = None,
) -> None:
    """Record the calls of a model when `set_dump_switch` says so, or look for overflows from here on.

    `rank` is accepted; each process writes the folder of its own rank.
    """
    if hook not in (acc_cmp_dump, overflow_check):
        raise ConfigError(f"register_hook takes acc_cmp_dump or overflow_check, not {hook!r}.")
    refuse_kernels(dump_mode)
    _ptdbg.hook(model)
    if hook is overflow_check:
        found = overflow_task(overflow_nums)
        _ptdbg.overflows = _ptdbg.started(
            CaptureConfig(task="overflow_check", dump_path=str(_ptdbg.folder()), overwrite=True, overflow_check=found)
        )


def set_dump_switch(
    switch: Switch,
    mode: Mode = "all",
    scope: Sequence[str] | None = (),
    api_list: Sequence[str] | None = (),
    filter_switch: Switch = "OFF",
    dump_mode: str | Sequence[str] = "all",
    summary_only: bool = False,
) -> None:
    """Begin to record a step ("ON"), or end it ("OFF")."""
    check_switch("set_dump_switch", switch)
    check_filter(filter_switch)
    if switch == "OFF":
        _ptdbg.switch_off()
        return
    asked = Asked(mode, names_in("scope", scope), names_in("api_list", api_list), dump_mode, summary_only)
    dumping = _ptdbg.started(asked.config(_ptdbg.folder()))
    if dumping is not _ptdbg.switched_on:
        _ptdbg.switch_off()
    _ptdbg.switched_on = dumping


def set_overflow_check_switch(switch: Switch, filter_switch: Switch = "OFF") -> None:
    """Look for overflows from here on ("ON"), or leave out what comes ("OFF")."""
    check_switch("set_overflow_check_switch", switch)
    check_filter(filter_switch)
    if _ptdbg.overflows is None:
        if switch == "ON":
            raise ConfigError("nothing looks for overflows; call register_hook(model, overflow_check) first.")
    elif switch == "ON":
        _ptdbg.overflows.start()
    else:
        _ptdbg.overflows.pause()


def set_backward_input(backward_input: Sequence[str]) -> None:
    """Refuse to replay a kernel of an NPU, which is what this is for."""
    raise ConfigError("set_backward_input replays a kernel of an NPU, which torchparity does not see; use mode 'all'.")


def compare(
    input_param: Mapping[str, Any],
    output_path: str | Path,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    suffix: str = "",
    fuzzy_match: bool = False,
) -> None:
    """Compare two runs, and write the table and the advisor's file into `output_path`.

    `suffix` is accepted; the name of the table has the time in it.
    """
    _ptdbg.close()
    translated = {ours: str(recorded_run(_path(input_param, theirs))) for ours, theirs in _RUN_KEYS.items()}
    compare_runs(
        {**input_param, **translated},
        output_path,
        stack_mode=stack_mode,
        auto_analyze=auto_analyze,
        fuzzy_match=fuzzy_match,
    )


def compare_distributed(
    npu_dump_dir: str | Path,
    bench_dump_dir: str | Path,
    output_path: str | Path,
    *,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    suffix: str = "",
    fuzzy_match: bool = False,
) -> None:
    """Compare every rank of two step folders; `suffix` is accepted, as by `compare`."""
    _ptdbg.close()
    compare_ranks(
        recorded_run(npu_dump_dir),
        recorded_run(bench_dump_dir),
        output_path,
        stack_mode=stack_mode,
        auto_analyze=auto_analyze,
        fuzzy_match=fuzzy_match,
    )


def parse(pkl_file: str | Path, module_name_prefix: str) -> None:
    """Print the call stack and the statistics of every record whose name begins with a prefix."""
    from torchparity.report import terminal
    from torchparity.storage import open_run

    _ptdbg.close()
    run = open_run(recorded_run(pkl_file))
    prefixes = (module_name_prefix, module_name_prefix.replace("_", "."))
    names = set()
    for part in run.parts:
        for name, record in part.records.items():
            names.add(name)
            if name.startswith(prefixes):
                where = f"step {part.step}, rank {part.rank}"
                terminal.record(record, stack=part.stack_of(name), parent=part.construct.get(name), where=where)
    if not any(name.startswith(prefixes) for name in names):
        raise ConfigError(f"{pkl_file} has no record whose name begins with {module_name_prefix!r}.")


def _path(input_param: Mapping[str, Any], key: str) -> str | Path:
    path = input_param.get(key) if isinstance(input_param, Mapping) else None
    if not isinstance(path, (str, Path)):
        raise ConfigError(f"compare needs {key!r} with the path that set_dump_path was given.")
    return path
