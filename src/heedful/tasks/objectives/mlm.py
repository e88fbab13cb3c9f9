"""Masked language modelling on full sequences (Devlin et al. 2019, 3.1; Liu et al. 2019, 4.2).

Shapes: B sequences of a batch, N masked tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from heedful.batches import Batch, Draw, Example
from heedful.batches.corpus import Documents
from heedful.batches.masking import MaskRule
from heedful.batches.packing import packing_mask
from heedful.batches.sentence_pairs import Frame, full_sequences
from heedful.item_results import AnyItemScorer
from heedful.task import Scores
from heedful.tasks.answers.sequences import sequence_scores
from heedful.tasks.item_scorers import texts as item_scorers
from heedful.tasks.objectives import masked_tokens
from heedful.tasks.objectives.inference import MaskFilling
from heedful.tasks.objectives.source import OneModel
from heedful.tokens import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedWords:
    """Masked language modelling; see ``Objective``."""

    source: ClassVar[OneModel] = OneModel("masked_lm")
    inference: ClassVar[MaskFilling] = MaskFilling(pairs=False)
    masks_tokens: ClassVar[bool] = True
    mask_share: ClassVar[float] = 0.15
    metrics: ClassVar[tuple[str, ...]] = ("masked_accuracy",)
    pairs_documents: ClassVar[bool] = False

    warning = masked_tokens.no_warning
    loss = masked_tokens.loss
    loss_divisors = masked_tokens.loss_divisors
    score = masked_tokens.score
    scored = masked_tokens.scored

    def sequences(
        self, corpus: Documents, frame: Frame, *, seed: int, epoch: int
    ) -> Iterator[Example]:
        """Cut full sequences from the concatenated texts."""
        return full_sequences(corpus, frame, seed=seed, epoch=epoch)

    def training_batch(
        self, examples: Sequence[Example], tokenizer: Tokenizer, rule: MaskRule | None, draw: Draw
    ) -> Batch:
        """Mask tokens; prevent attention between a sequence's texts. Targets: ``tokens``, (N,)."""
        batch = masked_tokens.mask(examples, tokenizer, rule, draw)
        padding_mask = batch.inputs.get("attention_mask")
        mask_inputs = packing_mask(batch.inputs["input_ids"], padding_mask, tokenizer.cls_token_id)
        return masked_tokens.with_inputs(batch, mask_inputs)

    def scores(self) -> Scores[Any, Any]:
        """Return a new, empty accumulator of scores."""
        return sequence_scores()

    def item_scorer(self) -> AnyItemScorer:
        """Return the scorer of sequences."""
        return item_scorers.masked_tokens()

    def model_card(self, masked: str) -> str:
        """Describe the run for its model card."""
        return f"Predicts masked words; trained by masking {masked}."
