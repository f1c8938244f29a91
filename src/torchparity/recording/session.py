"""A recording from its first start to its end: when calls are listened to, and when a step is written."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import Any

from torch import nn

from torchparity.calls import Attention, Dispatcher, Interceptors
from torchparity.config import CaptureConfig
from torchparity.errors import ConfigError, RecordingEndedError
from torchparity.recording import setup
from torchparity.recording.environment import read_environment
from torchparity.recording.process import close_at_exit, is_one_of_many, rank_of_process
from torchparity.recording.schedule.dataloader import LoaderInterceptor
from torchparity.recording.schedule.dump_enable import DumpEnable
from torchparity.recording.schedule.tokens import TokenRange, checked_range
from torchparity.recording.setup import Models
from torchparity.recording.step.saved_values import SavedValues
from torchparity.recording.writing.left_out import LeftOut
from torchparity.recording.writing.step_output import StepOutput
from torchparity.storage import SharedTensor

_log = logging.getLogger("torchparity")


class Life(Enum):
    """The stages of a recording."""

    NEW = auto()  # start() has not been called
    RUNNING = auto()
    OVER = auto()  # nothing more can or shall be recorded
    CLOSED = auto()


class Step(Enum):
    """The stages of the step in hand."""

    NOT_BEGUN = auto()  # no start() since the last step()
    UNWATCHED = auto()  # started, but this step or rank is not wanted, or waits for its batch
    WATCHED = auto()  # calls are seen
    STOPPED = auto()  # stop() came after start()


class Session:
    """Records the steps of one process.

    What is asked for wrongly raises at once, as long as nothing is being trained under it;
    whatever goes wrong later is logged and the training goes on without recording.
    """

    def __init__(
        self,
        config: CaptureConfig,
        *,
        config_path: Path | None = None,
        output: StepOutput | None = None,
        ending: Callable[[int], Exception] = RecordingEndedError,
    ) -> None:
        self._config, self._level = config, setup.level_of(config)
        self._recorder = setup.make_recorder(config, self._store)
        self._perturbing = setup.make_perturbing(config, lambda: self._step)
        self._listener = self._perturbing or self._recorder
        self._dispatcher = Dispatcher(self._listener)
        self._interceptors = Interceptors(self._dispatcher, sees_apis=self._level in ("L1", "mix"))
        self._saved_values = SavedValues(self._dispatcher, self._recorder)
        self._dump_enable = DumpEnable(config.dump_enable, config_path)
        self._loader = LoaderInterceptor(begin_batch=self._begin_batch, end_batch=self._end_batch)
        self._life, self._state = Life.NEW, Step.NOT_BEGUN
        self._model: Models | None = None
        self._ending = ending  # of a training whose last step to record is over
        self._output = output  # a run on disk, opened at the first start, where none is given
        self._step = self._first_step = 0
        self._has_listened = False  # in this step
        self._has_checked_names = False
        self._tokens = TokenRange(self._dispatcher)
        self._warned_of: set[str] = set()
        self._left_out = LeftOut()
        self._process = os.getpid()
        if config.enable_dataloader:
            self._loader.attach()

    def check_names(self) -> list[str]:
        """Raise for names that no call can have, before any is made; return sentences about doubtful ones."""
        if self._perturbing is None or self._has_checked_names:
            return []
        self._has_checked_names = True
        custom = self._interceptors.registered_names()
        setup.check_perturbed_names(self._config, custom)
        return list(self._perturbing.calls.doubtful(custom))

    def set_init_step(self, step: int) -> None:
        """Number the first step `step`."""
        if self._life is not Life.NEW:
            raise ConfigError("set_init_step must come before the first start().")
        setup.check_first_step(step)
        self._step = self._first_step = step

    def start(self, model: Models | None = None, rank: int | None = None, token_range: Any = None) -> None:
        """Begin to record; may be called again after `stop`, within a step or in the next.

        With `enable_dataloader` it names the model, and the next batch begins the recording;
        with `token_range` a call of the model does.
        """
        if self._is_over or self._state is Step.WATCHED or not self._belongs_here():
            return
        setup.check_model(model, self._level)
        if rank is not None:
            setup.check_rank(rank)
        tokens = None if token_range is None else checked_range(token_range, model)
        if self._config.enable_dataloader and tokens is not None:
            raise ConfigError("enable_dataloader and token_range each say when to record; use one of them.")
        self._life, self._state = Life.RUNNING, Step.UNWATCHED
        if self._config.enable_dataloader:
            self._model = model
        elif self._begin(model, rank) and tokens is not None and model is not None:
            self._tokens.open(model if isinstance(model, nn.Module) else model[0], tokens)

    def see_model(self, model: nn.Module) -> None:
        """See the modules of a model too, in the step in hand: it became known only after `start`."""
        if self._state is Step.WATCHED and self._level != "debug":
            self._recorder.measurements.lineage.names.add(model)
            self._interceptors.attach_model(model)

    def stop(self) -> None:
        """Stop listening to calls; gradients of what was recorded still arrive until `step`."""
        if self._is_over or self._config.enable_dataloader:
            return
        if self._life is Life.NEW:
            raise ConfigError("stop() without start(): nothing is being recorded; call start() first.")
        if self._state in (Step.NOT_BEGUN, Step.STOPPED):
            self._warn("stop() was called again without start() in between; nothing was being recorded")
        self._pause()
        if self._state is not Step.NOT_BEGUN:
            self._state = Step.STOPPED

    def step(self) -> None:
        """End a step: write what it recorded, and count on."""
        if not self._config.enable_dataloader:
            if self._life is Life.RUNNING and self._state is Step.NOT_BEGUN:
                self._warn("step() was called again without start() in between; of that step nothing is recorded")
            self._end_step()

    def forget_step(self) -> None:
        """Write no records of the step in hand, which turned out to be none; `close` comes next."""
        self._pause()
        self._has_listened, self._state = False, Step.NOT_BEGUN
        if self._output is not None:
            self._output.take_back(self._step)

    def discard(self) -> None:
        """End the recording; what it wrote is of no training, and goes as far as the next one does not replace it."""
        self.close()
        if self._output is not None:
            self._output.take_back()

    def close(self, error: BaseException | None = None) -> None:
        """Write what is left, wait for the disk and say in one line what there is; `error` ended the training."""
        if self._life is Life.CLOSED:
            return
        if not self._is_over and (self._state is Step.WATCHED or self._has_listened):
            if error is not None:
                self._left_out.cut_off(self._step, error)
            self._end_step()
        was_started = self._life is not Life.NEW
        self._pause()
        self._interceptors.end()
        self._loader.detach()
        self._recorder.measurements.forget_all()
        self._life = Life.CLOSED
        if os.getpid() != self._process:
            return  # a forked child has no part in it
        if self._output is not None:
            failures = [*self._dispatcher.boundary.failures.sentences(), *self._listener.failures.sentences()]
            lacks = self._left_out.of_recording(
                [*failures, *self._dump_enable.sentences(), *self._interceptors.sentences()],
                self._dispatcher.take_late_gradients(),
                asked=self._config.step,
                first=self._first_step,
                last=self._step - 1,
            )
            self._output.close(lacks)
        elif was_started and self._config.rank:
            # Of many ranks those that are not wanted are not worth a warning.
            level = logging.INFO if is_one_of_many() else logging.WARNING
            rank = rank_of_process()
            _log.log(level, "torchparity: recorded nothing: this is rank %d, and rank=%s", rank, self._config.rank)

    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Record one value by hand, and its gradient; at level debug nothing else begins the recording."""
        if self._level == "debug" and self._state is not Step.WATCHED and not self._is_over:
            self.start()
        if self._is_listening:
            self._saved_values.save(variable, name, save_backward)
        elif self._state in (Step.NOT_BEGUN, Step.STOPPED) and not self._is_over:
            self._warn("save() records nothing before start() and after stop(), but at level 'debug'")

    def module_dump(self, module: nn.Module, name: str) -> None:
        """Record the calls of one module and nothing else, until `module_dump_end`."""
        if not isinstance(module, nn.Module):
            raise ConfigError(f"module_dump takes a module, not a {type(module).__name__}.")
        if not isinstance(name, str) or not name:
            raise ConfigError(f"module_dump needs a name for the module's records, not {name!r}.")
        if self._life is Life.NEW and not self._config.enable_dataloader:
            raise ConfigError("module_dump() without start(): nothing is being recorded; call start() first.")
        if self._is_listening:
            self._interceptors.only(module, name)

    def module_dump_end(self) -> None:
        """Record everything again."""
        if self._is_listening:
            self._interceptors.everything_again()

    def register_custom_api(self, module: Any, api: str, api_prefix: str | None) -> None:
        """Record each call of a function of the user's as one API."""
        self._interceptors.register(module, api, api_prefix)

    def restore_custom_api(self, module: Any, api: str) -> None:
        """Record a function of the user's no longer."""
        self._interceptors.restore(module, api)

    @property
    def is_new(self) -> bool:
        """True where nothing was begun: no start() and, with `enable_dataloader`, no batch."""
        return self._life is Life.NEW

    @property
    def has_checked_nothing(self) -> bool:
        """True where task free_benchmark has run no call again."""
        return self._perturbing is not None and not self._perturbing.verdicts.perturbed

    @property
    def _is_over(self) -> bool:
        return self._life in (Life.OVER, Life.CLOSED)

    @property
    def _is_listening(self) -> bool:
        return self._dispatcher.attention is Attention.LISTENING

    def _belongs_here(self) -> bool:
        """Tell whether this process records: a forked one does where nothing was begun before the fork."""
        if os.getpid() == self._process:
            return True
        if self._life is not Life.NEW:
            self._warn("a forked process does not go on with a recording; make a PrecisionDebugger in it")
            return False
        self._process = os.getpid()
        self._dispatcher.boundary.belong_here()
        return True

    def _begin(self, model: Models | None, rank: int | None) -> bool:
        """Listen to what runs from here on, where this rank and step are wanted; tell whether they are."""
        own = rank_of_process() if rank is None else rank
        if self._config.rank and own not in self._config.rank:
            return False
        if self._output is None:  # also where this step is not wanted: what cannot work is said before the training
            for sentence in self.check_names():
                _log.warning("torchparity: %s", sentence)
            custom = self._interceptors.registered_names()
            self._output = setup.open_output(self._config, self._recorder, model, custom, own, self._perturbing)
            close_at_exit(self)
        if (self._config.step and self._step not in self._config.step) or not self._dump_enable.is_on():
            return False
        self._state = Step.WATCHED
        self._dispatcher.attention = Attention.LISTENING
        self._recorder.measurements.lineage.names.use(model)
        if self._level != "debug":
            self._interceptors.attach(model)
        return True

    def _pause(self) -> None:
        if self._state is Step.WATCHED:
            self._has_listened = self._has_listened or self._is_listening or self._tokens.has_begun
            self._dispatcher.attention = Attention.OFF
            self._state = Step.STOPPED
            if self._level != "debug":
                self._interceptors.detach()
        self._left_out.add(self._tokens.close())

    def _end_step(self) -> None:
        self._pause()
        self._interceptors.end_step()
        if self._has_listened:
            self._dispatcher.boundary.run(f"step {self._step}", self._write_step)
        self._dispatcher.begin_step()
        self._recorder.selection.begin_step()
        self._saved_values.begin_step()
        self._has_listened, self._state = False, Step.NOT_BEGUN
        self._step += 1

    def _write_step(self) -> None:
        done = self._recorder.take_step(self._step)
        failures = self._dispatcher.boundary.failures.sentences_of_step() + self._listener.failures.sentences_of_step()
        lacks = self._left_out.of_step(
            [*failures, *self._interceptors.sentences()], self._dispatcher.take_late_gradients()
        )
        if self._output is not None:
            environment = read_environment(
                autocast=self._recorder.autocast.take(), device_types=self._recorder.measurements.device_types
            )
            self._output.write(self._step, done, lacks, environment)
            if self._output.is_over:
                self._life = Life.OVER

    def _store(self, tensor: SharedTensor) -> None:
        if self._output is not None and not self._output.is_over:
            self._output.store(self._step, tensor)
        if self._output is None or self._output.is_over:
            tensor.values = None  # nobody will write it: let it go

    def _begin_batch(self) -> None:
        if not self._is_over:
            setup.check_model(self._model, self._level)
            self._life, self._state = Life.RUNNING, Step.UNWATCHED
            self._begin(self._model, None)

    def _end_batch(self) -> None:
        """End the step in hand, and after the last one that is wanted the training."""
        if self._is_over:
            return
        self._end_step()
        wanted = self._config.step
        if wanted and self._step > max(wanted):
            self.close()
            raise self._ending(max(wanted))

    def _warn(self, sentence: str) -> None:
        """Log a sentence, once."""
        if sentence not in self._warned_of:
            self._warned_of.add(sentence)
            _log.warning("torchparity: %s", sentence)
