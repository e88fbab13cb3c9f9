"""Logging of steps and evaluations: rows of ``metrics.jsonl`` and, optionally, TensorBoard."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heedful.checkpoints import runs
from heedful.extras import missing
from heedful.settings import TrainSettings
from heedful.training import ranks
from heedful.training.loop import StepResult

Log = Callable[[int, dict[str, Any]], None]
"""Logs a row for a step, given its number."""


def step_row(step: StepResult) -> dict[str, object]:
    """Return the log row of a step."""
    return {
        "epoch": step.epoch,
        "loss": step.loss,
        "learning_rate": step.learning_rate,
        "gradient_norm": step.gradient_norm if math.isfinite(step.gradient_norm) else None,
        "tokens": step.tokens,
        "tokens_per_second": round(step.tokens / max(step.seconds, 1e-9), 1),
    }


def scores_row(scores: dict[str, Any]) -> dict[str, object]:
    """Return the log row of an evaluation: its numeric scores."""
    return {"dev": {name: value for name, value in scores.items() if _is_number(value)}}


def check_log(training: TrainSettings) -> None:
    """Check that what is requested can be logged, before anything is written.

    Raises:
        UserError: TensorBoard is requested but not installed.
    """
    if training.tensorboard:
        _summary_writer()


@contextmanager
def metrics_log(run: Path, tensorboard: bool, done: int) -> Iterator[Log]:
    """Yield a function that adds a row to ``metrics.jsonl`` and, optionally, to TensorBoard.

    Args:
        run: the run folder.
        tensorboard: whether to log to TensorBoard.
        done: the step to resume from. TensorBoard hides logged data of later steps.
    """
    writer = None
    if tensorboard and ranks.is_first():
        writer = _summary_writer()(log_dir=str(run / "tensorboard"), purge_step=done + 1)

    def log(step: int, row: dict[str, Any]) -> None:
        if not ranks.is_first():
            return
        runs.append_metrics(run, {"step": step, **row})
        if writer:
            flat = {f"dev/{k}": v for k, v in row["dev"].items()} if "dev" in row else row
            for name, value in flat.items():
                if _is_number(value):
                    writer.add_scalar(name, value, step)

    try:
        yield log
    finally:
        if writer:
            writer.close()


def _summary_writer() -> Any:
    """Return the class that writes TensorBoard event files."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise missing("tensorboard") from None
    return SummaryWriter


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
