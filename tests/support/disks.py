"""Disks that are small enough to be filled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount a file system of this size at a new folder; skip the test where this process may not mount one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("this process may not mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
