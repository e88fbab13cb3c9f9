"""What is exported: a finished run, or a model of another program that heedful reads."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedful.checkpoints import runs
from heedful.checkpoints.runs import RunRecord
from heedful.models.loading import load_model
from heedful.models.model import Model
from heedful.tokens import load_tokenizer


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Source:
    """A model with all that its answers depend on."""

    folder: Path
    record: RunRecord
    model: Model
    """In evaluation mode, on the CPU, in float32."""
    tokenizer: Any


def open_source(run: Path) -> Source:
    """Load a finished run.

    Raises:
        UserError: it is none, or one of its files is damaged.
    """
    record = runs.read_finished(run)
    return Source(folder=run, record=record, model=load_model(run), tokenizer=load_tokenizer(run))
