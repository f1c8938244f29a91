"""The script: found, run as `python` would run it, and its failures shown as `python` shows them."""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

from torchparity.errors import ConfigError

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@dataclass(frozen=True)
class Script:
    """A program of somebody else's: a file, or with `-m` a module, and its arguments."""

    file: str
    arguments: Sequence[str]
    spec: ModuleSpec | None = None

    def run(self) -> None:
        """Run the program as `__main__`; whatever it raises passes through."""
        main = ModuleType("__main__")
        main.__annotations__ = {}  # as python makes it
        main.__file__ = os.path.join(os.getcwd(), self.file)
        main.__spec__ = self.spec
        main.__loader__ = self.spec.loader if self.spec else SourceFileLoader("__main__", main.__file__)
        main.__package__ = self.spec.parent if self.spec else None
        main.__dict__["__builtins__"] = builtins
        main.__dict__["__cached__"] = self.spec.cached if self.spec else None
        sys.modules["__main__"] = main
        sys.argv[:] = [main.__file__ if self.spec else self.file, *self.arguments]
        exec(self._code(main.__file__), main.__dict__)  # noqa: S102 - running it is what was asked for

    def _code(self, file: str) -> CodeType:
        if self.spec is not None:
            code: CodeType | None = self.spec.loader.get_code(self.spec.name)  # type: ignore[union-attr]
            if code is None:
                raise ConfigError(f"module {self.spec.name} has no code that could be run.")
            return code
        with io.open_code(file) as opened:
            return compile(opened.read(), file, "exec", dont_inherit=True)


def find_script(words: Sequence[str], *, is_module: bool) -> Script:
    """Return the program that is named; raise `ConfigError` where there is none.

    Puts the folder in which it finds its own modules where `python` puts it: first.
    """
    name, *arguments = words
    place = "" if is_module else os.path.dirname(os.path.realpath(name))
    if not sys.flags.safe_path if sys.version_info >= (3, 11) else True:
        sys.path[0] = place or os.getcwd()
    if is_module:
        return _module(name, arguments)
    if Path(name).is_dir():
        raise ConfigError(f"{name} is a folder; name the script to run, or a module with -m.")
    if not Path(name).is_file():
        raise ConfigError(f"there is no script {name}; name the file to run, or a module with -m.")
    if not os.access(name, os.R_OK):
        raise ConfigError(f"the script {name} cannot be read: permission denied.")
    return Script(name, arguments)


def _module(name: str, arguments: Sequence[str]) -> Script:
    spec = _spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _spec(f"{name}.__main__")
    if spec is None or spec.origin is None or not hasattr(spec.loader, "get_code"):
        raise ConfigError(f"there is no module {name} that could be run; -m takes a module as `python -m` does.")
    return Script(spec.origin, arguments, spec)


def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):  # of a package around it
        return None


def show_failure(error: BaseException) -> None:
    """Print what a script raised as `python` does, or as the script's own `sys.excepthook` does."""
    _hide_our_frames(error, set())
    sys.excepthook(type(error), error, error.__traceback__)


def _hide_our_frames(error: BaseException | None, seen: set[int]) -> None:
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = _without_ours(error.__traceback__)
        _hide_our_frames(error.__cause__, seen)
        error = error.__context__


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    entries = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_OURS):
            entries.append(trace)
        trace = trace.tb_next
    following = None
    for entry in reversed(entries):
        entry.tb_next = following
        following = entry
    return following
