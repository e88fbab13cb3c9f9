"""A progress bar on standard error: silent when that is not a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from heedful.training.loop import Done

# The share of the newest step in the smoothed figures shown: about the last 20 steps.
_NEWEST = 0.1


def console() -> Console:
    """Return the console for people: standard error, so that results can be piped."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def training_bar(total_steps: int, done: int) -> Iterator[Callable[[Done], None]]:
    """Show a run's progress: give a function to call with each step."""
    bar = Progress(
        TextColumn("step"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TextColumn("{task.fields[rate]:,.0f} tokens/s"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=(screen := console()),
        disable=not screen.is_terminal,
    )
    task = bar.add_task("train", total=total_steps, completed=done, loss=float("nan"), rate=0.0)
    loss: float | None = None
    tokens = seconds = 0.0

    def show(step: Done) -> None:
        nonlocal loss, tokens, seconds
        loss = step.loss if loss is None else loss + _NEWEST * (step.loss - loss)
        tokens += _NEWEST * (step.tokens - tokens)
        seconds += _NEWEST * (step.seconds - seconds)
        bar.update(task, completed=step.step, loss=loss, rate=tokens / max(seconds, 1e-9))

    with bar:
        yield show
