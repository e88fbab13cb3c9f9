"""Masked language modelling in pairs of texts, and a classification of each pair.

Shapes: B pairs of a batch, N masked tokens, V vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful import losses
from heedful.batches import Batch, Draw, Example
from heedful.batches.collate import class_labels
from heedful.batches.corpus import Documents
from heedful.batches.masking import MaskRule
from heedful.batches.sentence_pairs import Frame
from heedful.errors import UserError
from heedful.item_results import AnyItemScorer
from heedful.models.outputs import PreTrainingOutput, SentenceOrderOutput
from heedful.task import Forward, Scores
from heedful.tasks.answers.sequences import sequence_scores
from heedful.tasks.item_scorers import texts as item_scorers
from heedful.tasks.objectives import masked_tokens
from heedful.tasks.objectives.inference import MaskFilling
from heedful.tasks.objectives.source import OneModel
from heedful.tokens import Tokenizer

MANY_NEGATIVES = 0.6
"""Share of negative pairs above which the user is warned."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedPairs:
    """Masked language modelling, and whether two texts belong together; see ``Objective``."""

    cut: Callable[..., Iterator[Example]]
    """Cuts pairs from a corpus; their label is 0 if the texts belong together, else 1."""
    metric: str
    """Name of the accuracy on pairs."""
    pair_prediction: str
    """Description of the pair prediction, for the model card."""
    pairs_documents: bool
    """Whether it makes pairs from two documents, and so needs at least two."""
    negatives_warning: str | None = None
    """The warning about many negative pairs; None if they are harmless."""

    source: ClassVar[OneModel] = OneModel("pretraining")
    inference: ClassVar[MaskFilling] = MaskFilling(pairs=True)
    masks_tokens: ClassVar[bool] = True
    mask_share: ClassVar[float] = 0.15

    scored = masked_tokens.scored

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that can select the best step."""
        return "masked_accuracy", self.metric

    def sequences(
        self, corpus: Documents, frame: Frame, *, seed: int, epoch: int
    ) -> Iterator[Example]:
        """Cut pairs.

        Raises:
            UserError: there are too few documents.
        """
        return self.cut(corpus, frame, seed=seed, epoch=epoch)

    def warning(self, labels: NDArray[np.float64]) -> str | None:
        """Return a warning if too many pairs are negative, else None.

        Raises:
            UserError: there is no pair.
        """
        if not len(labels):
            raise UserError(
                "no document has two tokens to make a pair of; choose what ends a document with "
                "--documents, or give --objective mlm"
            )
        share = float(np.mean(labels != 0))
        if self.negatives_warning is None or share <= MANY_NEGATIVES:
            return None
        return f"{share:.0%} of the pairs {self.negatives_warning}"

    def training_batch(
        self, examples: Sequence[Example], tokenizer: Tokenizer, rule: MaskRule | None, draw: Draw
    ) -> Batch:
        """Mask tokens. The targets are ``tokens``, (N,), and ``pairs``, (B,)."""
        batch = masked_tokens.mask(examples, tokenizer, rule, draw)
        labels = class_labels(examples)
        return replace(batch, targets=batch.targets | {"pairs": labels})

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the summed loss of masked tokens, and of pairs. Shape (2,)."""
        output: PreTrainingOutput | SentenceOrderOutput = forward(**batch.inputs)
        targets = batch.targets
        token_loss = losses.cross_entropy(output.prediction_logits, targets["tokens"])[0]
        pair_loss = losses.cross_entropy(output.pair_logits, targets["pairs"])[0]
        return torch.stack([token_loss, pair_loss])

    def loss_divisors(self, batch: Batch) -> Tensor:
        """Return the number of masked tokens and of pairs. Shape (2,)."""
        device = batch.targets["tokens"].device
        return torch.tensor([len(target) for target in batch.targets.values()], device=device)

    def score(self, model: Forward, batch: Batch) -> Tensor:
        """Score sequences.

        Returns:
            The summed loss, the correct tokens, the masked tokens, and whether the pair prediction
            is correct: 0 without pair targets. Shape (B, 4).
        """
        output: PreTrainingOutput | SentenceOrderOutput = model(**batch.inputs)
        rows = masked_tokens.token_scores(output.prediction_logits, batch)
        correct = rows.new_zeros(len(rows), 1)
        if "pairs" in batch.targets:
            predicted = output.pair_logits.argmax(-1)  # (B,)
            correct = (predicted == batch.targets["pairs"]).float()[:, None]
        return torch.cat([rows, correct], dim=1)

    def scores(self) -> Scores[Any, Any]:
        """Return a new, empty accumulator of scores."""
        return sequence_scores(self.metric)

    def item_scorer(self) -> AnyItemScorer:
        """Return the scorer of sequences."""
        return item_scorers.masked_tokens(self.metric)

    def model_card(self, masked: str) -> str:
        """Describe the run for its model card."""
        return f"Predicts masked words, and {self.pair_prediction}; trained by masking {masked}."
