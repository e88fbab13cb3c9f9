"""The task interface: the methods that training, evaluation and prediction call.

A task is a frozen dataclass. Its fields hold what a run derived from its training data and needs
for prediction: plain values, stored in ``heedful.json``. Its methods implement what differs between
tasks. The tasks are in ``heedful.tasks``, one file each; ``heedful.settings.TASKS`` lists them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, TypeVar, cast

from torch import Tensor

from heedful.batches import Batch, Draw, Example, Fitted, Store
from heedful.batches.stream import Chunks
from heedful.distillation import DistillationLoss
from heedful.errors import UserError, with_article
from heedful.explanation_target import Answered, ExplanationTarget
from heedful.item_results import ItemScorer
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
"""A record: read from a file or made from texts, with or without the ground truth."""
OutputT = TypeVar("OutputT")
"""The output of `Task.run_model` for one example, on the CPU."""
AnswerT = TypeVar("AnswerT", bound="Answer")

Ability = Literal["write", "continue", "prefix", "align", "embed", "fill", "see"]
"""What a run can: write or continue text, force a prefix, align words, embed, fill, see images."""

Forward = Callable[..., Any]
"""A model, or a function with the signature of its forward pass."""

Say = Callable[[str], None]
"""Shows the user a line."""

WARNING_SAMPLE = 1000
"""Number of leading records that `Task.warn_about` inspects."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """One input text of an item."""

    name: str
    """Its name, such as ``question``."""
    variadic: bool = False
    """Whether it takes any number of texts, such as choices; only the last input can."""
    optional: bool = False
    """Whether it may be omitted."""


class Answer(Protocol):
    """The answer for one record: a frozen dataclass."""

    @property
    def tokens_total(self) -> int:
        """Number of tokens in the record's texts."""

    @property
    def tokens_used(self) -> int:
        """Number of tokens that the model read."""

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the answer as JSON-serializable values; with ``everything``, all scores too."""

    def plain(self) -> str:
        """Return the bare answer on one line."""


_ScoredAnswer = TypeVar("_ScoredAnswer", contravariant=True)
_ScoredRecord = TypeVar("_ScoredRecord", contravariant=True)


class Scores(Protocol[_ScoredAnswer, _ScoredRecord]):
    """Accumulate answers and their ground truth, and compute scores."""

    def update(self, answers: Sequence[_ScoredAnswer], records: Sequence[_ScoredRecord]) -> None:
        """Add a batch of answers and their records, which hold the ground truth."""

    def compute(self) -> dict[str, Any]:
        """Return the scores over all batches, as JSON-serializable values.

        Raises:
            UserError: no batch was added.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthLimit:
    """Length limit of an encoded item."""

    max_length: int
    """Maximum number of tokens of an example, including special tokens."""
    long_text: LongText
    """How to treat a longer text."""
    max_new_tokens: int | None = None
    """Maximum number of tokens to generate, if the user set it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """All settings of a training run."""

    data: Any
    """`DataSettings` or `ParallelSettings`, as given by the task's entry in the table."""
    options: Any
    """The task-specific settings."""
    columns: ColumnSettings
    training: TrainSettings
    run: RunSettings
    teaching: TeacherSettings = field(default_factory=TeacherSettings)

    @property
    def from_scratch(self) -> bool:
        """Whether the model is trained from scratch, not from a pretrained model."""
        if isinstance(self.data, ParallelSettings):
            return self.data.model is None
        return getattr(self.options, "preset", None) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """Initial state of a run."""

    tokenizer: Any
    model: Model
    max_length: int
    """Maximum number of tokens that the model reads in one pass."""
    target_scale: float = 1.0
    """Standard deviation of the targets of a regression: the unit in which it learns."""
    head_lr_multiplier: float = HEAD_RATE
    """Learning rate of a fresh head in a long training, as a multiple of that of the encoder."""


