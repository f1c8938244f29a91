"""Functions that a user registered: wrapped between start and stop, each call passed on as one of an API."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from torchparity.calls.audience import Attention
from torchparity.calls.dispatcher import Dispatcher
from torchparity.calls.guard.mode_stack import is_on
from torchparity.calls.guard.patches import Patches
from torchparity.calls.intercept.apis import ApiMode
from torchparity.calls.intercept.wrapped import inside_function
from torchparity.errors import ConfigError, nearest
from torchparity.ops import Effect, Kind, Op


@dataclass
class _Registered:
    """One function, and the name its calls are counted under."""

    owner: Any
    api: str
    name: str
    patches: Patches = field(default_factory=Patches)

    def wrap(self, intercepted: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> None:
        if not self.patches:
            self.patches.put(self.owner, self.api, functools.partial(intercepted, self.name))


class CustomApis:
    """Wraps registered functions while attached; what they call inside is part of their call."""

    def __init__(self, dispatcher: Dispatcher, mode: ApiMode) -> None:
        self._dispatcher, self._mode = dispatcher, mode
        self._registered: dict[tuple[int, str], _Registered] = {}
        self._is_attached = False

    def register(self, owner: Any, api: str, prefix: str | None) -> None:
        if not isinstance(api, str) or not callable(getattr(owner, api, None)):
            functions = [name for name in dir(owner) if callable(inspect.getattr_static(owner, name, None))]
            raise ConfigError(
                f"register_custom_api: {_name_of(owner)} has no function {api!r}.{nearest(str(api), functions)}"
            )
        registered = _Registered(owner, api, f"{prefix or _name_of(owner)}.{api}")
        self.restore(owner, api)
        try:
            registered.wrap(self._intercepted)  # to see at once whether it can be
        except (TypeError, AttributeError) as error:
            raise ConfigError(f"register_custom_api: {registered.name} cannot be replaced: {error}.") from None
        if not self._is_attached:
            registered.patches.end()
        self._registered[id(owner), api] = registered

    def restore(self, owner: Any, api: str) -> None:
        registered = self._registered.pop((id(owner), api), None)
        if registered is not None:
            registered.patches.end()

    def names(self) -> set[str]:
        return {registered.name for registered in self._registered.values()}

    def attach(self) -> None:
        self._is_attached = True
        for registered in self._registered.values():
            registered.wrap(self._intercepted)

    def detach(self) -> None:
        self._is_attached = False
        for registered in self._registered.values():
            registered.patches.end()

    def _intercepted(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        dispatcher, mode = self._dispatcher, self._mode
        # A kernel of somebody's own may write into its arguments without bumping their versions.
        audience = dispatcher.audience(Op(name, Kind.CUSTOM, Effect.WRITES | Effect.WRITES_UNVERSIONED))

        @functools.wraps(original)
        def custom(*args: Any, **kwargs: Any) -> Any:
            # A compiler or tracer that looks at us would put our own work into the user's graph.
            if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
                return original(*args, **kwargs)
            nesting, attention = dispatcher.nesting, dispatcher.attention
            is_inside_another = nesting.is_in_function or nesting.is_in_compiled or not is_on(mode)
            if attention is Attention.OFF or is_inside_another:
                return original(*args, **kwargs)
            with inside_function(nesting, mode):
                if attention is Attention.COUNTING or mode.is_muted:
                    dispatcher.count(name)
                    return original(*args, **kwargs)
                return dispatcher.run(audience, original, args, kwargs, sys._getframe(1))

        return custom


def _name_of(owner: Any) -> str:
    return str(getattr(owner, "__name__", type(owner).__name__))
