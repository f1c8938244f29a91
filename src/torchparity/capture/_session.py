"""A recording from its first start to its end: what is watched, when, and where it is written."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import _pop_mode, _push_mode

from torchparity.capture._apis import ApiTable
from torchparity.capture._boundary import Boundary
from torchparity.capture._distributed import CollectiveWatcher
from torchparity.capture._drafts import Draft
from torchparity.capture._meter import Kept, Meter
from torchparity.capture._modules import ModuleWatcher
from torchparity.capture._recorder import Recorder
from torchparity.capture._selection import Selection
from torchparity.capture._stacks import StackBook
from torchparity.capture._watcher import ApiWatcher
from torchparity.config import CaptureConfig, StatisticsTask, TensorTask
from torchparity.errors import ConfigError, ParityError
from torchparity.naming import counted
from torchparity.storage import RunWriter, SharedTensor

_log = logging.getLogger("torchparity")
Models = nn.Module | Sequence[nn.Module]


class Session:
    """Records the steps of one process.

    What is asked for wrongly raises at once, as long as nothing is being trained under it;
    whatever goes wrong later is logged and the training goes on without recording.
    """

    def __init__(self, config: CaptureConfig) -> None:
        self._config = config
        block: StatisticsTask | TensorTask = config.tensor if config.task == "tensor" else config.statistics
        if config.task not in ("statistics", "tensor", "structure"):
            raise ConfigError(f"task {config.task!r} is not a recording; use 'statistics', 'tensor' or 'structure'.")
        kept = Kept(
            checksum=block.summary_mode in ("md5", "xor"),
            values=config.task == "tensor",
            by_shape=config.tensor.tensor_format == "pt",
        )
        self._boundary = Boundary()
        self._recorder = Recorder(
            Meter(kept, exact=config.precision == "high", store=None if kept.by_shape else self._store),
            Selection(scope=block.scope, names=block.list, data_mode=block.data_mode),
            self._boundary,
            StackBook() if config.extra_info else None,
        )
        self._level = "mix" if config.task == "structure" else config.level
        apis = ApiTable(views=config.views or config.risk_level == "ALL", core_only=config.risk_level == "CORE")
        self._apis = ApiWatcher(self._recorder, apis)
        self._modules = ModuleWatcher(self._recorder, records=self._level in ("L0", "mix"))
        self._collectives = CollectiveWatcher(self._recorder)
        self._optimizer_hooks: list[Any] = []
        self._writer: RunWriter | None = None
        self._step = 0
        self._has_data = False
        self._is_writing_step = False
        self._is_over = False
        self._counts = {"records": 0, "steps": 0}
        self._point_numbers: dict[str, int] = {}

    @property
    def step_number(self) -> int:
        return self._step

    def set_init_step(self, step: int) -> None:
        if self._counts["steps"] or self._has_data:
            raise ConfigError("set_init_step must come before the first start().")
        self._step = step

    def start(self, model: Models | None = None, rank: int | None = None) -> None:
        """Begin to record; may be called again after `stop`, within a step or in the next."""
        if self._is_over or self._recorder.is_recording:
            return
        if self._level in ("L0", "mix") and model is None:
            raise ConfigError(f"level {self._level!r} records modules, so start() needs the model: start(model=...).")
        if model is not None and not isinstance(model, nn.Module) and not all(isinstance(m, nn.Module) for m in model):
            raise ConfigError(f"start(model=...) takes a module or a list of modules, not a {type(model).__name__}.")
        if not self._is_wanted(rank):
            return
        if self._writer is None:
            self._open_writer(_rank() if rank is None else rank)
        self._recorder.is_recording = True
        if self._level == "debug":
            return
        if model is not None:
            self._modules.attach(model)
        if self._level in ("L1", "mix"):
            self._apis.__enter__()  # type: ignore[no-untyped-call]
            self._collectives.attach()
        self._optimizer_hooks = [
            register_optimizer_step_pre_hook(self._enter_optimizer),
            register_optimizer_step_post_hook(self._leave_optimizer),
        ]

    def stop(self) -> None:
        """Stop watching calls; gradients of what was recorded still arrive until `step`."""
        if not self._recorder.is_recording:
            return
        self._recorder.is_recording = False
        self._has_data = True
        for hook in self._optimizer_hooks:
            hook.remove()
        self._optimizer_hooks.clear()
        self._recorder.parents.clear()
        if self._level in ("L1", "mix"):
            _remove_mode(self._apis)
            self._collectives.detach()

    def step(self) -> None:
        """End a step: write what it recorded, and count on."""
        was_recording = self._recorder.is_recording
        self.stop()
        self._modules.detach()
        if self._has_data or was_recording:
            self._write_step()
        self._has_data = False
        self._step += 1
        self._modules.begin_step()
        self._recorder.selection.begin_step()
        self._point_numbers.clear()

    def close(self) -> None:
        """Write what is left, wait for the disk and say in one line what there is."""
        if self._is_over:
            return
        if self._recorder.is_recording or self._has_data:
            self.step()
        self._is_over = True
        if self._writer is not None:
            self._end_writing(self._writer)

    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Record one value by hand, and its gradient."""
        if not self._recorder.is_recording:
            return
        number = self._point_numbers.get(name, 0)
        self._point_numbers[name] = number + 1
        self._boundary.run(name, lambda: self._save(variable, name, number, save_backward))

    def _save(self, variable: Any, name: str, number: int, save_backward: bool) -> None:
        draft = Draft(f"{name}.{number}.debug", "debug")
        draft.value = self._recorder.observer.nest(variable)
        self._recorder.meter.flush()
        self._recorder.add(draft, None)
        if save_backward and isinstance(variable, torch.Tensor) and variable.requires_grad:
            generation = self._recorder.generation

            def arrived(gradient: torch.Tensor) -> None:
                if generation == self._recorder.generation:
                    self._boundary.run(name, lambda: self._save(gradient, f"{name}_grad", number, False))

            self._recorder.remove_at_step(variable.register_hook(arrived))  # type: ignore[no-untyped-call]

    def _is_wanted(self, rank: int | None) -> bool:
        own = _rank() if rank is None else rank
        wanted_step = not self._config.step or self._step in self._config.step
        return wanted_step and (not self._config.rank or own in self._config.rank)

    def _open_writer(self, rank: int) -> None:
        self._writer = RunWriter(
            Path(self._config.dump_path),
            task=self._config.task,
            level=self._level,
            rank=rank,
            tensor_format=self._config.tensor.tensor_format if self._config.task == "tensor" else "safetensors",
            overwrite=self._config.overwrite,
            skip_unwritable=True,
        )
        _at_exit(self)

    def _store(self, tensor: SharedTensor) -> None:
        """Hand a tensor to the disk while the step goes on, so that memory does not grow with it."""
        if self._writer is None or self._is_over:
            return
        try:
            self._begin_writing_step(self._writer)
            self._writer.store(tensor)
        except ParityError as error:
            self._give_up(error)

    def _begin_writing_step(self, writer: RunWriter) -> None:
        if not self._is_writing_step:
            self._is_writing_step = True
            writer.start_step(self._step)

    def _write_step(self) -> None:
        done = self._recorder.take_step()
        if self._writer is None or not done.construct:
            return  # nothing ran between start and here
        try:
            self._begin_writing_step(self._writer)
            self._is_writing_step = False
            for record, values in done.records if self._config.task != "structure" else []:
                self._writer.add(record, values)
            missing = self._boundary.sentences() if self._boundary.failures else []
            self._writer.finish_step(stacks=done.stacks, construct=done.construct, missing=missing)
        except ParityError as error:
            self._give_up(error)
            return
        self._counts["records"] += len(done.records)
        self._counts["steps"] += 1

    def _give_up(self, error: ParityError) -> None:
        _log.error("torchparity stops recording, training goes on: %s", error)
        self._is_over = True

    def _end_writing(self, writer: RunWriter) -> None:
        try:
            writer.close()
        except ParityError as error:
            _log.error("torchparity: the run at %s is incomplete: %s", writer.path, error)
            return
        made = f"{counted(self._counts['records'], 'record')} in {counted(self._counts['steps'], 'step')}"
        left_out = f"; incomplete: {' '.join(self._boundary.sentences())}" if self._boundary.failures else ""
        unmatched = self._recorder.selection.unmatched()
        never = f"; never seen: {', '.join(unmatched)}" if unmatched else ""
        _log.info("torchparity: %s at %s%s%s", made, writer.path, left_out, never)
        print(f"torchparity: recorded {made} at {writer.path}{left_out}{never}")  # noqa: T201 - the one line at the end

    def _enter_optimizer(self, *_: Any) -> None:
        self._recorder.parents.append("optimizer")

    def _leave_optimizer(self, *_: Any) -> None:
        if self._recorder.parents:
            self._recorder.parents.pop()


def _at_exit(session: Session) -> None:
    """Close a forgotten session when the program ends.

    Not with `atexit`: that comes after threads were joined, the writer's among them.
    """
    known = weakref.ref(session)

    def close() -> None:
        if (found := known()) is not None:
            found.close()

    threading._register_atexit(close)  # type: ignore[attr-defined]


def _rank() -> int:
    return (
        torch.distributed.get_rank() if torch.distributed.is_available() and torch.distributed.is_initialized() else 0
    )


def _remove_mode(mode: ApiWatcher) -> None:
    """Take our mode off the stack wherever it is; somebody may have entered another one since."""
    above = []
    while torch._C._len_torch_function_stack():  # in another thread than start() it is not on the stack
        top = _pop_mode()  # type: ignore[no-untyped-call]
        if top is mode:
            break
        above.append(top)
    for other in reversed(above):
        _push_mode(other)  # type: ignore[no-untyped-call]
