"""Runs on object stores: paths that are URLs, read through fsspec.

A path without :// never comes here, and fsspec is not loaded before something of a URL is asked for. Files are fetched
as bytes, whole or in ranges; nothing is written and nothing in them is run.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import AbstractContextManager
from fnmatch import fnmatchcase
from pathlib import Path, PosixPath
from types import TracebackType
from typing import Any

from torchparity.errors import ConfigError, DamagedFileError, ParityError, RunNotFoundError

_LONGEST_REASON = 200


def run_path(text: str | Path) -> Path:
    """Return the path of a run: a URL where the text has a scheme, else a path of the file system, as it is."""
    if isinstance(text, Path):
        return text
    if "://" not in text:
        return Path(text)
    if text.startswith("file://"):
        return Path(text.removeprefix("file://"))
    if "::" in text:
        raise ConfigError(f"{text} is a chain of URLs, which cannot be read; give the URL of a folder or a file.")
    return UrlPath(text)


class UrlPath(PosixPath):
    """A URL in the place of a path: what reading a run asks of a path, asked of an object store."""

    def __str__(self) -> str:
        scheme, *names = self.parts
        return f"{scheme}//{'/'.join(names)}"

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        return self._info() is not None

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        info = self._info()
        return info is not None and info["type"] == "directory"

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        info = self._info()
        return info is not None and info["type"] == "file"

    def is_symlink(self) -> bool:
        return False

    def absolute(self) -> UrlPath:
        return self

    def resolve(self, strict: bool = False) -> UrlPath:
        return self

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        info = self._info()
        if info is None:
            raise FileNotFoundError(str(self))
        kind = stat.S_IFREG if info["type"] == "file" else stat.S_IFDIR
        return os.stat_result((kind, 0, 0, 0, 0, 0, info["size"] or 0, 0, 0, 0))

    def iterdir(self) -> Generator[UrlPath, None, None]:
        with _Fetching(self):
            system, place = self._system()
            entries = [entry["name"].rstrip("/") for entry in system.ls(place, detail=True)]
            names = {entry.rpartition("/")[2] for entry in entries if entry.strip("/") != place.strip("/")}
        yield from (self / name for name in sorted(names))

    def glob(self, pattern: str) -> Generator[UrlPath, None, None]:  # type: ignore[override,unused-ignore]
        """Yield what lies directly in this folder and has a name of this pattern."""
        return (entry for entry in self.iterdir() if fnmatchcase(entry.name, pattern))

    def read_bytes(self) -> bytes:
        return self.fetch(None, None)

    def read_text(self, encoding: str | None = None, errors: str | None = None, newline: str | None = None) -> str:
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def fetch(self, first: int | None, last: int | None) -> bytes:
        """Return a range of the file's bytes, all where none is given; fewer at its end."""
        with _Fetching(self):
            system, place = self._system()
            content: bytes = system.cat_file(place, start=first, end=last)
        return content

    def _info(self) -> dict[str, Any] | None:
        """Return the kind and size of what is there, None where nothing is."""
        with _Fetching(self):
            system, place = self._system()
            try:
                info: dict[str, Any] = system.info(place)
            except (FileNotFoundError, NotADirectoryError):
                return None
        return info

    def _system(self) -> tuple[Any, str]:
        """Return the file system of this URL and the place in it; its options are fsspec's own settings."""
        try:
            from fsspec.core import url_to_fs
        except ModuleNotFoundError:
            raise ConfigError(f"{self} is a URL, which needs fsspec; `pip install torchparity[url]` adds it.") from None
        system, place = url_to_fs(str(self))
        return system, str(place)


class _Fetching(AbstractContextManager[None]):
    """Whatever a store's own library raises becomes one sentence; there is no common class of such errors."""

    def __init__(self, path: UrlPath) -> None:
        self._path = path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, ParityError):
            return
        if isinstance(error, FileNotFoundError):
            raise RunNotFoundError(f"{self._path} does not exist.") from None
        text = str(error).strip().splitlines() or [type(error).__name__]
        reason = text[0][:_LONGEST_REASON].rstrip(". ")
        if isinstance(error, (ImportError, ValueError)):  # a scheme that is unknown, or whose package is missing
            raise ConfigError(f"{self._path} cannot be read: {reason}.") from None
        raise DamagedFileError(str(self._path), f"it cannot be fetched ({reason})") from None
