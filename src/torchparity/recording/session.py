"""A recording from its first start to its end: what is watched, when, and where it is written."""

from __future__ import annotations

import logging
import os
import sys
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from torchparity.calls.guard.boundary import Boundary
from torchparity.calls.intercept.modules import named_modules
from torchparity.config import LARGEST_INDEX, CaptureConfig, StatisticsTask, TensorTask
from torchparity.errors import ConfigError, RecordingEndedError
from torchparity.ops.catalog import ApiTable
from torchparity.recording.interceptors import Watching
from torchparity.recording.measuring.measurement_cache import MeasurementCache
from torchparity.recording.measuring.measurer import MeasurementOptions, Store
from torchparity.recording.schedule.dataloader import LoaderWatcher
from torchparity.recording.schedule.dump_enable import DumpEnable
from torchparity.recording.schedule.tokens import TokenCounter, checked_range
from torchparity.recording.selection.requested_names import check_names, check_scope
from torchparity.recording.selection.selection import Selection
from torchparity.recording.step.call_stacks import StackBook
from torchparity.recording.step.recorder import Recorder
from torchparity.recording.step.saved_values import SavedValues
from torchparity.recording.writing.output import Output
from torchparity.storage import SharedTensor
from torchparity.text import counted

_log = logging.getLogger("torchparity")
Models = nn.Module | Sequence[nn.Module]


