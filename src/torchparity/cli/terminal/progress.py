"""The progress bar: shown on a terminal, nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Show = Callable[[str, int, int], None]


@contextmanager
def progress(*, rate: bool = False) -> Iterator[Show]:
    """Give a function to call with what is being done, how much of it is done, and of how much (0: unknown).

    `rate` shows how many are done in a second and how long the rest will take.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda what, done, of: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:.0f}/s" if speed else "")

    columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    columns += [TimeElapsedColumn(), *([Rate(), TextColumn("left"), TimeRemainingColumn()] if rate else [])]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("comparing", total=None)
        yield lambda what, done, of: bar.update(task, description=what, completed=done, total=of or None)
