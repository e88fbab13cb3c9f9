"""Replaced tokens: which of a text's tokens a generator put there (Clark et al. 2020, section 2).

The generator learns masked words, and what it draws for them takes their place; the discriminator
learns to tell which tokens were replaced. A token that was drawn right counts as original. No
gradient goes through what was drawn.

Shapes: B sequences of a batch, T their length, N hidden tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from heedful import losses
from heedful.aim import Aim, Computed
from heedful.batches import Batch, Draw, Example, Fitted
from heedful.batches.corpus import Documents
from heedful.batches.masking import MaskRule
from heedful.batches.packing import keep_apart
from heedful.batches.sentence_pairs import Frame, full_sequences
from heedful.errors import UserError
from heedful.host import where_true
from heedful.judging import AnyJudge
from heedful.models import FAMILIES
from heedful.models.loading import load_model
from heedful.models.model import Model
from heedful.models.pair import GENERATOR, Pair, PairOutput
from heedful.reading import Record
from heedful.settings import DataSettings, PredictSettings
from heedful.sources import resolve
from heedful.task import Ability, Fit, Forward, Input, Start
from heedful.tasks.aims import replaced as aims
from heedful.tasks.answers import replaced
from heedful.tasks.answers.blanks import encode_text
from heedful.tasks.answers.replaced import Detected, ReplacedScores, ScoredReplaced
from heedful.tasks.answers.sequences import Scored
from heedful.tasks.judges import texts as judges
from heedful.tasks.objectives import hidden
from heedful.tasks.objectives.source import OneModel
from heedful.tokens import Tokenizer

_BITS = 24
"""Of a number that is drawn: as many as a float32 holds exactly."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TwoModels:
    """A discriminator and its generator; see ``Source``."""

    preset: str | None = None
    """The sizes of a model from scratch, by their name."""
    generator_size: float | None = None
    """The share of the discriminator's width, or of its depth, that the generator of a model from
    scratch has; None for that of the preset."""

    def load(self, data: DataSettings) -> Model:
        """Load a discriminator and its generator.

        Raises:
            UserError: there is no such model, it has no such head, or no generator beside it.
        """
        folder = resolve(data.model, data.revision)
        if not (folder / GENERATOR).is_dir():
            raise UserError(
                f"--objective rtd goes on from a discriminator with its generator: {folder} has no "
                f"{GENERATOR}/; give a finished run of rtd, start from scratch with --arch electra "
                "--preset, or give --objective mlm"
            )
        generator = replace(data, model=str(folder / GENERATOR), revision=None)
        return Pair(
            OneModel("replaced").load(data),  # type: ignore[arg-type]
            OneModel("masked_lm").load(generator),  # type: ignore[arg-type]
        )

    def make(self, arch: str, config: Any) -> Model:
        """Make both from scratch."""
        models = FAMILIES[arch].models
        if "replaced" not in models:
            able = [name for name, family in FAMILIES.items() if "replaced" in family.models]
            raise UserError(
                f"--objective rtd: --arch {arch} has no head for it; give --arch {', '.join(able)}"
            )
        size = self.generator_size or FAMILIES[arch].generator_sizes()[self.preset or ""]
        return Pair(
            OneModel("replaced").make(arch, config),  # type: ignore[arg-type]
            OneModel("masked_lm").make(arch, config.generator(size)),  # type: ignore[arg-type]
            fresh=True,
        )

    def reload(self, folder: Path) -> Model:
        """Load both from a finished run."""
        generator = load_model(folder / GENERATOR, head="masked_lm", mapped=True)
        return Pair(load_model(folder, head="replaced", mapped=True), generator, learns=False)

    def write_beside(self, start: Start, folder: Path) -> None:
        """Give the generator a tokenizer of its own."""
        start.tokenizer.save_pretrained(folder / GENERATOR)


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """Which words of a text look replaced; see ``Asked``."""

    abilities: ClassVar[frozenset[Ability]] = frozenset()
    answer_options: ClassVar[frozenset[str]] = frozenset()
    inputs: ClassVar[tuple[Input, ...]] = (Input(name="text"),)
    example: ClassVar[str] = '"The cat sat on the moon."'

    def encode(self, record: Record, tokenizer: Tokenizer, fit: Fit) -> Fitted[Example]:
        """Encode a text.

        Raises:
            UserError: it is a pair.
        """
        if record.text_pair is not None:
            raise UserError(
                f"{record.where}: a pair, but this run learnt replaced tokens (objective rtd)"
            )
        return encode_text(record, tokenizer, fit)

    def ask(self, examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
        """Pad examples."""
        return hidden.pad(examples, tokenizer)

    def answer(self, model: Forward, batch: Batch, settings: PredictSettings) -> Tensor:
        """Return the logit of each token, above 0 where it looks replaced. Shape (B, T)."""
        logits: Tensor = model(**batch.inputs).logits
        return logits

    def decode(
        self,
        record: Record,
        fitted: Fitted[Example],
        outputs: Sequence[Tensor],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> Detected:
        """Say which words of a text look replaced."""
        return replaced.decode(record, fitted, outputs, tokenizer)

    def aim(
        self, computed: Computed[Any, Tensor, Any], target: str | None, tokenizer: Tokenizer
    ) -> Aim:
        """Explain why a word looks replaced, or does not (``WORD``)."""
        return aims.word(computed, target, tokenizer)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplacedTokens:
    """Which tokens of a text were replaced; see ``Objective``."""

    source: TwoModels = TwoModels()
    weight: float = 50.0
    """What the discriminator's loss is multiplied by."""

    metrics: ClassVar[tuple[str, ...]] = ("rtd_accuracy", "rtd_f1", "masked_accuracy")
    mixes_documents: ClassVar[bool] = False
    asked: ClassVar[Words] = Words()
    hides: ClassVar[bool] = True
    mask_share: ClassVar[float] = 0.15

    doubt = hidden.no_doubt

    def sequences(
        self, corpus: Documents, frame: Frame, *, seed: int, epoch: int
    ) -> Iterator[Example]:
        """Cut full sequences, one text after another."""
        return full_sequences(corpus, frame, seed=seed, epoch=epoch)

    def learn(
        self, examples: Sequence[Example], tokenizer: Tokenizer, rule: MaskRule | None, draw: Draw
    ) -> Batch:
        """Mask tokens, and draw the numbers that decide what is put in their place.

        The inputs are those of `Pair`; the targets are ``tokens``, (N,), and ``real``,
        (B, T), bool, False for padding.
        """
        batch = hidden.hide(examples, tokenizer, rule, draw)
        assert rule is not None
        ids, positions = batch.inputs["input_ids"], batch.inputs["positions"]
        # Each is masked, none is left as it is or put at random: it is replaced in any case.
        ids = ids.flatten().index_fill(0, positions, rule.mask_id).view_as(ids)
        real = batch.inputs.get("attention_mask")
        counts = torch.bincount(positions // ids.shape[1], minlength=len(examples))  # (B,)
        numbers = [
            np.random.PCG64(np.random.SeedSequence([draw.seed, draw.epoch, int(row), 1]))
            .random_raw(count)
            .astype(np.uint64)
            >> np.uint64(64 - _BITS)
            for row, count in zip(draw.rows, counts.tolist(), strict=True)
        ]
        uniforms = torch.from_numpy(np.concatenate(numbers) / 2.0**_BITS).float()
        apart = keep_apart(ids, real, tokenizer.cls_token_id)
        batch = hidden.with_inputs(batch, {"input_ids": ids, "uniforms": uniforms} | apart)
        everywhere = torch.ones_like(ids, dtype=torch.bool)
        targets = batch.targets | {"real": everywhere if real is None else real.bool()}
        return replace(batch, targets=targets)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the sums of the generator's losses and of the discriminator's, weighed. (2,)."""
        output: PairOutput = forward(**batch.inputs)
        generator = losses.cross_entropy(output.prediction_logits, batch.targets["tokens"])[0]
        real, labels = batch.targets["real"], were_replaced(output, batch)
        tokens = where_true(real, real.device)
        scores, truth = (rows.flatten().index_select(0, tokens) for rows in (output.logits, labels))
        discriminator = losses.binary_cross_entropy(scores, truth)[0]
        return torch.stack([generator, self.weight * discriminator])

    def count(self, batch: Batch) -> Tensor:
        """Return how many tokens are hidden, and how many there are. Shape (2,)."""
        real = batch.targets["real"].sum()
        return torch.stack([torch.full_like(real, len(batch.targets["tokens"])), real])

    def score(self, model: Forward, batch: Batch) -> Tensor:
        """Return what `hidden.told` says of the generator, and the counts of `ScoredReplaced`.

        Shape (B, 8).
        """
        output: PairOutput = model(**batch.inputs)
        real, labels = batch.targets["real"], were_replaced(output, batch)
        flagged = (output.logits > 0) & real
        counts = [real, (flagged == labels) & real, labels, flagged, flagged & labels]
        rows = torch.stack([count.sum(1) for count in counts], dim=1)  # (B, 5)
        told = hidden.told(output.prediction_logits, batch)  # (B, 3)
        return torch.cat([told, rows.to(told)], dim=1)

    def scored(
        self, numbers: Sequence[float], text: str, fitted: Fitted[Example]
    ) -> ScoredReplaced:
        """Name a sequence's numbers."""
        total, *counts = numbers
        right, count, tokens, decided_right, swapped, flagged, caught = map(int, counts)
        filled = Scored.of((total, right, count), text, fitted)
        return ScoredReplaced(
            filled=filled,
            tokens=tokens,
            right=decided_right,
            replaced=swapped,
            flagged=flagged,
            caught=caught,
        )

    def scores(self) -> ReplacedScores:
        """Return empty scores."""
        return ReplacedScores()

    def judge(self) -> AnyJudge:
        """Return what judges sequences."""
        return judges.replaced_tokens()

    def card(self, masked: str) -> str:
        """Say what a run does."""
        return f"Says which words of a text look replaced; learnt with masked {masked}."


def were_replaced(output: PairOutput, batch: Batch) -> Tensor:
    """Return which tokens differ from the truth. Shape (B, T), bool."""
    positions, tokens = batch.inputs["positions"], batch.targets["tokens"]
    labels = torch.zeros_like(batch.targets["real"])  # (B, T)
    return labels.flatten().index_put((positions,), output.samples != tokens).view_as(labels)
