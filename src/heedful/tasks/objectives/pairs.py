"""Masked words in pairs of texts, and how the two belong together.

Shapes: B pairs of a batch, N hidden tokens, V vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from heedful import losses
from heedful.aim import Aim, Computed
from heedful.batches import Batch, Draw, Example, Fitted, Store
from heedful.batches.collate import class_labels
from heedful.batches.corpus import Corpus
from heedful.batches.masking import MaskRule
from heedful.batches.sentence_pairs import Frame
from heedful.judging import AnyJudge
from heedful.models.model import Model
from heedful.models.outputs import PreTrainingOutput, SentenceOrderOutput
from heedful.reading import Record
from heedful.settings import DataSettings, PredictSettings
from heedful.task import Ability, Fit, Forward, Input, Start
from heedful.tasks.aims import blanks as aims
from heedful.tasks.answers import blanks
from heedful.tasks.answers.blanks import Filled
from heedful.tasks.answers.sequences import Scored, SequenceScores
from heedful.tasks.judges import texts as judges
from heedful.tasks.objectives import hidden
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

    abilities: ClassVar[frozenset[Ability]] = frozenset({"fill"})
    hides: ClassVar[bool] = True
    mask_share: ClassVar[float] = 0.15
    example: ClassVar[str] = hidden.EXAMPLE
    answer_options: ClassVar[frozenset[str]] = frozenset({"targets"})
    inputs: ClassVar[tuple[Input, ...]] = (
        Input(name="text"),
        Input(name="following text", optional=True),
    )

    @property
    def metrics(self) -> tuple[str, ...]:
        """The scores that can pick the best step."""
        return "masked_accuracy", self.metric

    def load(self, data: DataSettings) -> Model:
        """Load a model with both heads."""
        return hidden.load_with("pretraining", data)

    def make(self, arch: str, config: Any) -> Model:
        """Make one from scratch."""
        return hidden.make_with("pretraining", arch, config)

    def reload(self, folder: Path) -> Model:
        """Load the model of a finished run."""
        return hidden.reload(folder)

    def write_beside(self, start: Start, folder: Path) -> None:
        """Write nothing."""

    def sequences(
        self, corpus: Corpus, frame: Frame, *, seed: int, epoch: int
    ) -> Iterator[Example]:
        """Cut pairs.

        Raises:
            UserError: there are too few documents.
        """
        return self.cut(corpus, frame, seed=seed, epoch=epoch)

    def doubt(self, store: Store) -> str | None:
        """Say so if too many of the pairs do not belong together."""
        share = float(np.mean(store.labels != 0))
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

    def scored(self, numbers: Sequence[float], text: str, fitted: Fitted[Example]) -> Scored:
        """Name a sequence's numbers."""
        total, right, count, pair_right = numbers
        return Scored(
            text=text,
            loss=total,
            right=int(right),
            hidden=int(count),
            pair_right=bool(pair_right),
            tokens_total=fitted.tokens_total,
            tokens_used=fitted.tokens_used,
        )

    def scores(self) -> SequenceScores:
        """Return empty scores."""
        return SequenceScores(self.metric)

    def judge(self) -> AnyJudge:
        """Return what judges sequences."""
        return judges.sequences(self.metric)

    def encode(self, record: Record, tokenizer: Tokenizer, fit: Fit) -> Fitted[Example]:
        """Encode a text with masks, or a pair."""
        return blanks.encode(record, tokenizer, fit, pairs=True)

    def ask(self, examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
        """Pad examples, and find their masks."""
        return hidden.ask_masks(examples, tokenizer)

    def answer(self, model: Forward, batch: Batch, settings: PredictSettings) -> Tensor:
        """Return the likeliest tokens of masks, and what is told of pairs.

        See `blanks.candidates` for the shape.
        """
        output: PreTrainingOutput | SentenceOrderOutput = model(**batch.inputs)
        logits, pairs = output.prediction_logits, output.pair_logits
        return hidden.candidates(logits, pairs, batch, settings)

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

    def card(self, masked: str) -> str:
        """Say what a run does."""
        return (
            f"Says which words stand behind [MASK], and {self.tells}; learnt with masked {masked}."
        )
