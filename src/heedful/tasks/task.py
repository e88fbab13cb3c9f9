"""What a task is: a record of plain functions, one for each thing that tasks do differently.

Training, evaluation and prediction call these and are otherwise the same for every task. Each task
is one file of this folder; the table of all of them is ``heedful.tasks.TASKS``.

Shapes: B items of a batch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from torch import Tensor

from heedful.batches import Batch, Draw, Example, Fitted
from heedful.models import Head
from heedful.models.model import Model
from heedful.reading import Text
from heedful.settings import ColumnSettings, DataSettings, LongText, PredictSettings
from heedful.tokens import load_tokenizer

# Types that each task has of its own; see the fields of ``Task``.
Record: TypeAlias = Any
Goal: TypeAlias = Any
Answer: TypeAlias = Any
Settings: TypeAlias = Any
Tokenizer: TypeAlias = Any
Output: TypeAlias = Any

Forward = Callable[..., Any]
"""A model, or what calls it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """What an encoded item must fit into."""

    max_length: int
    """The most tokens of an example, special tokens included."""
    rule: LongText
    """What is done with a longer text."""


def encoder_options(data: DataSettings) -> dict[str, Any]:
    """Return what a model whose encoder reads texts is loaded with, whatever is put on it."""
    return {
        "is_decoder": False,  # a run of generate, which could not look ahead, now can
        "dropout": data.dropout,
        "revision": data.revision,
    }


class Scores(Protocol):
    """Collects answers and what is true, and gives their scores."""

    def update(self, answers: Sequence[Answer], records: Sequence[Record]) -> None:
        """Count a batch of answers to records that hold the truth."""

    def compute(self) -> dict[str, Any]:
        """Return the scores of everything counted, ready for JSON.

        Raises:
            UserError: nothing was counted.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """The functions of a task."""

    name: str
    """What stands after ``heedful train``."""
    head: Head | None
    """What its models decide; None where the folder of a run says so."""
    goal: type[Any]
    """Frozen dataclass of plain values: what a run learns, and must know to answer. It is decided
    once, from the training data, and kept in ``heedful.json``."""
    read: Callable[[Sequence[Path], ColumnSettings, bool], Iterator[Record]]
    """Files, where their columns stand, and whether the truth is wanted, to the task's records, one
    at a time."""
    from_texts: Callable[[Sequence[Text]], list[Record]]
    """Texts, or pairs of texts, to records without truth."""
    goal_of: Callable[[Iterable[Record], ColumnSettings, Settings], Goal]
    """The training records in one pass, the columns and the task's own settings, to the goal."""
    check: Callable[[Record, Goal], None]
    """Raise where a record's truth is none that the goal knows."""
    metrics: Callable[[Goal], tuple[str, ...]]
    """Scores that can pick the best step; the first does unless told otherwise."""
    encode: Callable[[Iterable[Record], Goal, Tokenizer, Fit, bool], Iterator[Fitted[Example]]]
    """Records to examples, with labels if the last argument is true: one result a record, of
    several examples where a long text is read in windows."""
    build: Callable[[Goal, Settings], Model]
    """The goal and the settings of data and model to the model to train: with a fresh head unless
    it has one for this goal, or all of it fresh."""
    batch_of: Callable[[Sequence[Example], Goal, Tokenizer, Draw | None], Batch]
    """Examples to a padded batch. With a draw they are learnt from or scored; without one there are
    no labels."""
    loss: Callable[[Forward, Batch, Goal], tuple[Tensor, Tensor]]
    """The sum of a batch's losses and the count to divide it by; of several losses, whose means
    are added, one sum and one count each."""
    count: Callable[[Batch, Goal], float | Tensor]
    """That count, before anything is computed."""
    compute: Callable[[Forward, Batch, Goal, PredictSettings], Sequence[Output] | Tensor]
    """A batch to what ``decode`` wants of each of its B examples; of a tensor, one row."""
    decode: Callable[
        [Record, Fitted[Example], Sequence[Output], Goal, PredictSettings, Tokenizer], Answer
    ]
    """A record, its examples, and what was computed for each of them, to the answer: a frozen
    dataclass with ``tokens_total`` and ``tokens_used``."""
    row: Callable[[Answer, bool], dict[str, Any]]
    """An answer, and whether everything is wanted, to a JSON object."""
    plain: Callable[[Answer], str]
    """An answer to one line of text."""
    scores: Callable[[Goal], Scores]
    """Empty scores."""
    card: Callable[[Goal], str]
    """What a run of this goal does, in a sentence or two for its model card."""
    load_tokenizer: Callable[[Path], Tokenizer] = load_tokenizer
    """The tokenizer of a finished run."""
    doubt: Callable[[Sequence[Record], Goal], str | None] = lambda *given: None
    """The first records that are to be scored: what is odd about them, in a line for the user."""
    write_beside: Callable[[Goal, Model, int, Path], None] = lambda *given: None
    """The goal, the model, its maximum length and the folder of the run: writes there what other
    libraries want beside the model."""
    per_item: Callable[[Goal], int] = lambda goal: 1
    """How many examples, one after another, make one item of a batch."""
    whole_batch: bool = False
    """Whether an item's loss depends on the others of its batch, which is then never split."""
    long_text: Callable[[Goal], LongText] = lambda goal: "head"
    """What is learnt from a text that is too long, unless the user says otherwise."""
    example: str = '"a text"'
    """What a user may put after ``heedful predict RUN`` to try it."""
    answer_options: frozenset[str] = frozenset()
    """Fields of ``PredictSettings`` that decide its answers, beside those that every task has."""
    uses_columns: bool = True
    """Whether the files are tables whose columns the user names."""
    learns_from_corpus: bool = False
    """Whether it learns from running text, not from records: `heedful.commands.pretrain`."""