class Session:
    """Records the steps of one process.

    What is asked for wrongly raises at once, as long as nothing is being trained under it;
    whatever goes wrong later is logged and the training goes on without recording.
    """

    def __init__(self, config: CaptureConfig, *, config_path: Path | None = None) -> None:
        if config.task not in ("statistics", "tensor", "structure"):
            raise ConfigError(f"task {config.task!r} is not a recording; use 'statistics', 'tensor' or 'structure'.")
        self._config = config
        self._level = "mix" if config.task == "structure" else config.level
        self._boundary = Boundary()
        self._recorder = _recorder(config, self._boundary, self._store)
        apis = ApiTable(views=config.views or config.risk_level == "ALL", core_only=config.risk_level == "CORE")
        self._watching = Watching(self._recorder, apis, self._level)
        self._saved_values = SavedValues(self._recorder)
        self._switch = DumpEnable(config.dump_enable, config_path)
        self._loader = LoaderWatcher(begin_batch=self._begin_batch, end_batch=self._end_batch)
        self._model: Models | None = None
        self._output: Output | None = None
        self._step = self._first_step = 0
        self._was_started = self._is_started = False  # started by the user, whether or not this step is wanted
        self._is_watching = self._has_data = self._has_begun = False  # the last: since the step began
        self._said: set[str] = set()
        self._tokens: TokenCounter | None = None
        self._has_tokens = False  # some that were wanted came
        self._incomplete: dict[str, None] = {}  # sentences about tokens that did not, and a step that was cut off
        self._late = 0  # gradients, over all steps
        self._is_over = self._is_closed = False
        self._process = os.getpid()
        if config.enable_dataloader:
            self._loader.attach()

    def set_init_step(self, step: int) -> None:
        if self._was_started:
            raise ConfigError("set_init_step must come before the first start().")
        if type(step) is not int or not 0 <= step <= LARGEST_INDEX:
            raise ConfigError(f"set_init_step was given {step!r}; it must be a whole number from 0 to {LARGEST_INDEX}.")
        self._step = self._first_step = step

    def start(self, model: Models | None = None, rank: int | None = None, token_range: Any = None) -> None:
        """Begin to record; may be called again after `stop`, within a step or in the next.

        With `enable_dataloader` it names the model, and the next batch begins the recording;
        with `token_range` a call of the model does.
        """
        if self._is_over or self._is_watching or not self._belongs_here():
            return
        self._check_model(model)
        if rank is not None and (type(rank) is not int or not 0 <= rank <= LARGEST_INDEX):
            raise ConfigError(f"start(rank_id={rank!r}): a rank is a whole number from 0 to {LARGEST_INDEX}.")
        tokens = None if token_range is None else checked_range(token_range, model)
        self._was_started = self._is_started = self._has_begun = True
        if self._config.enable_dataloader:
            if tokens is not None:
                raise ConfigError("enable_dataloader and token_range each say when to record; use one of them.")
            self._model = model
        elif self._begin(model, rank) and tokens is not None and model is not None:
            self._wait_for_tokens(model, tokens)

    def stop(self) -> None:
        """Stop watching calls; gradients of what was recorded still arrive until `step`."""
        if self._is_over or self._config.enable_dataloader:
            return
        if not self._was_started:
            raise ConfigError("stop() without start(): nothing is being recorded; call start() first.")
        if not self._is_started:
            self._warn("stop() was called again without start() in between; nothing was being recorded")
        self._is_started = False
        self._pause()

    def step(self) -> None:
        """End a step: write what it recorded, and count on."""
        if not self._config.enable_dataloader:
            if self._was_started and not self._is_over and not self._has_begun:
                self._warn("step() was called again without start() in between; of that step nothing is recorded")
            self._end_step()

    def close(self, error: BaseException | None = None) -> None:
        """Write what is left, wait for the disk and say in one line what there is; `error` ended the training."""
        if self._is_closed:
            return
        if not self._is_over and (self._is_watching or self._has_data):
            if error is not None:
                self._incomplete[f"step {self._step} was cut off by {type(error).__name__}."] = None
            self._end_step()
        self._pause()
        self._watching.end_step()
        self._loader.detach()
        self._is_over = self._is_closed = True
        if os.getpid() != self._process:
            return  # a forked child has no part in it
        if self._output is not None:
            said = self._left_out(self._boundary.sentences(), self._late + self._recorder.late)
            self._output.close([*said, *self._unwanted_steps()])
        elif self._was_started and self._config.rank:
            # Of many ranks those that are not wanted are not worth a warning.
            level = logging.INFO if "WORLD_SIZE" in os.environ or _rank() else logging.WARNING
            _log.log(level, "torchparity: recorded nothing: this is rank %d, and rank=%s", _rank(), self._config.rank)

    def _belongs_here(self) -> bool:
        """Tell whether this process records: a forked one does where nothing was begun before the fork."""
        if os.getpid() == self._process:
            return True
        if self._was_started:
            self._warn("a forked process does not go on with a recording; make a PrecisionDebugger in it")
            return False
        self._process = os.getpid()
        self._boundary.belong_here()
        return True

    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Record one value by hand, and its gradient; at level debug nothing else begins the recording."""
        if self._level == "debug" and not self._is_watching and not self._is_over:
            self.start()
        if self._recorder.is_recording:
            self._saved_values.save(variable, name, save_backward)
        elif not self._is_started and not self._is_over:
            self._warn("save() records nothing before start() and after stop(), but at level 'debug'")

    def module_dump(self, module: nn.Module, name: str) -> None:
        """Record the calls of one module and nothing else, until `module_dump_end`."""
        if not isinstance(module, nn.Module):
            raise ConfigError(f"module_dump takes a module, not a {type(module).__name__}.")
        if not isinstance(name, str) or not name:
            raise ConfigError(f"module_dump needs a name for the module's records, not {name!r}.")
        if not self._was_started and not self._config.enable_dataloader:
            raise ConfigError("module_dump() without start(): nothing is being recorded; call start() first.")
        if self._recorder.is_recording:
            self._watching.only(module, name)

    def module_dump_end(self) -> None:
        """Record everything again."""
        if self._recorder.is_recording:
            self._watching.everything_again()

    def register_custom_api(self, module: Any, api: str, api_prefix: str | None) -> None:
        self._watching.custom.register(module, api, api_prefix)

    def restore_custom_api(self, module: Any, api: str) -> None:
        self._watching.custom.restore(module, api)

    def _unwanted_steps(self) -> list[str]:
        """Return what became of steps that were asked for and did not come."""
        asked = self._config.step
        if not asked or any(self._first_step <= step < self._step for step in asked):
            return []
        last = self._step - 1
        came = "no step" if last < self._first_step else f"steps {self._first_step} to {last}"
        came = f"step {last}" if last == self._first_step else came
        wanted = f"step {asked[0]} was" if len(asked) == 1 else f"steps {', '.join(map(str, asked[:5]))} were"
        return [f"{wanted} asked for, and {came} came."]

    def _check_model(self, model: Models | None) -> None:
        if self._level in ("L0", "mix") and model is None:
            raise ConfigError(f"level {self._level!r} records modules, so start() needs the model: start(model=...).")
        if model is None or isinstance(model, nn.Module):
            return
        if not model:
            raise ConfigError("start(model=[]) names no model; give the modules to record.")
        if not isinstance(model, Sequence) or not all(isinstance(each, nn.Module) for each in model):
            raise ConfigError(f"start(model=...) takes a module or a list of modules, not a {type(model).__name__}.")

    def _begin(self, model: Models | None, rank: int | None) -> bool:
        """Watch what runs from here on, where this rank and step are wanted; tell whether they are."""
        own = _rank() if rank is None else rank
        if self._config.rank and own not in self._config.rank:
            return False
        if self._output is None:  # also where this step is not wanted: what cannot work is said before the training
            self._output = self._open(model, own)
        if (self._config.step and self._step not in self._config.step) or not self._switch.is_on():
            return False
        self._recorder.is_recording = self._is_watching = True
        self._watching.on(model)
        return True

    def _wait_for_tokens(self, model: Models, tokens: tuple[int, int]) -> None:
        self._recorder.is_recording, self._recorder.is_waiting = False, True
        self._tokens = TokenCounter(tokens, begin=self._begin_tokens, end=self._end_tokens)
        self._tokens.attach(model if isinstance(model, nn.Module) else model[0])

    def _begin_tokens(self) -> None:
        self._boundary.run(
            "token_range", self._recorder.measurements.invalidate_all
        )  # nobody saw what was done since start
        self._recorder.is_recording = self._has_tokens = True

    def _end_tokens(self) -> None:
        self._has_data, self._recorder.is_recording = True, False  # watching ends where it began, in `stop` or `step`

    def _pause(self) -> None:
        if self._is_watching:
            self._has_data = self._has_data or self._recorder.is_recording
            self._recorder.is_recording = self._recorder.is_waiting = self._is_watching = False
            self._watching.off()
        if self._tokens is not None:
            self._tokens.detach()
            if self._tokens.has_come or not self._has_tokens:
                self._incomplete.update(dict.fromkeys(self._tokens.sentences()))
            self._tokens = None

    def _end_step(self) -> None:
        self._pause()
        self._watching.end_step()
        if self._has_data:
            self._boundary.run(f"step {self._step}", self._write_step)
        self._is_started = self._has_data = self._has_begun = False
        self._step += 1
        self._recorder.selection.begin_step()
        self._saved_values.begin_step()

    def _write_step(self) -> None:
        done, late = self._recorder.take_step(), self._recorder.late
        self._late, self._recorder.late = self._late + late, 0
        if self._output is not None:
            self._output.write(self._step, done, self._left_out(self._boundary.sentences_of_step(), late))
            self._is_over = self._output.is_over

    def _store(self, tensor: SharedTensor) -> None:
        if self._output is not None and not self._output.is_over:
            self._output.store(self._step, tensor)
        if self._output is None or self._output.is_over:
            tensor.values = None  # nobody will write it: let it go

    def _begin_batch(self) -> None:
        if not self._is_over:
            self._check_model(self._model)
            self._was_started = self._is_started = True
            self._begin(self._model, None)

    def _end_batch(self) -> None:
        """End the step in hand, and after the last one that is wanted the training."""
        if self._is_over:
            return
        self._end_step()
        wanted = self._config.step
        if wanted and self._step > max(wanted):
            self.close()
            raise RecordingEndedError(max(wanted))

    def _open(self, model: Models | None, rank: int) -> Output:
        """Refuse names that cannot come up and a folder that cannot be written, before anything is recorded."""
        selection, custom = self._recorder.selection, self._watching.custom.names()
        modules = [name for _, name in named_modules(model)] if model is not None and selection.asked else None
        check_names(selection.listed, level=self._level, modules=modules, custom=custom, stand_for_inside=True)
        check_names((*selection.scope, *selection.stored), level=self._level, modules=modules, custom=custom)
        check_scope(selection.scope)
        output = Output(self._config, selection, level=self._level, rank=rank)
        _at_exit(self)
        return output

    def _warn(self, sentence: str) -> None:
        """Log a sentence, once."""
        if sentence not in self._said:
            self._said.add(sentence)
            _log.warning("torchparity: %s", sentence)

    def _left_out(self, failures: list[str], late: int) -> list[str]:
        too_late = [f"{counted(late, 'gradient')} came too late, for calls of steps that had ended."] if late else []
        return [*failures, *self._watching.sentences(), *self._incomplete, *too_late]


def _recorder(config: CaptureConfig, boundary: Boundary, store: Store) -> Recorder:
    block: StatisticsTask | TensorTask = config.tensor if config.task == "tensor" else config.statistics
    options = MeasurementOptions(
        checksum=block.summary_mode in ("md5", "xor"),
        values=config.task == "tensor",
        xor=block.summary_mode == "xor",
        by_shape=config.tensor.tensor_format == "pt",
    )
    # A .pt file has its item's name, and what differs from another run is known when the step is over.
    waits = options.by_shape or config.tensor.bench_path is not None
    stored = block.tensor_list if isinstance(block, StatisticsTask) else ()
    return Recorder(
        MeasurementCache(options, exact=config.precision == "high", store=None if waits else store),
        Selection(scope=block.scope, names=block.list, stored=stored, data_mode=block.data_mode),
        boundary,
        StackBook(all_frames=config.all_frames) if config.extra_info else None,
    )


def _at_exit(session: Session) -> None:
    """Close a forgotten session when the program ends.

    Not with `atexit`: that comes after threads were joined, the writer's among them.
    """
    known = weakref.ref(session)

    def close() -> None:
        if (found := known()) is not None:
            found.close(None if hasattr(sys, "ps1") else getattr(sys, "last_value", None))

    threading._register_atexit(close)  # type: ignore[attr-defined]


def _rank() -> int:
    """Return this process's rank; before its group is made what torchrun says it will be."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    announced = os.environ.get("RANK", "")
    known = int(announced) if announced.isdecimal() and "WORLD_SIZE" in os.environ else 0
    return known if known <= LARGEST_INDEX else 0
