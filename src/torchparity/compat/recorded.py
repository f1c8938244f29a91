"""Finds the run that a path of an earlier tool means, and names its neighbours where there is none."""

from __future__ import annotations

from pathlib import Path

from torchparity.errors import ConfigError, RunNotFoundError, nearest

_MOST_LISTED = 8
_FILES = ("dump.json", "debug.json")


def recorded_run(path: str | Path) -> Path:
    """Return the path; raise `RunNotFoundError` with what is recorded beside it where nothing is there."""
    if not isinstance(path, (str, Path)):
        raise ConfigError(f"compare takes the path of a run, as set_dump_path was given it, not {path!r}.")
    run = Path(path)
    if run.exists():
        return run
    missing = next(each for each in reversed((run, *run.parents)) if not each.exists())
    beside = sorted(each.name for each in missing.parent.glob("*") if is_run(each) or each.name in _FILES)
    listed = ", ".join(beside[:_MOST_LISTED]) if beside else "nothing"
    raise RunNotFoundError(
        f"no run was recorded at {run}.{nearest(missing.name, beside)} Recorded beside it: {listed}."
    )


def is_run(folder: Path) -> bool:
    """Tell whether a folder is a run, or a step of one."""
    return folder.is_dir() and any(next(folder.glob(pattern), None) for pattern in ("step*", "dump.json", "rank*"))
