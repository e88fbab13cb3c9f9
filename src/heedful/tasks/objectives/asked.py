"""What a finished run of an objective is asked, and how it answers.

Shapes: B examples of a batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from torch import Tensor

from heedful.aim import Aim, Computed
from heedful.batches import Batch, Example, Fitted
from heedful.reading import Record
from heedful.settings import PredictSettings
from heedful.task import Ability, Answer, Fit, Forward, Input
from heedful.tasks.aims import blanks as aims
from heedful.tasks.answers import blanks
from heedful.tasks.answers.blanks import Filled
from heedful.tasks.objectives import hidden
from heedful.tokens import Tokenizer


class Asked(Protocol):
    """How texts are answered for."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """What only some runs can do; see ``Task``."""

    @property
    def answer_options(self) -> frozenset[str]:
        """Fields of ``PredictSettings`` that decide its answers; see ``Task``."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The texts that it is asked about."""

    @property
    def example(self) -> str:
        """What a user may put after ``heedful predict RUN`` to try it."""

    def encode(self, record: Record, tokenizer: Tokenizer, fit: Fit) -> Fitted[Example]:
        """Encode a text that is asked about.

        Raises:
            UserError: nothing can be said of it.
        """

    def ask(self, examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
        """Pad examples that are asked about."""

    def answer(
        self, model: Forward, batch: Batch, settings: PredictSettings
    ) -> Sequence[Any] | Tensor:
        """Return what `decode` wants of each example; of a tensor, one row."""

    def decode(
        self,
        record: Record,
        fitted: Fitted[Example],
        outputs: Sequence[Any],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> Answer:
        """Turn what was computed for each example of a record into the answer."""

    def aim(
        self,
        computed: Computed[Any, Any, Any],
        target: str | None,
        tokenizer: Tokenizer,
    ) -> Aim:
        """Say by which number of the model an answer is explained; see ``Task``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Blanks:
    """Which words stand behind masks, and of a pair whether its texts belong together."""

    pairs: bool
    """Whether the model tells of pairs, too."""

    abilities: ClassVar[frozenset[Ability]] = frozenset({"fill"})
    answer_options: ClassVar[frozenset[str]] = frozenset({"targets", "top"})
    example: ClassVar[str] = '"The cat sat on the [MASK]."'

    @property
    def inputs(self) -> tuple[Input, ...]:
        """A text, or where it tells of pairs one or two."""
        text, following = Input(name="text"), Input(name="following text", optional=True)
        return (text, following) if self.pairs else (text,)

    def encode(self, record: Record, tokenizer: Tokenizer, fit: Fit) -> Fitted[Example]:
        """Encode a text with masks, or a pair.

        Raises:
            UserError: a text has no mask, or a pair is not what it tells of.
        """
        return blanks.encode(record, tokenizer, fit, pairs=self.pairs)

    def ask(self, examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
        """Pad examples, and find their masks."""
        return hidden.ask_masks(examples, tokenizer)

    def answer(self, model: Forward, batch: Batch, settings: PredictSettings) -> Tensor:
        """Return the likeliest tokens of masks, and what is told of pairs.

        See `blanks.candidates` for the shape.
        """
        output = model(**batch.inputs)
        if not self.pairs:
            return hidden.candidates(output.logits, None, batch, settings)
        return hidden.candidates(output.prediction_logits, output.pair_logits, batch, settings)

    def decode(
        self,
        record: Record,
        fitted: Fitted[Example],
        outputs: Sequence[Tensor],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> Filled:
        """Choose what stands behind the masks of a text, or say what is told of a pair."""
        return blanks.decode(record, fitted, outputs, settings, tokenizer)

    def aim(
        self, computed: Computed[Any, Tensor, Any], target: str | None, tokenizer: Tokenizer
    ) -> Aim:
        """Explain a word for a mask (``WORD``, or ``2=WORD`` for the second), or a pair."""
        return aims.blank(computed, target, tokenizer)
