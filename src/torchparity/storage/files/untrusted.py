"""Opening untrusted files: regular files only, inside their folder, never through a symbolic link."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from torchparity.errors import DamagedFileError, RunNotFoundError, UnsafeFileError
from torchparity.storage.files.urls import UrlPath

_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def open_plain(path: Path | str) -> int:
    """Return a descriptor of a plain file; refuse links, pipes and devices by name."""
    return open_sized(path)[0]


def open_sized(path: Path | str) -> tuple[int, int]:
    """Return a descriptor of a plain file and its size."""
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to would wait forever.
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        raise RunNotFoundError(f"{path} does not exist.") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnsafeFileError(path, "it is a symbolic link, which is not followed inside a run") from None
        raise DamagedFileError(path, f"it cannot be opened ({error.strerror})") from None
    except ValueError as error:
        raise UnsafeFileError(repr(str(path)), f"no file can have this name ({error})") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise UnsafeFileError(path, "it is not a plain file")
    return descriptor, status.st_size


def read_file(path: Path) -> bytes:
    """Return the content of a plain file."""
    if isinstance(path, UrlPath):
        return path.read_bytes()
    with open(open_plain(path), "rb") as file:
        try:
            return file.read()
        except OSError as error:
            raise DamagedFileError(path, f"it cannot be read ({error.strerror})") from None


def look_for(path: Path | str) -> None:
    """Raise as opening does where there is no plain file; reads nothing of it."""
    if not isinstance(path, UrlPath):
        os.close(open_plain(path))
    elif not path.is_file():
        raise RunNotFoundError(f"{path} does not exist.")


def inside(folder: Path, name: str, named_by: str) -> Path:
    """Return the path of `name` in `folder`; refuse anything that is not a plain file name."""
    return folder / plain_name(folder, name, named_by)


def plain_name(folder: Path, name: str, named_by: str) -> str:
    """Return the name unchanged; refuse one that could lead out of `folder`."""
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise UnsafeFileError(
            folder, f"{named_by} names the file {name!r}, which is not a plain name inside this folder"
        )
    return name
