"""From settings to the parts of a recording; what is asked for wrongly raises here, before anything runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, get_args

from torch import nn

from torchparity.calls import named_modules, takes_hooks
from torchparity.calls.call_stacks import StackBook
from torchparity.config import LARGEST_INDEX, CaptureConfig, RecordingTask, StatisticsTask, TensorTask
from torchparity.errors import ConfigError
from torchparity.perturb.entry import perturbing_for
from torchparity.perturb.perturbing import Perturbing
from torchparity.recording.environment import read_environment
from torchparity.recording.measuring.measurement_cache import MeasurementCache
from torchparity.recording.measuring.measurer import MeasurementOptions, Store
from torchparity.recording.overflow.output import OverflowOutput
from torchparity.recording.overflow.ptdbg import training_stop
from torchparity.recording.overflow.recorder import OverflowRecorder
from torchparity.recording.process import is_one_of_many
from torchparity.recording.selection.requested_names import check_names, check_scope
from torchparity.recording.selection.selection import Selection
from torchparity.recording.step.coverage import Coverage
from torchparity.recording.step.recorder import Recorder
from torchparity.recording.writing.output import Output
from torchparity.recording.writing.perturb_output import PerturbOutput
from torchparity.recording.writing.step_output import StepOutput
from torchparity.whole_file import with_home

_log = logging.getLogger("torchparity")

Models = nn.Module | Sequence[nn.Module]


def level_of(config: CaptureConfig) -> str:
    """Return the level that is recorded; raise for a task that is no recording."""
    if config.task not in get_args(RecordingTask):
        raise ConfigError(
            f"task {config.task!r} is not a recording; use {', '.join(map(repr, get_args(RecordingTask)))}."
        )
    if config.task in ("overflow_check", "free_benchmark"):
        if config.level not in ("L1", "mix"):
            raise ConfigError(f"task {config.task!r} looks at APIs, level 'L1'; level {config.level!r} has none.")
        return "L1"
    return "mix" if config.task == "structure" else config.level


def make_recorder(config: CaptureConfig, store: Store) -> Recorder:
    """Return the recorder that settings ask for; `store` takes tensors that can be written ahead of their records."""
    if config.task == "overflow_check":
        return make_overflow_recorder(config)
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
    level = level_of(config)
    return Recorder(
        MeasurementCache(options, exact=config.precision == "high", store=None if waits else store),
        Selection(scope=block.scope, names=block.list, stored=stored, data_mode=block.data_mode),
        StackBook(all_frames=config.all_frames) if config.extra_info else None,
        Coverage(
            apis=level in ("L1", "mix"),
            modules=level in ("L0", "mix"),
            views=config.views or config.risk_level == "ALL",
            core_only=config.risk_level == "CORE",
        ),
    )


def make_overflow_recorder(config: CaptureConfig) -> OverflowRecorder:
    """Return the recorder of task overflow_check; its values are copied only when they are to be written."""
    return OverflowRecorder(
        MeasurementCache(MeasurementOptions(), exact=config.precision == "high"),
        Selection(),
        StackBook(all_frames=config.all_frames) if config.extra_info else None,
        most=config.overflow_check.overflow_nums,
        ending=partial(training_stop, config.dump_path) if config.overflow_check.stop_training else None,
    )


def make_perturbing(config: CaptureConfig, step: Callable[[], int]) -> Perturbing | None:
    """Return the listener of task free_benchmark, which listens in place of the recorder; None for other tasks."""
    return perturbing_for(config.free_benchmark, step) if config.task == "free_benchmark" else None


def open_output(
    config: CaptureConfig,
    recorder: Recorder,
    model: Models | None,
    custom: Collection[str],
    rank: int,
    perturbing: Perturbing | None = None,
) -> StepOutput:
    """Refuse names that cannot come up and a folder that cannot be written, before anything is recorded."""
    level, selection = level_of(config), recorder.selection
    if perturbing is not None:
        check_perturbed_names(config, custom)
        folder = with_home(config.dump_path).absolute()
        is_only = not is_one_of_many()
        return PerturbOutput(perturbing, folder, rank, is_only_rank=is_only, overwrite=config.overwrite)
    modules = None
    if model is not None and selection.asked:
        modules = [name for module, name in named_modules(model) if takes_hooks(module)]
    check_names(selection.listed, level=level, modules=modules, custom=custom, stand_for_inside=True)
    check_names((*selection.scope, *selection.stored), level=level, modules=modules, custom=custom)
    check_scope(selection.scope)
    output = Output(config, selection, level=level, rank=rank, environment=read_environment())
    return OverflowOutput(output, recorder, rank) if isinstance(recorder, OverflowRecorder) else output


def check_perturbed_names(config: CaptureConfig, custom: Collection[str]) -> None:
    """Raise `ConfigError` for a name in the scope of task free_benchmark that no call can have."""
    try:
        check_names(config.free_benchmark.scope, level=level_of(config), modules=None, custom=custom)
    except ConfigError as error:
        raise ConfigError(f"free_benchmark.scope: {error}") from None


def check_model(model: Any, level: str) -> None:
    """Raise for what is no model, or lacks where modules are recorded."""
    if level in ("L0", "mix") and model is None:
        raise ConfigError(f"level {level!r} records modules, so start() needs the model: start(model=...).")
    if model is None or isinstance(model, nn.Module):
        return
    if not model:
        raise ConfigError("start(model=[]) names no model; give the modules to record.")
    if not isinstance(model, Sequence) or not all(isinstance(each, nn.Module) for each in model):
        raise ConfigError(f"start(model=...) takes a module or a list of modules, not a {type(model).__name__}.")


def check_rank(rank: Any) -> None:
    if not _is_index(rank):
        raise ConfigError(f"start(rank_id={rank!r}): a rank is a whole number from 0 to {LARGEST_INDEX}.")


def check_first_step(step: Any) -> None:
    if not _is_index(step):
        raise ConfigError(f"set_init_step was given {step!r}; it must be a whole number from 0 to {LARGEST_INDEX}.")


def _is_index(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST_INDEX
