"""Writing a file whole or not at all, refusing a folder beforehand, `~` in paths, and an `OSError` in words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from torchparity.errors import RunWriteError

_LONGEST_STEM = 240  # bytes; a file name has up to 255, and the temporary name adds some
_REASON_IN_TEXT = re.compile(r"([^:]+) \(os error \d+\)")


@contextmanager
def whole_file(path: Path, *, make_folder: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write to; rename it to `path` at the end, or remove it if anything goes wrong.

    An `OSError` inside the block becomes a `RunWriteError` about `path`. The folder of `path` is
    created where it is missing, unless `make_folder` is False.
    """
    temporary = path.with_name(f".{_shortened(path.name)}.part")
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        raise RunWriteError(path, reason_of(error)) from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def refuse_unwritable(folder: Path) -> None:
    """Raise `RunWriteError` where nothing can be written into a folder, or it cannot be made; make nothing.

    Before an hour of work, not after it.
    """
    there = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
    if not there.is_dir():
        raise RunWriteError(folder, "not a directory")
    if not os.access(there, os.W_OK | os.X_OK):
        raise RunWriteError(folder, "permission denied")


def with_home(path: str | Path) -> Path:
    """Return a path with the folder of a user in place of `~`; it stays where there is no such user, as in a shell."""
    path = path if isinstance(path, Path) else Path(path)  # that of a URL has a class of its own
    with suppress(RuntimeError):  # there is no such user
        return path.expanduser()
    return path


def reason_of(error: OSError) -> str:
    """Return why the system refused, without the path: "no space left on device"."""
    text = error.strerror or str(error)
    # polars and safetensors, written in Rust, have the reason inside their text alone.
    in_text = _REASON_IN_TEXT.search(text)
    return (in_text[1] if in_text else text).strip().lower()


def _shortened(name: str) -> str:
    return name.encode(errors="surrogateescape")[:_LONGEST_STEM].decode(errors="ignore")
