"""Settings for run_ut that a collection leaves beside its forward_info: run_ut is another program, at another time.

run_ut_settings_{pid}.json      {"error_data_path": folder in which run_ut -save_error_data makes its own}
"""

from __future__ import annotations

import json
from pathlib import Path

from torchparity.errors import DamagedFileError
from torchparity.storage.encoding.json_text import read_document
from torchparity.whole_file import whole_file

_ERROR_DATA_PATH = "error_data_path"


def write_run_ut_settings(forward: Path, error_data_path: Path) -> None:
    """Write the settings beside a forward_info."""
    with whole_file(_beside(forward)) as temporary:
        temporary.write_text(json.dumps({_ERROR_DATA_PATH: str(error_data_path.absolute())}), encoding="utf-8")


def collected_error_data_path(forward: Path) -> Path | None:
    """Return the error_data_path that the collection of a forward_info was given; None where it was given none."""
    path = _beside(forward)
    if path == forward or not path.is_file():
        return None
    document = read_document(path)
    found = document.get(_ERROR_DATA_PATH) if isinstance(document, dict) else None
    if not isinstance(found, str):
        raise DamagedFileError(path, f"it has no {_ERROR_DATA_PATH}, which is all that such a file is for")
    return Path(found)


def _beside(forward: Path) -> Path:
    return forward.with_name(forward.name.replace("forward_info", "run_ut_settings"))
