"""Training data settings, and the model to start from."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from heedful.errors import UserError
from heedful.settings.ranges import LongText, check_encoding, in_range

DataFormat = Literal["csv", "tsv", "jsonl", "parquet", "text", "conll", "images"]


class Unnamed(str):
    """Default name of a column, which is optional as long as the user does not name it."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnSettings:
    """Which columns of the files hold the texts and the labels."""

    text: str = "text"
    """Column of the text, by name or by number from 1; several, separated by commas, are joined."""
    text_pair: str | None = None
    """Column of the second text of a pair."""
    label: str | None = Unnamed("label")
    """Column of the label; default: label; for embed none."""
    header: bool = True
    """The first line names the columns."""
    label_separator: str | None = None
    """Separator between several labels in one row."""
    format: DataFormat | None = None
    """Format of the files; default: by file extension. images: one folder of images for each
    class."""
    encoding: str = "utf-8"
    """How the files store characters, such as gb18030 (also GBK and GB2312) or big5."""

    def __post_init__(self) -> None:
        """Refuse an empty separator and an unknown encoding.

        Raises:
            UserError: naming the option.
        """
        check_encoding(self.encoding)
        if self.label_separator == "":
            raise UserError("--label-separator: empty; give what stands between two labels")


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSettings:
    """How to read files without columns."""

    encoding: str = "utf-8"
    """How the files store characters, such as gb18030 (also GBK and GB2312) or big5."""


DEFAULT_MODEL = "minilm"


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSettings:
    """Training data and the model to start from, the same for every task."""

    train: list[Path]
    """Training files in the task's format, also compressed (.gz, .bz2, .xz, .zst)."""
    dev: list[Path] | None = None
    """Files to evaluate on during training; the best step is kept."""
    model: str = DEFAULT_MODEL
    """Model to start from: a folder, a run, an installed model or a hub name."""
    revision: str | None = None
    """Commit, tag or branch of a hub name."""
    max_length: int | None = None
    """Longest input in tokens; default: all of the model's positions; for pretrain at most 128."""
    long_text: LongText | None = None
    """What to read of a longer text: all of it in windows, its head, or its head and tail; or
    refuse it; the default depends on the task."""
    dropout: float | None = None
    """Dropout probability; default: as the model says."""
    prune: float | None = None
    """Share of attention heads to prune from --model, a run of this task: the least important."""
    fresh_pooler: bool = False
    """Initialize the pooler at random: if it learnt next-sentence prediction from little text, it
    is a poor start for other tasks."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        what = "a whole number of at least 1"
        in_range("max_length", self.max_length, 1, math.inf, what=what)
        in_range("prune", self.prune, 0, math.nextafter(1, 0), what="from 0 to below 1")
        in_range("dropout", self.dropout, 0, math.nextafter(1, 0), what="from 0 to below 1")

    def refuse_model(self) -> None:
        """Refuse --model together with --preset, which starts from scratch.

        Raises:
            UserError: the model is not the default.
        """
        if self.model != DEFAULT_MODEL:
            raise UserError(
                f"give --preset to start from scratch, or --model {self.model} to start from that "
                "model, not both"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelSettings:
    """Training data of a translation, and the run to start from."""

    train: list[Path]
    """Two line-aligned text files, sources and translations, or tables with a column for each; also
    compressed (.gz, .bz2, .xz, .zst)."""
    dev: list[Path] | None = None
    """Files to evaluate on during training; the best step is kept."""
    model: str | None = None
    """Run to continue from; default: train from scratch."""
    revision: str | None = None
    """Commit, tag or branch of a hub name."""
    max_length: int = 128
    """Maximum tokens of a source and of its translation; longer pairs are skipped."""
    dropout: float | None = None
    """Dropout probability; default: as the model says."""
    prune: float | None = None
    """Share of attention heads to prune from --model, a Transformer: the least important."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        in_range("max_length", self.max_length, 8, 1024, what="from 8 to 1,024")
        in_range("prune", self.prune, 0, math.nextafter(1, 0), what="from 0 to below 1")
        in_range("dropout", self.dropout, 0, math.nextafter(1, 0), what="from 0 to below 1")
