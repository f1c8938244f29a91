"""Finds the run that a path of an earlier tool means, and names its neighbours where there is none."""

from __future__ import annotations

from pathlib import Path

from torchparity.errors import ConfigError, RunNotFoundError, nearest

_MOST_LISTED = 8


def recorded_run(path: str | Path) -> Path:
    """Return the path; raise `RunNotFoundError` with the runs beside it where nothing was recorded there."""
    if not isinstance(path, (str, Path)):
        raise ConfigError(f"compare takes the path of a run, as set_dump_path was given it, not {path!r}.")
    run = Path(path)
    if run.exists():
        return run
    beside = sorted(each.name for each in run.parent.glob("*") if is_run(each)) if run.parent.is_dir() else []
    listed = ", ".join(beside[:_MOST_LISTED]) if beside else "nothing"
    raise RunNotFoundError(f"no run was recorded at {run}.{nearest(run.name, beside)} Recorded beside it: {listed}.")


def is_run(folder: Path) -> bool:
    """Tell whether a folder is a run, or a step of one."""
    return folder.is_dir() and any(next(folder.glob(pattern), None) for pattern in ("step*", "dump.json", "rank*"))
