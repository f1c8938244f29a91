"""Monkeypatches of torch's and the user's functions, removed again in whatever order recordings end."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

_MARK = "_torchparity_patch"


class _Patch:
    """One attribute that was replaced."""

    def __init__(self, owner: Any, name: str, put: Any) -> None:
        self._owner, self._name, self._put = owner, name, put
        self._before, self._is_own = vars(owner).get(name), name in vars(owner)
        self._is_done = False
        setattr(put, _MARK, self)
        setattr(owner, name, put)

    def end(self) -> None:
        """Put back what was there, unless another recording has replaced ours meanwhile: then that will do it."""
        self._is_done = True
        while True:
            current = vars(self._owner).get(self._name)  # where ours was put, whatever its class inherits
            patch = getattr(current, _MARK, None)
            if not isinstance(patch, _Patch) or patch._put is not current or not patch._is_done:
                return
            if patch._is_own:
                setattr(self._owner, self._name, patch._before)
            else:
                delattr(self._owner, self._name)


class Patches:
    """The attributes that one watcher has replaced."""

    def __init__(self) -> None:
        self._patches: list[_Patch] = []

    def __bool__(self) -> bool:
        return bool(self._patches)

    def put(self, owner: Any, name: str, wrapped: Callable[[Any], Callable[..., Any]]) -> None:
        """Replace a function by what `wrapped` makes of it; a staticmethod stays one."""
        raw = vars(owner)[name] if isinstance(owner, ModuleType) else inspect.getattr_static(owner, name)
        if not isinstance(owner, (type, ModuleType)) and name not in vars(owner):
            raw = getattr(owner, name)  # a method of an object: the replacement is its own, and nobody binds it
        is_method = isinstance(raw, (staticmethod, classmethod))
        self._patches.append(_Patch(owner, name, type(raw)(wrapped(raw.__func__)) if is_method else wrapped(raw)))

    def end(self) -> None:
        """Put back every one."""
        patches, self._patches = self._patches, []
        for patch in reversed(patches):
            patch.end()
