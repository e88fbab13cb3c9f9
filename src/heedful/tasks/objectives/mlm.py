"""Masked words alone, in full sequences (Devlin et al. 2019, section 3.1; Liu et al. 2019, 4.2).

Shapes: B sequences of a batch, N hidden tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from heedful import losses
from heedful.aim import Aim, Computed
from heedful.batches import Batch, Draw, Example, Fitted, Store
from heedful.batches.corpus import Corpus
from heedful.batches.masking import MaskRule
from heedful.batches.packing import keep_apart
from heedful.batches.sentence_pairs import Frame, full_sequences
from heedful.judging import AnyJudge
from heedful.models.model import Model
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


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedWords:
    """Which words stand behind masks; see ``Objective``."""

    abilities: ClassVar[frozenset[Ability]] = frozenset({"fill"})
    hides: ClassVar[bool] = True
    mask_share: ClassVar[float] = 0.15
    example: ClassVar[str] = hidden.EXAMPLE
    answer_options: ClassVar[frozenset[str]] = frozenset({"targets"})
    metrics: ClassVar[tuple[str, ...]] = ("masked_accuracy",)
    inputs: ClassVar[tuple[Input, ...]] = (Input(name="text"),)
    mixes_documents: ClassVar[bool] = False

    def load(self, data: DataSettings) -> Model:
        """Load a model of masked words."""
        return hidden.load_with("masked_lm", data)

    def make(self, arch: str, config: Any) -> Model:
        """Make one from scratch."""
        return hidden.make_with("masked_lm", arch, config)

    def reload(self, folder: Path) -> Model:
        """Load the model of a finished run."""
        return hidden.reload(folder)

    def write_beside(self, start: Start, folder: Path) -> None:
        """Write nothing."""

    def sequences(
        self, corpus: Corpus, frame: Frame, *, seed: int, epoch: int
    ) -> Iterator[Example]:
        """Cut full sequences, one text after another."""
        return full_sequences(corpus, frame, seed=seed, epoch=epoch)

    def doubt(self, store: Store) -> str | None:
        """Find nothing odd."""
        return None

    def learn(
        self, examples: Sequence[Example], tokenizer: Tokenizer, rule: MaskRule | None, draw: Draw
    ) -> Batch:
        """Hide tokens, and keep the texts of a sequence apart. The targets are ``tokens``, (N,)."""
        batch = hidden.hide(examples, tokenizer, rule, draw)
        real = batch.inputs.get("attention_mask")
        apart = keep_apart(batch.inputs["input_ids"], real, tokenizer.cls_token_id)
        return hidden.with_inputs(batch, apart)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the sum of the losses of hidden tokens. Shape (1,)."""
        logits: Tensor = forward(**batch.inputs).logits  # (N, V)
        return torch.stack([losses.cross_entropy(logits, batch.targets["tokens"])[0]])

    def count(self, batch: Batch) -> Tensor:
        """Return how many tokens are hidden. Shape (1,)."""
        tokens = batch.targets["tokens"]
        return torch.tensor([len(tokens)], device=tokens.device)

    def score(self, model: Forward, batch: Batch) -> Tensor:
        """Return the sum of the losses, the tokens told right, the tokens hidden. Shape (B, 3)."""
        return hidden.told(model(**batch.inputs).logits, batch)

    def scored(self, numbers: Sequence[float], text: str, fitted: Fitted[Example]) -> Scored:
        """Name a sequence's numbers."""
        total, right, count = numbers
        return Scored(
            text=text,
            loss=total,
            right=int(right),
            hidden=int(count),
            pair_right=None,
            tokens_total=fitted.tokens_total,
            tokens_used=fitted.tokens_used,
        )

    def scores(self) -> SequenceScores:
        """Return empty scores."""
        return SequenceScores()

    def judge(self) -> AnyJudge:
        """Return what judges sequences."""
        return judges.sequences()

    def encode(self, record: Record, tokenizer: Tokenizer, fit: Fit) -> Fitted[Example]:
        """Encode a text with masks."""
        return blanks.encode(record, tokenizer, fit, pairs=False)

    def ask(self, examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
        """Pad examples, and find their masks."""
        return hidden.ask_masks(examples, tokenizer)

    def answer(self, model: Forward, batch: Batch, settings: PredictSettings) -> Tensor:
        """Return the likeliest tokens of each mask; see `blanks.candidates`."""
        return hidden.candidates(model(**batch.inputs).logits, None, batch, settings)

    def decode(
        self,
        record: Record,
        fitted: Fitted[Example],
        outputs: Sequence[Tensor],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> Filled:
        """Choose what stands behind the masks of a text."""
        return blanks.decode(record, fitted, outputs, settings, tokenizer)

    def aim(
        self, computed: Computed[Any, Tensor, Any], target: str | None, tokenizer: Tokenizer
    ) -> Aim:
        """Explain a word for a mask (``WORD``, or ``2=WORD`` for the second)."""
        return aims.blank(computed, target, tokenizer)

    def card(self, masked: str) -> str:
        """Say what a run does."""
        return f"Says which words stand behind [MASK]; learnt with masked {masked}."
