"""What a task is: what training, evaluation and prediction ask of each of them.

A task is a frozen dataclass. Its fields are what a run decided from its training data and must know
to answer, plain values that ``heedful.json`` keeps; its methods are what tasks do differently. The
tasks themselves are in ``heedful.tasks``, one file each; the table of them is
``heedful.settings.TASKS``.

Shapes: B examples of a batch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, TypeVar

from torch import Tensor

from heedful.aim import Aim, Computed
from heedful.batches import Batch, Draw, Example, Fitted, Store
from heedful.batches.stream import Chunks
from heedful.errors import UserError, with_article
from heedful.judging import Judge
from heedful.lesson import Lesson
from heedful.models import Head
from heedful.models.loading import load_model
from heedful.models.model import Model
from heedful.reading import Text
from heedful.settings import (
    HEAD_RATE,
    ColumnSettings,
    LongText,
    ParallelSettings,
    PredictSettings,
    RunSettings,
    ScoreSettings,
    TeacherSettings,
    TrainSettings,
)

RecordT = TypeVar("RecordT")
"""What is read from files or made from texts, perhaps with the truth."""
OutputT = TypeVar("OutputT")
"""What the model's outputs come to for one example, on the CPU."""
AnswerT = TypeVar("AnswerT", bound="Answer")

Ability = Literal["write", "continue", "prefix", "align", "embed", "fill", "see"]
"""What only some runs can do: write texts, by going on with what they read or otherwise, begin them
as is wanted, link their words to those that were read, give vectors, fill masks, read pictures."""

Forward = Callable[..., Any]
"""A model, or what calls it."""

Say = Callable[[str], None]
"""Takes a line meant for the user."""

SAMPLE = 1000
"""Records that are looked at for what is odd about all of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """One of the texts that an item consists of."""

    name: str
    """What it is, such as ``question``."""
    several: bool = False
    """Whether it is any number of texts, as choices are; only the last input can be."""
    optional: bool = False
    """Whether it may be left out."""


class Answer(Protocol):
    """The answer for one record: a frozen dataclass."""

    @property
    def tokens_total(self) -> int:
        """Tokens of the record's texts."""

    @property
    def tokens_used(self) -> int:
        """Tokens that the model was given."""

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the answer ready for JSON; on request with everything that was scored."""

    def plain(self) -> str:
        """Return the answer alone, on one line."""


_ScoredAnswer = TypeVar("_ScoredAnswer", contravariant=True)
_ScoredRecord = TypeVar("_ScoredRecord", contravariant=True)


class Scores(Protocol[_ScoredAnswer, _ScoredRecord]):
    """Collects answers and what is true, and gives their scores."""

    def update(self, answers: Sequence[_ScoredAnswer], records: Sequence[_ScoredRecord]) -> None:
        """Count a batch of answers to records that hold the truth."""

    def compute(self) -> dict[str, Any]:
        """Return the scores of everything counted, ready for JSON.

        Raises:
            UserError: nothing was counted.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """What an encoded item must fit into."""

    max_length: int
    """The most tokens of an example, special tokens included."""
    rule: LongText
    """What is done with a longer text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """All settings of a training run."""

    data: Any
    """`DataSettings` or `ParallelSettings`, as the task's entry in the table says."""
    options: Any
    """The settings that the task alone has."""
    columns: ColumnSettings
    training: TrainSettings
    run: RunSettings
    teaching: TeacherSettings = field(default_factory=TeacherSettings)

    @property
    def from_scratch(self) -> bool:
        """Whether the model is a new one, rather than one that goes on."""
        if isinstance(self.data, ParallelSettings):
            return self.data.model is None
        return getattr(self.options, "preset", None) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """What a run starts with."""

    tokenizer: Any
    model: Model
    max_length: int
    """Tokens that the model is given at once."""


