"""Functions that a user registered: wrapped between start and stop, each recorded as one API."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from torchparity.calls.guard.mode_stack import put_back, take_off
from torchparity.calls.guard.nesting import Covered
from torchparity.calls.guard.patches import Patches
from torchparity.calls.intercept.apis import ApiWatcher
from torchparity.errors import ConfigError, nearest
from torchparity.ops.catalog import Api
from torchparity.recording.measuring.geometry import tensors_in
from torchparity.recording.step.recorder import Call, Recorder


@dataclass
class _Registered:
    """One function, and the name its calls are counted under."""

    owner: Any
    api: str
    name: str
    patches: Patches = field(default_factory=Patches)

    def wrap(self, watched: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> None:
        if not self.patches:
            self.patches.put(self.owner, self.api, functools.partial(watched, self.name))


class CustomApis:
    """Wraps registered functions while attached; what they call inside is not recorded."""

    def __init__(self, recorder: Recorder, mode: ApiWatcher, covered: Covered) -> None:
        self._recorder, self._mode, self._covered = recorder, mode, covered
        self._registered: dict[tuple[int, str], _Registered] = {}
        self._is_attached = False

    def register(self, owner: Any, api: str, prefix: str | None) -> None:
        if not isinstance(api, str) or not callable(getattr(owner, api, None)):
            functions = [name for name in dir(owner) if callable(inspect.getattr_static(owner, name, None))]
            raise ConfigError(
                f"register_custom_api: {_called(owner)} has no function {api!r}.{nearest(str(api), functions)}"
            )
        found = _Registered(owner, api, f"{prefix or _called(owner)}.{api}")
        self.restore(owner, api)
        try:
            found.wrap(self._watched)  # to see at once whether it can be
        except (TypeError, AttributeError) as error:
            raise ConfigError(f"register_custom_api: {found.name} cannot be replaced: {error}.") from None
        if not self._is_attached:
            found.patches.end()
        self._registered[id(owner), api] = found

    def restore(self, owner: Any, api: str) -> None:
        found = self._registered.pop((id(owner), api), None)
        if found is not None:
            found.patches.end()

    def names(self) -> set[str]:
        return {found.name for found in self._registered.values()}

    def attach(self) -> None:
        self._is_attached = True
        for found in self._registered.values():
            found.wrap(self._watched)

    def detach(self) -> None:
        self._is_attached = False
        for found in self._registered.values():
            found.patches.end()

    def _watched(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        api = Api(name, "record")

        @functools.wraps(original)
        def custom(*args: Any, **kwargs: Any) -> Any:
            # A compiler or tracer that looks at us would put our own work into the user's graph.
            if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
                return original(*args, **kwargs)
            recorder = self._recorder
            is_seen = recorder.is_recording or recorder.is_waiting
            place = take_off(self._mode) if is_seen and not self._covered.is_silent else None
            if place is None:  # inside another API
                return original(*args, **kwargs)
            self._covered.is_inside = True
            try:
                if not recorder.is_recording or not self._mode.records:
                    recorder.boundary.run(api.name, recorder.count, api.name)
                    return original(*args, **kwargs)
                return self._recorded(api, original, args, kwargs)
            finally:
                self._covered.is_inside = False
                put_back(self._mode, place)

        return custom

    def _recorded(self, api: Api, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        recorder, boundary, frame = self._recorder, self._recorder.boundary, sys._getframe(2)
        call: Call | None = boundary.run(api.name, lambda: recorder.begin(api, args, kwargs, frame))
        if call is None:
            return original(*args, **kwargs)
        call.start_clock(boundary)
        try:
            output = original(*args, **kwargs)
        except BaseException as error:
            boundary.run(api.name, recorder.failed, call, error)
            raise
        boundary.run(api.name, lambda: self._returned(call, args, kwargs, output))
        return output

    def _returned(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        # A kernel of somebody's own may write into its arguments below torch's version counters.
        self._recorder.measurements.invalidate(*tensors_in((*args, *kwargs.values())))
        self._recorder.end(call, output)


def _called(owner: Any) -> str:
    return str(getattr(owner, "__name__", type(owner).__name__))
