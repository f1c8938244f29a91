"""Makes the import names of the earlier tools importable, each only where nobody else has it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import CodeType, ModuleType

# The names, and the file of ours behind each; None is a package that holds nothing but those below it.
FRONTS: dict[str, str | None] = {
    "torch_npu": None,
    "torch_npu.hooks": "torchparity.compat.hooks",
    "torch_npu.hooks.tools": "torchparity.compat.hooks_tools",
    "ptdbg_ascend": "torchparity.compat.ptdbg_ascend",
    "api_accuracy_checker": None,
    "api_accuracy_checker.dump": "torchparity.check.dump",
    "api_accuracy_checker.run_ut": None,
    "api_accuracy_checker.run_ut.run_ut": "torchparity.compat.run_ut",
    "api_accuracy_checker.run_ut.run_overflow_check": "torchparity.compat.run_overflow_check",
    "msprobe": None,
    "msprobe.pytorch": "torchparity.compat.msprobe_pytorch",
}


def install(*, insist: bool = False) -> None:
    """Make the names of the earlier tools importable in this process.

    A package that is really there keeps its name; of a torch_npu without `hooks` only that is added. With `insist`
    the names are ours even where the real packages are installed, from the next import on. Even then the packages
    around them stay the real ones: torch_npu drives a device.
    """
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, FrontFinder)]
    sys.meta_path.append(FrontFinder(FRONTS))  # asked last, when nobody else has the name
    if insist:
        insisted = [name for name, home in FRONTS.items() if home is not None]
        sys.meta_path.insert(0, FrontFinder(insisted))
        for name in insisted:
            sys.modules.pop(name, None)


class FrontFinder(MetaPathFinder):
    """Finds the fronts by the names of the earlier tools."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._names:
            return None
        home = FRONTS[fullname]
        behind = find_spec(home) if home is not None else None
        is_package = any(name.startswith(f"{fullname}.") for name in FRONTS)
        origin = behind.origin if behind is not None else None
        return ModuleSpec(fullname, FrontLoader(home), origin=origin, is_package=is_package)


class FrontLoader(Loader):
    """Fills a module with the public names of the file behind it, which is imported now and not earlier."""

    def __init__(self, home: str | None) -> None:
        self._home = home

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the file behind a name, for `-m`."""
        behind = find_spec(self._home) if self._home is not None else None
        if behind is None or not isinstance(behind.loader, InspectLoader):
            return None
        return behind.loader.get_code(behind.name)

    def exec_module(self, module: ModuleType) -> None:
        if self._home is None:
            return
        behind = import_module(self._home)
        names = getattr(behind, "__all__", None) or [name for name in vars(behind) if not name.startswith("_")]
        module.__doc__ = behind.__doc__
        vars(module).update({name: getattr(behind, name) for name in names}, __all__=list(names))