StoreOf = Callable[[int], Store]
"""The number of an epoch to its examples; asked for in order, and again for the same epoch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shards:
    """Training data that is read by stream."""

    count: int
    """How many shards there are."""
    side_by_side: int
    """How many are read at once."""
    buffer: int
    """Examples that are mixed with each other."""
    chunks: Chunks
    processes: int | None
    """How many read beside this one; None leaves it to where the model is computed."""


class Task(Protocol[RecordT, OutputT, AnswerT]):
    """One thing that can be learnt, with what a run of it decided from its data."""

    __dataclass_fields__: ClassVar[dict[str, Any]]  # it is a dataclass
    name: ClassVar[str]
    """What stands after ``heedful train``."""
    unsaid: ClassVar[frozenset[str]] = frozenset()
    """Fields of what is learnt that the settings in a run's record do not tell, ready for JSON."""
    whole_batch: ClassVar[bool] = False
    """Whether an item's loss depends on the others of its batch, which is then never split."""
    two_sided: ClassVar[bool] = False
    """Whether an example's labels, too, are tokens that are padded."""
    dev_beam: ClassVar[int] = PredictSettings().beam
    """Texts kept while one is written, in evaluations while training."""
    head_rate: ClassVar[float] = HEAD_RATE
    """How many times faster a fresh head learns than what is under it."""
    betas: ClassVar[tuple[float, float]] = (0.9, 0.999)
    epsilon: ClassVar[float] = 1e-8
    """Constants of AdamW."""

    @property
    def example(self) -> str:
        """What a user may put after ``heedful predict RUN`` to try it."""
        return '"a text"'

    @property
    def abilities(self) -> frozenset[Ability]:
        """What only some runs can do."""
        return frozenset()

    @property
    def answer_options(self) -> frozenset[str]:
        """Fields of ``PredictSettings`` that decide its answers, beside those of every task."""
        return frozenset()

    @property
    def tells_more(self) -> bool:
        """Whether its answers hold more than they tell unasked; see `Answer.to_dict`."""
        return "fill" not in self.abilities

    # Records.

    def read(
        self, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[RecordT]:
        """Stream records from files, with the truth if it is wanted.

        Raises:
            UserError: naming the file and line of the first record that cannot be used.
        """
        ...

    def from_texts(self, texts: Sequence[Text], first: int = 1) -> list[RecordT]:
        """Make records without truth of texts, or pairs of them; messages count from ``first``."""
        ...

    @classmethod
    def decide(cls, recipe: Recipe) -> Self:
        """Decide what is learnt, from the settings and one pass over the training data.

        Raises:
            UserError: the data is not what the settings say, or holds nothing to learn.
        """
        ...

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The texts that an item consists of, in the order in which `from_texts` takes them."""
        return (Input(name="text"),)

    def scorable(self, records: Iterator[RecordT], say: Say) -> Iterator[RecordT]:
        """Pass over records that hold nothing to score, and say in the end how many those were."""
        return records

    def check(self, record: RecordT) -> None:
        """Raise where a record's truth is none that this run knows."""
        return

    def doubt(self, records: Sequence[RecordT]) -> str | None:
        """Say in a line what is odd about the first records that are to be scored, if anything."""
        return None

    def check_files(self, recipe: Recipe, say: Say) -> None:
        """Refuse development data that a model could not be scored on, before training.

        Raises:
            UserError: naming the file and line.
        """
        if recipe.data.dev is None:
            return
        records = self.scorable(self.read(recipe.data.dev, recipe.columns, labelled=True), say)
        sample = list(islice(records, SAMPLE))
        if line := self.doubt(sample):
            say(f"--dev: {line}")
        for record in chain(sample, records):
            self.check(record)

    # Training.

    def metrics(self) -> tuple[str, ...]:
        """Name the scores that can pick the best step; the first does unless told otherwise."""
        ...

    def start(self, recipe: Recipe) -> Start:
        """Load or make the tokenizer and the model; what is drawn follows the recipe's seed.

        Raises:
            UserError: there is no such model, or it does not suit.
        """
        ...

    @classmethod
    def streams(cls, recipe: Recipe) -> bool:
        """Tell whether the training data is read while it is learnt from, by `shards`."""
        return False

    def stores(
        self, recipe: Recipe, start: Start, folder: Path, say: Say
    ) -> tuple[Self, Start, StoreOf]:
        """Encode the training data into files of a folder.

        Returns:
            The task and its start, with what only the encoded data could tell; and the examples.
        """
        ...

    def shards(self, recipe: Recipe, start: Start, say: Say) -> tuple[Self, Start, Shards]:
        """Say how the training data is read by stream; otherwise as `stores`."""
        raise UserError(f"{with_article(self.name)} run does not read its data by stream")

    def labelled_records(
        self, paths: Sequence[Path], columns: ColumnSettings, start: Start, folder: Path
    ) -> Callable[[], Iterator[RecordT]]:
        """Return what gives the records of files with their truth, anew at each call.

        Args:
            paths: files of development or evaluation data.
            columns: where the texts and the truth stand.
            start: the tokenizer, the model and its length.
            folder: a place for temporary files, which lasts as long as the records are wanted.

        Raises:
            UserError: what is wrong with the files, where that can be told at once.
        """
        return lambda: self.read(paths, columns, labelled=True)

    def encode(
        self, records: Iterable[RecordT], tokenizer: Any, fit: Fit, *, labelled: bool
    ) -> Iterator[Fitted[Example]]:
        """Turn each record into one result, of several examples where a long text has windows."""
        ...

    def batch(self, examples: Sequence[Example], tokenizer: Any, draw: Draw | None) -> Batch:
        """Pad examples. With a draw they are learnt from or scored; without it have no targets."""
        ...

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the sum of a batch's losses; of several losses, whose means add up, one each."""
        ...

    def count(self, batch: Batch) -> float | Tensor:
        """Return what that sum is divided by, or each of them, before anything is computed."""
        ...

    @property
    def taught_by(self) -> Literal["scores", "values", "texts"] | None:
        """What a teacher gives; None if nothing.

        ``scores``, which become probabilities, or ``values`` as they are; or ``texts`` to write.
        """
        return None

    def lessons(self, batch: Batch) -> tuple[Lesson, ...]:
        """Return what a student learns from a teacher's scores; the means of the losses add up."""
        return ()

    def write_beside(self, start: Start, folder: Path) -> None:
        """Write into the run folder what other libraries want beside the model."""
        return

    @classmethod
    def clean_up(cls, recipe: Recipe) -> None:
        """Delete what the run folder held only in case training was stopped."""
        return

    # Answers.

    def load(self, folder: Path, head: Head | None) -> Model:
        """Load the model of a finished run, its weights mapped into memory.

        Args:
            folder: of the run.
            head: what the model decides; None for what the folder says.
        """
        model: Model = load_model(folder, head=head, mapped=True)
        return model

    def check_model(self, model: Model) -> None:
        """Refuse a model to which what the run says does not fit, as of a file that is damaged.

        Raises:
            UserError: naming what it says.
        """
        return

    def compute(
        self, model: Forward, batch: Batch, settings: PredictSettings
    ) -> Sequence[OutputT] | Tensor:
        """Return what `decode` wants of each of the B examples; of a tensor, one row."""
        ...

    def decode(
        self,
        record: RecordT,
        fitted: Fitted[Example],
        outputs: Sequence[OutputT],
        settings: PredictSettings,
        tokenizer: Any,
    ) -> AnswerT:
        """Turn what was computed for each example of a record into the answer."""
        ...

    def aim(
        self, computed: Computed[RecordT, OutputT, AnswerT], target: str | None, tokenizer: Any
    ) -> Aim:
        """Say by which number of the model an answer is explained.

        Args:
            computed: the answer, and what it was computed from.
            target: what the user asks about, as the task reads it; None for what was answered.
            tokenizer: the model's tokenizer.

        Raises:
            UserError: the model decides nothing of that name, or the task says nothing of this.
        """
        raise UserError(
            f"{with_article(self.name)} run cannot be explained: its task does not say by what"
        )

    def scores(self) -> Scores[AnswerT, RecordT]:
        """Return empty scores."""
        ...

    def scored_by(self, settings: ScoreSettings) -> Self:
        """Return the same task, scored as the settings say; they are not the default ones.

        Raises:
            UserError: nothing that it scores is a text.
        """
        raise UserError(f"--bleu-tokenize: {self.name} writes no texts that are scored by BLEU")

    def judge(self) -> Judge[AnswerT, RecordT]:
        """Return what holds answers beside the truth, item by item."""
        ...

    def card(self) -> str:
        """Say what the run does, in a sentence or two for its model card."""
        ...


AnyTask: TypeAlias = Task[Any, Any, Any]
"""Some task, where it does not matter which."""


def check_max_length(max_length: int, positions: int, told: str = "--max-length") -> int:
    """Check a length against the positions a model has.

    Args:
        max_length: the length.
        positions: how many there are.
        told: what says the length.

    Raises:
        UserError: it is above them, or too short for a text at all.
    """
    if not min(8, positions) <= max_length <= positions:
        raise UserError(
            f"{told} {max_length}: this model has {positions} positions; "
            f"give a length from 8 to {positions}"
        )
    return max_length
