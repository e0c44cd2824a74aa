"""A progress bar on standard error, shown on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(title: str, total: int, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Show a bar and yield the function that advances it by a number of steps; it disappears at the end."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not (shown and console.is_terminal)) as bar:
        task = bar.add_task(title, total=total)
        yield lambda steps: bar.advance(task, steps)
