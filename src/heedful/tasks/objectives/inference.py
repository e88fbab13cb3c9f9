"""The inference interface of a finished pre-training run.

Shapes: B examples of a batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from torch import Tensor

from heedful.batches import Batch, Example, Fitted
from heedful.explanation_target import Answered, ExplanationTarget
from heedful.reading import Record
from heedful.settings import PredictSettings
from heedful.task import Ability, Answer, Forward, Input, LengthLimit
from heedful.tasks.answers import filled_masks
from heedful.tasks.answers.filled_masks import Filled
from heedful.tasks.explanation_targets.filled_masks import blank as mask_target
from heedful.tasks.objectives import masked_tokens
from heedful.tokens import Tokenizer


class Inference(Protocol):
    """Answers for texts with a pre-trained model."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """What the run supports; see ``Task``."""

    @property
    def answer_options(self) -> frozenset[str]:
        """Fields of ``PredictSettings`` that affect its answers; see ``Task``."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Its input texts."""

    @property
    def example(self) -> str:
        """Example arguments to ``heedful predict RUN``."""

    def encode(self, record: Record, tokenizer: Tokenizer, fit: LengthLimit) -> Fitted[Example]:
        """Encode a text.

        Raises:
            UserError: the model has no answer for such a text.
        """

    def batch(self, examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
        """Collate and pad examples."""

    def run_model(
        self, model: Forward, batch: Batch, settings: PredictSettings
    ) -> Sequence[Any] | Tensor:
        """Return the input of `decode` for each example; a tensor has a row for each."""

    def decode(
        self,
        record: Record,
        fitted: Fitted[Example],
        outputs: Sequence[Any],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> Answer:
        """Turn the outputs for all examples of a record into the answer."""

    def explanation_target(
        self,
        computed: Answered[Any, Any, Any],
        target: str | None,
        tokenizer: Tokenizer,
    ) -> ExplanationTarget:
        """Return the model output by which an answer is explained; see ``Task``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskFilling:
    """Fills masks, and for pairs predicts whether their texts belong together."""

    pairs: bool
    """Whether the model also predicts on pairs."""

    abilities: ClassVar[frozenset[Ability]] = frozenset({"fill"})
    answer_options: ClassVar[frozenset[str]] = frozenset({"targets", "top"})
    example: ClassVar[str] = '"The cat sat on the [MASK]."'

    @property
    def inputs(self) -> tuple[Input, ...]:
        """A text; or one or two, if the model also predicts on pairs."""
        text, following = Input(name="text"), Input(name="following text", optional=True)
        return (text, following) if self.pairs else (text,)

    def encode(self, record: Record, tokenizer: Tokenizer, fit: LengthLimit) -> Fitted[Example]:
        """Encode a text with masks, or a pair.

        Raises:
            UserError: a text has no mask, or the model does not support pairs.
        """
        return filled_masks.encode(record, tokenizer, fit, pairs=self.pairs)

    def batch(self, examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
        """Collate and pad examples, and find their masks."""
        return masked_tokens.with_mask_positions(examples, tokenizer)

    def run_model(self, model: Forward, batch: Batch, settings: PredictSettings) -> Tensor:
        """Return the most probable tokens of masks, and the predictions on pairs.

        See `filled_masks.candidates` for the shape.
        """
        output = model(**batch.inputs)
        if not self.pairs:
            return masked_tokens.candidates(output.logits, None, batch, settings)
        return masked_tokens.candidates(
            output.prediction_logits, output.pair_logits, batch, settings
        )

    def decode(
        self,
        record: Record,
        fitted: Fitted[Example],
        outputs: Sequence[Tensor],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> Filled:
        """Choose tokens for the masks of a text, or return the prediction on a pair."""
        return filled_masks.decode(record, fitted, outputs, settings, tokenizer)

    def explanation_target(
        self, computed: Answered[Any, Tensor, Any], target: str | None, tokenizer: Tokenizer
    ) -> ExplanationTarget:
        """Explain a word for a mask (``WORD``, or ``2=WORD`` for the second), or a pair."""
        return mask_target(computed, target, tokenizer)
