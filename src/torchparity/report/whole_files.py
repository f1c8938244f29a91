"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from torchparity.errors import RunWriteError

_POLARS_REASON = re.compile(r"([^:]+) \(os error \d+\)")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield the name to write to; rename it to `path` in the end, or remove it if anything goes wrong."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        raise RunWriteError(path, _reason(error)) from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _reason(error: OSError) -> str:
    """Return why, without the path: polars has its reasons in the text alone."""
    text = error.strerror or str(error)
    found = _POLARS_REASON.search(text)
    return (found[1] if found else text).strip()
