"""Recording as the earlier tools have it: models are hooked once, and a path says where the next passes go."""

from __future__ import annotations

import weakref
from pathlib import Path

from torch import nn

from torchparity.config import CaptureConfig
from torchparity.errors import ConfigError
from torchparity.recording import Session


class HookedModels:
    """The models that are hooked, none of them kept alive."""

    def __init__(self) -> None:
        self._references: list[weakref.ref[nn.Module]] = []

    def add(self, model: nn.Module) -> bool:
        """Add a model, and tell whether it is new."""
        if not isinstance(model, nn.Module):
            raise ConfigError(f"a model to hook is a torch.nn.Module, not a {type(model).__name__}.")
        if any(model is each for each in self.all()):
            return False
        self._references.append(weakref.ref(model))
        return True

    def all(self) -> list[nn.Module]:
        models = (reference() for reference in self._references)
        return [model for model in models if model is not None]


class Dumping:
    """The recording of hooked models that is open.

    A run is whole as soon as the next one begins, somebody compares, or the process ends.
    """

    def __init__(self, models: HookedModels | None = None) -> None:
        self._models = HookedModels() if models is None else models
        self._session: Session | None = None

    def hook(self, model: nn.Module) -> None:
        """Record the calls of this model too, also in the run that is open."""
        if self._models.add(model):
            self.see(model)

    def see(self, model: nn.Module) -> None:
        """Record a model that was hooked after the run began."""
        if self._session is not None:
            self._session.see_model(model)

    def open(self, config: CaptureConfig) -> None:
        """Begin a run and record the hooked models into it; the one before is whole."""
        self.close()
        self._session = Session(config)

    def start(self) -> None:
        """Record from here on."""
        if self._session is None:
            raise ConfigError("nothing says where to record to; call set_dump_path first.")
        first, *others = self._models.all() or [nn.Module()]
        self._session.start(first)
        for model in others:
            self._session.see_model(model)

    def pause(self) -> None:
        """Leave out what comes, until `start`."""
        if self._session is not None:
            self._session.stop()

    def stop(self) -> None:
        """End the step that is recorded; `start` begins the next."""
        if self._session is not None:
            self._session.step()

    def close(self) -> None:
        """Make the run whole."""
        if self._session is not None:
            self._session.close()
            self._session = None


def folder_of(path: object) -> Path:
    """Return the folder of a run; a name that ends in .pkl is one too, since nothing is ever pickled."""
    if not isinstance(path, (str, Path)) or not str(path):
        raise ConfigError(f"set_dump_path takes the path of a run, such as './npu_dump.pkl', not {path!r}.")
    return Path(path)
