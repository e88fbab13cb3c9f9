"""Progress bars on standard error, shown only in a terminal or a notebook."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from heedful.training import ranks

if TYPE_CHECKING:  # rich is imported lazily: predictions do not need it
    from rich.console import Console

    from heedful.training.loop import StepResult

Item = TypeVar("Item")

# Weight of the newest step in the smoothed figures: averages about the last 20 steps.
_SMOOTHING = 0.1


_NOTEBOOK_WIDTH = 115
"""Characters per line: the bar fits on one line, which a notebook can overwrite."""


def console() -> "Console":
    """Return a console on standard error, so that standard output can be piped.

    A notebook gets the terminal output without colours. Rich's own notebook output needs ipywidgets
    and shows a warning instead of the bar if they are not installed.
    """
    from rich.console import Console

    in_notebook = Console().is_jupyter
    return Console(
        stderr=True,
        highlight=False,
        soft_wrap=True,
        force_jupyter=False,
        force_terminal=in_notebook or None,
        color_system=None if in_notebook else "auto",
        width=_NOTEBOOK_WIDTH if in_notebook else None,
    )


@contextmanager
def training_bar(total_steps: int, done: int) -> "Iterator[Callable[[StepResult], None]]":
    """Show the progress of a run; yield a function to call with each step."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("step"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:7.4f}"),
        TextColumn("{task.fields[rate]:9,.0f} tokens/s"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=(screen := console()),
        disable=not screen.is_terminal,
    )
    task = bar.add_task("train", total=total_steps, completed=done, loss=float("nan"), rate=0.0)
    loss: float | None = None
    tokens = seconds = 0.0

    def show(step: "StepResult") -> None:
        nonlocal loss, tokens, seconds
        loss = step.loss if loss is None else loss + _SMOOTHING * (step.loss - loss)
        tokens += _SMOOTHING * (step.tokens - tokens)
        seconds += _SMOOTHING * (step.seconds - seconds)
        bar.update(task, completed=step.step, loss=loss, rate=tokens / max(seconds, 1e-9))

    with bar:
        yield show


def counted(items: Iterable[Item], what: str) -> Iterator[Item]:
    """Yield the items and show how many have passed; see `counting`."""
    with counting(what) as count:
        for item in items:
            yield item
            count(1)


@contextmanager
def counting(what: str, before: int = 0) -> Iterator[Callable[[int], None]]:
    """Show a count of items without a known total; yield a function that adds to the count.

    Only the first rank shows it.

    Args:
        what: label of the count.
        before: number of items that an earlier process has done. They do not count in the rate.
    """
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(what),
        TextColumn("{task.completed:,.0f}"),
        TextColumn("{task.fields[rate]:,.0f}/s"),
        TimeElapsedColumn(),
    )
    screen = console()
    shown = screen.is_terminal and ranks.is_first()
    with Progress(*columns, console=screen, disable=not shown) as bar:
        task = bar.add_task(what, total=None, completed=before, rate=0.0)

        def count(items: int) -> None:
            bar.advance(task, items)
            done = bar.tasks[0].completed - before
            bar.update(task, rate=done / max(bar.tasks[0].elapsed or 0, 1e-9))

        yield count
