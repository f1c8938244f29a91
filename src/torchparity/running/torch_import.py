"""The moment at which a script imports torch."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _TorchLoader(Loader):
    """Loads torch as its own loader does, and then says so."""

    def __init__(self, loader: Loader, then: Callable[[], None]) -> None:
        self._loader, self._then = loader, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._then()


class TorchImport(MetaPathFinder):
    """Calls `then` once torch is imported, at once where it is already."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._is_looking = False

    def attach(self) -> None:
        if "torch" in sys.modules:
            self._then()
        else:
            sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch" or self._is_looking:
            return None
        self._is_looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _TorchLoader(spec.loader, self._arrived)
        return spec

    def _arrived(self) -> None:
        """Look no more, but only now: a script may ask for the spec of torch and import it later."""
        sys.meta_path.remove(self)
        self._then()
