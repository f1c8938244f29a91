"""Scripts that are run inside the process of the tests, bare and recorded: starting Python takes longer."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from torchparity import cli
from torchparity.running import find_script


@dataclass(frozen=True)
class Done:
    """The exit code of a script, and what it and torchparity said."""

    code: int
    out: str
    err: str


class Scripts:
    """Runs scripts in one folder; what `python` sets anew for each program is put back after each."""

    def __init__(self, folder, monkeypatch, capfd):
        self.folder, self._monkeypatch, self._capfd = folder, monkeypatch, capfd

    def write(self, text, name="script.py"):
        (self.folder / name).write_text(text)
        return name

    def bare(self, *words):
        return self._done(lambda: find_script([str(word) for word in words], is_module=False).run() or 0)

    def recorded(self, *words):
        return self._done(lambda: cli.main(["run", *map(str, words)]))

    def _done(self, start):
        with self._monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            patch.chdir(self.folder)
            patch.setattr(sys, "argv", list(sys.argv))
            patch.setattr(sys, "path", list(sys.path))
            patch.setitem(sys.modules, "__main__", sys.modules["__main__"])
            self._said()
            code = start()
            return Done(code, *self._said())

    def _said(self):
        return ("", "") if self._capfd is None else self._capfd.readouterr()


@pytest.fixture(scope="module")
def quiet_scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scripts]:
    """Scripts in a folder that the tests of a file share; nobody looks at what they say."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield Scripts(tmp_path_factory.mktemp("scripts"), monkeypatch, None)


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Scripts:
    """Scripts in an empty folder."""
    return Scripts(tmp_path, monkeypatch, capfd)
