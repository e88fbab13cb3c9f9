"""Masked words in pairs of texts, and how the two belong together.

Shapes: B pairs of a batch, N hidden tokens, V vocabulary.
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
from heedful.judging import AnyJudge
from heedful.models.outputs import PreTrainingOutput, SentenceOrderOutput
from heedful.task import Forward, Scores
from heedful.tasks.answers.sequences import sequence_scores
from heedful.tasks.judges import texts as judges
from heedful.tasks.objectives import hidden
from heedful.tasks.objectives.asked import Blanks
from heedful.tasks.objectives.source import OneModel
from heedful.tokens import Tokenizer

MANY_FALSE = 0.6
"""Share of pairs that do not belong together, from which on the user is told."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedPairs:
    """Which words stand behind masks, and whether two texts belong together; see ``Objective``."""

    cut: Callable[..., Iterator[Example]]
    """Cuts pairs from a corpus, with the label 0 where they belong together, else 1."""
    metric: str
    """What the share of the pairs that were told right is called."""
    tells: str
    """What it tells of a pair, for the model card."""
    mixes_documents: bool
    """Whether it makes pairs of two documents, and so needs as many."""
    many_false: str | None = None
    """What to say where many pairs do not belong together; None where that says nothing."""

    source: ClassVar[OneModel] = OneModel("pretraining")
    asked: ClassVar[Blanks] = Blanks(pairs=True)
    hides: ClassVar[bool] = True
    mask_share: ClassVar[float] = 0.15

    scored = hidden.scored

    @property
    def metrics(self) -> tuple[str, ...]:
        """The scores that can pick the best step."""
        return "masked_accuracy", self.metric

    def sequences(
        self, corpus: Documents, frame: Frame, *, seed: int, epoch: int
    ) -> Iterator[Example]:
        """Cut pairs.

        Raises:
            UserError: there are too few documents.
        """
        return self.cut(corpus, frame, seed=seed, epoch=epoch)

    def doubt(self, labels: NDArray[np.float64]) -> str | None:
        """Say so if too many of the pairs do not belong together."""
        share = float(np.mean(labels != 0))
        if self.many_false is None or share <= MANY_FALSE:
            return None
        return f"{share:.0%} of the pairs {self.many_false}"

    def learn(
        self, examples: Sequence[Example], tokenizer: Tokenizer, rule: MaskRule | None, draw: Draw
    ) -> Batch:
        """Hide tokens. The targets are ``tokens``, (N,), and ``pairs``, (B,)."""
        batch = hidden.hide(examples, tokenizer, rule, draw)
        labels = class_labels(examples)
        return replace(batch, targets=batch.targets | {"pairs": labels})

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the sum of the losses of hidden tokens, and that of pairs. Shape (2,)."""
        output: PreTrainingOutput | SentenceOrderOutput = forward(**batch.inputs)
        targets = batch.targets
        words = losses.cross_entropy(output.prediction_logits, targets["tokens"])[0]
        pairs = losses.cross_entropy(output.pair_logits, targets["pairs"])[0]
        return torch.stack([words, pairs])

    def count(self, batch: Batch) -> Tensor:
        """Return how many tokens are hidden, and how many pairs there are. Shape (2,)."""
        device = batch.targets["tokens"].device
        return torch.tensor([len(target) for target in batch.targets.values()], device=device)

    def score(self, model: Forward, batch: Batch) -> Tensor:
        """Score sequences.

        Returns:
            The sum of the losses, the tokens told right, the tokens hidden, and whether the pair
            was told right: 0 where nobody knows. Shape (B, 4).
        """
        output: PreTrainingOutput | SentenceOrderOutput = model(**batch.inputs)
        rows = hidden.told(output.prediction_logits, batch)
        right = rows.new_zeros(len(rows), 1)
        if "pairs" in batch.targets:
            best = output.pair_logits.argmax(-1)  # (B,)
            right = (best == batch.targets["pairs"]).float()[:, None]
        return torch.cat([rows, right], dim=1)

    def scores(self) -> Scores[Any, Any]:
        """Return empty scores."""
        return sequence_scores(self.metric)

    def judge(self) -> AnyJudge:
        """Return what judges sequences."""
        return judges.sequences(self.metric)

    def card(self, masked: str) -> str:
        """Say what a run does."""
        return (
            f"Says which words stand behind [MASK], and {self.tells}; learnt with masked {masked}."
        )