StoreOf = Callable[[int], Store]
"""From epoch number to training examples. Called in order; may be called twice for an epoch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shards:
    """Streamed training data."""

    count: int
    """Number of shards."""
    side_by_side: int
    """Number of shards read concurrently."""
    buffer: int
    """Size of the shuffle buffer, in examples."""
    chunks: Chunks
    processes: int | None
    """Number of reader processes; None to choose it by the device."""


class Task(Protocol[RecordT, OutputT, AnswerT]):
    """A task, with what a run derived from its training data."""

    __dataclass_fields__: ClassVar[dict[str, Any]]  # marks it as a dataclass
    name: ClassVar[str]
    """The name of the task on the command line, after ``heedful train``."""
    underived_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that do not follow from the settings in the run record; JSON-serializable."""
    has_target_tokens: ClassVar[bool] = False
    """Whether the labels of an example are token ids, which are padded too."""
    eval_num_beams: ClassVar[int] = PredictSettings().beam
    """Beam size of evaluations during training."""
    betas: ClassVar[tuple[float, float]] = (0.9, 0.999)
    epsilon: ClassVar[float] = 1e-8
    """Betas and epsilon of AdamW."""

    @property
    def example(self) -> str:
        """Example arguments to ``heedful predict RUN``."""
        return '"a text"'

    @property
    def abilities(self) -> frozenset[Ability]:
        """What this run supports; see `Ability`."""
        return frozenset()

    @property
    def in_batch_loss(self) -> bool:
        """Whether the loss of an item depends on the rest of its batch. Then no batch is split."""
        return False

    @property
    def answer_options(self) -> frozenset[str]:
        """The task-specific fields of ``PredictSettings`` that affect its answers."""
        return frozenset()

    @property
    def has_details(self) -> bool:
        """Whether `Answer.to_dict` returns more if asked for everything."""
        return "fill" not in self.abilities

    # Records.

    def read(
        self, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[RecordT]:
        """Stream records from files, with the ground truth if ``labelled``.

        Raises:
            UserError: a record is invalid; the message names the file and line of the first one.
        """
        ...

    def from_texts(self, texts: Sequence[Text], first: int = 1) -> list[RecordT]:
        """Make unlabelled records from texts or pairs; error messages count from ``first``."""
        ...

    @classmethod
    def from_training_data(cls, recipe: Recipe) -> Self:
        """Create the task from the settings and one pass over the training data.

        Raises:
            UserError: the data contradicts the settings, or has nothing to learn from.
        """
        ...

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The input texts of an item, in the order that `from_texts` takes them."""
        return (Input(name="text"),)

    def drop_unscorable(self, records: Iterator[RecordT], say: Say) -> Iterator[RecordT]:
        """Skip records that cannot be scored, and finally report how many were skipped."""
        return records

    def check(self, record: RecordT) -> None:
        """Raise if the record's ground truth is unknown to this run."""
        return

    def warn_about(self, records: Sequence[RecordT]) -> str | None:
        """Return a one-line warning if the first records to be scored look wrong, else None."""
        return None

    def check_files(self, recipe: Recipe, say: Say) -> None:
        """Check before training that a model can be scored on the development data.

        Raises:
            UserError: it cannot; the message names the file and line.
        """
        if recipe.data.dev is None:
            return
        records = self.read(recipe.data.dev, recipe.columns, labelled=True)
        records = self.drop_unscorable(records, say)
        sample = list(islice(records, WARNING_SAMPLE))
        if line := self.warn_about(sample):
            say(f"--dev: {line}")
        for record in chain(sample, records):
            self.check(record)

    # Training.

    def metrics(self) -> tuple[str, ...]:
        """Return the metrics that can select the best step; the default comes first."""
        ...

    def start(self, recipe: Recipe) -> Start:
        """Load or create the tokenizer and the model; initialisation uses the recipe's seed.

        Raises:
            UserError: the model does not exist or does not fit the task.
        """
        ...

    @classmethod
    def streams(cls, recipe: Recipe) -> bool:
        """Return whether the training data is streamed during training, by `shards`."""
        return False

    def stores(
        self, recipe: Recipe, start: Start, folder: Path, say: Say
    ) -> tuple[Self, Start, StoreOf]:
        """Encode the data into a folder; return the task and start, updated, and the examples."""
        ...

    def shards(self, recipe: Recipe, start: Start, say: Say) -> tuple[Self, Start, Shards]:
        """Like `stores`, but return the training data as a stream."""
        raise UserError(f"{with_article(self.name)} run cannot stream its data")

    def labelled_records(
        self, paths: Sequence[Path], columns: ColumnSettings, start: Start, folder: Path
    ) -> Callable[[], Iterator[RecordT]]:
        """Return a function that reads labelled records from the start at each call.

        Args:
            paths: files of development or evaluation data.
            columns: the columns of the texts and the ground truth.
            start: the tokenizer, the model and its maximum length.
            folder: for temporary files; must exist as long as the function is used.

        Raises:
            UserError: the files have an error that can be found without reading all records.
        """
        return lambda: self.read(paths, columns, labelled=True)

    def encode(
        self, records: Iterable[RecordT], tokenizer: Any, fit: LengthLimit, *, labelled: bool
    ) -> Iterator[Fitted[Example]]:
        """Encode each record: one example, or one per window of a long text."""
        ...

    def batch(self, examples: Sequence[Example], tokenizer: Any, draw: Draw | None) -> Batch:
        """Collate and pad examples. Targets are included only with a draw."""
        ...

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the summed loss of a batch, or one sum per loss term; the means add up."""
        ...

    def loss_divisor(self, batch: Batch) -> float | Tensor:
        """Return the divisor of each sum of `loss`; known before the forward pass."""
        ...

    @property
    def teacher_output(self) -> Literal["scores", "values", "texts"] | None:
        """What a teacher provides; None if the task cannot be distilled.

        ``scores`` become probabilities, ``values`` are used as they are, and ``texts`` are targets.
        """
        return None

    def distillation_losses(self, batch: Batch) -> tuple[DistillationLoss, ...]:
        """Return the distillation losses of a batch; their means add up."""
        return ()

    def write_extra_files(self, start: Start, folder: Path) -> None:
        """Write files for other libraries next to the model in the run folder."""
        return

    @classmethod
    def remove_resume_files(cls, recipe: Recipe) -> None:
        """Delete files that the run folder holds only for resuming."""
        return

    # Answers.

    def load(self, folder: Path, head: Head | None) -> Model:
        """Load the model of a finished run, with memory-mapped weights.

        Args:
            folder: the run folder.
            head: the type of the model's head; None to read it from the folder.
        """
        return cast(Model, load_model(folder, head=head, memory_map=True))

    def check_model(self, model: Model) -> None:
        """Refuse a model that does not match the fields of the task, as after file corruption.

        Raises:
            UserError: naming the field that does not match.
        """
        return

    def run_model(
        self, model: Forward, batch: Batch, settings: PredictSettings
    ) -> Sequence[OutputT] | Tensor:
        """Return the input of `decode` for each example; a tensor has a row for each."""
        ...

    def decode(
        self,
        record: RecordT,
        fitted: Fitted[Example],
        outputs: Sequence[OutputT],
        settings: PredictSettings,
        tokenizer: Any,
    ) -> AnswerT:
        """Turn the outputs for all examples of a record into the answer."""
        ...

    def explanation_target(
        self, computed: Answered[RecordT, OutputT, AnswerT], target: str | None, tokenizer: Any
    ) -> ExplanationTarget:
        """Return the model output by which an answer is explained.

        Args:
            computed: the answer, and its inputs and outputs.
            target: what to explain, in a form the task parses; None for the answer itself.
            tokenizer: the model's tokenizer.

        Raises:
            UserError: the model has no such target, or the task supports no explanations.
        """
        raise UserError(
            f"{with_article(self.name)} run cannot be explained: its task has no explanation target"
        )

    def scores(self) -> Scores[AnswerT, RecordT]:
        """Return a new, empty accumulator of scores."""
        ...

    def with_score_settings(self, settings: ScoreSettings) -> Self:
        """Return a copy of the task with non-default scoring settings.

        Raises:
            UserError: the task does not score text.
        """
        raise UserError(f"--bleu-tokenize: {self.name} generates no texts that BLEU scores")

    def item_scorer(self) -> ItemScorer[AnswerT, RecordT]:
        """Return the scorer that compares each answer with its ground truth."""
        ...

    def model_card(self) -> str:
        """Describe the run for its model card, in a sentence or two."""
        ...


AnyTask: TypeAlias = Task[Any, Any, Any]
"""Any task."""


def check_max_length(max_length: int, positions: int, source: str = "--max-length") -> int:
    """Check a maximum length against the model's number of positions.

    Args:
        max_length: the length.
        positions: the number of positions.
        source: the source of the length, for the message.

    Raises:
        UserError: it exceeds the positions, or is too short for any text.
    """
    if not min(8, positions) <= max_length <= positions:
        raise UserError(
            f"{source} {max_length}: this model has {positions} positions; "
            f"give a length from 8 to {positions}"
        )
    return max_length
