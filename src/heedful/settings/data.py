"""What a run learns from and what it starts with."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from heedful.errors import UserError
from heedful.settings.ranges import LongText, in_range


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnSettings:
    """Where the texts and the labels stand in the files."""

    text: str = "text"
    """Column of the text, by its name or its number from 1; several with commas are joined."""
    text_pair: str | None = None
    """Column of a second text, for decisions on pairs."""
    label: str | None = "label"
    """Column of the label."""
    header: bool = True
    """Whether the first line names the columns."""
    label_separator: str | None = None
    """Character between the labels of one item; giving it allows several labels an item."""
    format: Literal["csv", "tsv", "jsonl", "parquet", "text", "conll"] | None = None
    """Format of the files, where their names do not tell."""

    def __post_init__(self) -> None:
        """Refuse an empty separator.

        Raises:
            UserError: naming the option.
        """
        if self.label_separator == "":
            raise UserError("--label-separator: empty; give what stands between two labels")


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSettings:
    """What a run learns from and what it starts with, the same for every task."""

    train: list[Path]
    """Training files: of the task's format, also with .gz."""
    dev: list[Path] | None = None
    """Files to evaluate on while training; the best step is kept."""
    model: str = "minilm"
    """Model to start from: a folder, a run, an installed model or a hub name."""
    revision: str | None = None
    """Commit, tag or branch of a hub name."""
    max_length: int | None = None
    """Tokens the model is given at once; default: all it has positions for."""
    long_text: LongText | None = None
    """What to learn from a longer text: windows, its head, or both its ends; or refuse it; default:
    by task."""
    dropout: float | None = None
    """Dropout probability; default: the model's own."""
    prune: float | None = None
    """Share of heads to take out of --model, a run of this task: those that matter least."""
    fresh_pooler: bool = False
    """Start the pooler fresh: one that learnt on little text whether sentences follow each other
    is a poor start for anything else."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        in_range("prune", self.prune, 0, math.nextafter(1, 0), what="from 0 to below 1")
        in_range("dropout", self.dropout, 0, math.nextafter(1, 0), what="from 0 to below 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelSettings:
    """What a translation run learns from and what it starts with."""

    train: list[Path]
    """Two plain files, line by line translations of each other (texts, then translations), or
    tables with a column of each; also with .gz."""
    dev: list[Path] | None = None
    """Files to evaluate on while training; the best step is kept."""
    model: str | None = None
    """Run to go on from; default: from scratch."""
    revision: str | None = None
    """Commit, tag or branch of a hub name."""
    max_length: int = 128
    """The most tokens of a text and of its translation; longer pairs are not learnt from."""
    dropout: float | None = None
    """Dropout probability; default: the model's own."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        in_range("max_length", self.max_length, 8, 1024, what="from 8 to 1,024")
        in_range("dropout", self.dropout, 0, math.nextafter(1, 0), what="from 0 to below 1")
