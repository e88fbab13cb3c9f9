"""Replaced-token detection (Clark et al. 2020, section 2).

The generator learns masked language modelling, and its samples replace the masked tokens. The
discriminator classifies each token as replaced or original. A sample that equals the original token
counts as original. No gradient flows through the samples.

Shapes: B sequences of a batch, T their length, N masked tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from heedful import losses
from heedful.batches import Batch, Draw, Example, Fitted
from heedful.batches.corpus import Documents
from heedful.batches.masking import MaskRule
from heedful.batches.packing import packing_mask
from heedful.batches.sentence_pairs import Frame, full_sequences
from heedful.device_transfer import nonzero_indices
from heedful.errors import UserError
from heedful.explanation_target import Answered, ExplanationTarget
from heedful.item_results import AnyItemScorer
from heedful.models import FAMILIES
from heedful.models.loading import load_model
from heedful.models.model import Model
from heedful.models.pair import GENERATOR, GeneratorDiscriminatorPair, PairOutput
from heedful.models.with_head import ModelWithHead
from heedful.reading import Record
from heedful.settings import DataSettings, PredictSettings
from heedful.sources import resolve
from heedful.task import Ability, Forward, Input, LengthLimit, Start
from heedful.tasks.answers import replaced
from heedful.tasks.answers.filled_masks import encode_text
from heedful.tasks.answers.replaced import Detected, ReplacedCounts, ReplacedScores
from heedful.tasks.answers.sequences import MaskedCounts
from heedful.tasks.explanation_targets.replaced import word as word_target
from heedful.tasks.item_scorers import texts as item_scorers
from heedful.tasks.objectives import masked_tokens
from heedful.tasks.objectives.source import OneModel
from heedful.tokens import Tokenizer

_BITS = 24
"""Random bits of each uniform number: as many as a float32 represents exactly."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratorDiscriminator:
    """A discriminator and its generator; see ``Source``."""

    preset: str | None = None
    """Name of the sizes of a model from scratch."""
    generator_size: float | None = None
    """Width or depth of a generator from scratch, as a share of the discriminator's; None for the
    default of the preset."""

    def load(self, data: DataSettings) -> Model:
        """Load a discriminator and its generator.

        Raises:
            UserError: the model does not exist, has no such head, or has no generator next to it.
        """
        folder = resolve(data.model, data.revision)
        if not (folder / GENERATOR).is_dir():
            raise UserError(
                f"--objective rtd continues from a discriminator with its generator, but {folder} "
                f"has no {GENERATOR}/; give a finished run of rtd, start from scratch with --arch "
                "electra --preset, or give --objective mlm"
            )
        generator = replace(data, model=str(folder / GENERATOR), revision=None)
        return GeneratorDiscriminatorPair(
            OneModel("replaced").load(data),  # type: ignore[arg-type]
            OneModel("masked_lm").load(generator),  # type: ignore[arg-type]
        )

    def make(self, arch: str, config: Any) -> Model:
        """Create both from scratch."""
        models = FAMILIES[arch].models
        if "replaced" not in models:
            archs = [name for name, family in FAMILIES.items() if "replaced" in family.models]
            raise UserError(
                f"--objective rtd: --arch {arch} has no head for it; give --arch {', '.join(archs)}"
            )
        size = self.generator_size or FAMILIES[arch].generator_sizes()[self.preset or ""]
        return GeneratorDiscriminatorPair(
            OneModel("replaced").make(arch, config),  # type: ignore[arg-type]
            OneModel("masked_lm").make(arch, config.generator(size)),  # type: ignore[arg-type]
            fresh=True,
        )

    def reload(self, folder: Path) -> Model:
        """Load both from a finished run; from an export, which has no generator, only one."""
        discriminator: ModelWithHead = load_model(folder, head="replaced", memory_map=True)
        if not (folder / GENERATOR).is_dir():
            return discriminator
        generator = load_model(folder / GENERATOR, head="masked_lm", memory_map=True)
        return GeneratorDiscriminatorPair(discriminator, generator, learns=False)

    def write_beside(self, start: Start, folder: Path) -> None:
        """Save a copy of the tokenizer for the generator."""
        start.tokenizer.save_pretrained(folder / GENERATOR)


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """Detects replaced words in a text; see ``Inference``."""

    abilities: ClassVar[frozenset[Ability]] = frozenset()
    answer_options: ClassVar[frozenset[str]] = frozenset()
    inputs: ClassVar[tuple[Input, ...]] = (Input(name="text"),)
    example: ClassVar[str] = '"The cat sat on the moon."'

    def encode(self, record: Record, tokenizer: Tokenizer, fit: LengthLimit) -> Fitted[Example]:
        """Encode a text.

        Raises:
            UserError: it is a pair.
        """
        if record.text_pair is not None:
            raise UserError(
                f"{record.where}: a pair, but this run takes single texts (objective rtd)"
            )
        return encode_text(record, tokenizer, fit)

    def batch(self, examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
        """Collate and pad examples."""
        return masked_tokens.pad(examples, tokenizer)

    def run_model(self, model: Forward, batch: Batch, settings: PredictSettings) -> Tensor:
        """Return the logit of each token, above 0 if it looks replaced. Shape (B, T)."""
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
        """Return the words of a text that look replaced."""
        return replaced.decode(record, fitted, outputs, tokenizer)

    def explanation_target(
        self, computed: Answered[Any, Tensor, Any], target: str | None, tokenizer: Tokenizer
    ) -> ExplanationTarget:
        """Explain the logit that a word (``WORD``) is replaced."""
        return word_target(computed, target, tokenizer)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplacedTokens:
    """Replaced-token detection; see ``Objective``."""

    source: GeneratorDiscriminator = GeneratorDiscriminator()
    weight: float = 50.0
    """Weight of the discriminator's loss."""

    metrics: ClassVar[tuple[str, ...]] = ("rtd_accuracy", "rtd_f1", "masked_accuracy")
    pairs_documents: ClassVar[bool] = False
    inference: ClassVar[Words] = Words()
    masks_tokens: ClassVar[bool] = True
    mask_share: ClassVar[float] = 0.15

    warning = masked_tokens.no_warning

    def sequences(
        self, corpus: Documents, frame: Frame, *, seed: int, epoch: int
    ) -> Iterator[Example]:
        """Cut full sequences from the concatenated texts."""
        return full_sequences(corpus, frame, seed=seed, epoch=epoch)

    def training_batch(
        self, examples: Sequence[Example], tokenizer: Tokenizer, rule: MaskRule | None, draw: Draw
    ) -> Batch:
        """Mask tokens, and draw the uniform numbers for sampling their replacements.

        The inputs are those of `GeneratorDiscriminatorPair`; the targets are ``tokens``, (N,), and
        ``real``, (B, T), bool, False for padding.
        """
        batch = masked_tokens.mask(examples, tokenizer, rule, draw)
        assert rule is not None
        ids, positions = batch.inputs["input_ids"], batch.inputs["positions"]
        # All masked tokens become [MASK], none stays or becomes random: samples replace them.
        ids = ids.flatten().index_fill(0, positions, rule.mask_id).view_as(ids)
        real = batch.inputs.get("attention_mask")
        counts = torch.bincount(positions // ids.shape[1], minlength=len(examples))  # (B,)
        draws = [
            np.random.PCG64(np.random.SeedSequence([draw.seed, draw.epoch, int(row), 1]))
            .random_raw(count)
            .astype(np.uint64)
            >> np.uint64(64 - _BITS)
            for row, count in zip(draw.rows, counts.tolist(), strict=True)
        ]
        uniforms = torch.from_numpy(np.concatenate(draws) / 2.0**_BITS).float()
        mask_inputs = packing_mask(ids, real, tokenizer.cls_token_id)
        batch = masked_tokens.with_inputs(
            batch, {"input_ids": ids, "uniforms": uniforms} | mask_inputs
        )
        all_tokens = torch.ones_like(ids, dtype=torch.bool)
        targets = batch.targets | {"real": all_tokens if real is None else real.bool()}
        return replace(batch, targets=targets)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the summed generator loss and the weighted discriminator loss. Shape (2,)."""
        output = _outputs(forward, batch)
        generator = losses.cross_entropy(output.prediction_logits, batch.targets["tokens"])[0]
        real, labels = batch.targets["real"], were_replaced(output, batch)
        tokens = nonzero_indices(real, real.device)
        scores, truth = (rows.flatten().index_select(0, tokens) for rows in (output.logits, labels))
        discriminator = losses.binary_cross_entropy(scores, truth)[0]
        return torch.stack([generator, self.weight * discriminator])

    def loss_divisors(self, batch: Batch) -> Tensor:
        """Return the number of masked tokens and of all tokens. Shape (2,)."""
        real = batch.targets["real"].sum()
        return torch.stack([torch.full_like(real, len(batch.targets["tokens"])), real])

    def score(self, model: Forward, batch: Batch) -> Tensor:
        """Return `token_scores` of the generator, and the counts of `ReplacedCounts`.

        Shape (B, 8).
        """
        output = _outputs(model, batch)
        real, labels = batch.targets["real"], were_replaced(output, batch)
        flagged = (output.logits > 0) & real
        counts = [real, (flagged == labels) & real, labels, flagged, flagged & labels]
        rows = torch.stack([count.sum(1) for count in counts], dim=1)  # (B, 5)
        generator_scores = masked_tokens.token_scores(output.prediction_logits, batch)  # (B, 3)
        return torch.cat([generator_scores, rows.to(generator_scores)], dim=1)

    def scored(
        self, numbers: Sequence[float], text: str, fitted: Fitted[Example]
    ) -> ReplacedCounts:
        """Wrap the scores of a sequence."""
        loss, *counts = numbers
        correct_fills, masked, tokens, correct, num_replaced, flagged, caught = map(int, counts)
        filled = MaskedCounts.of((loss, correct_fills, masked), text, fitted)
        return ReplacedCounts(
            filled=filled,
            tokens=tokens,
            correct=correct,
            replaced=num_replaced,
            flagged=flagged,
            caught=caught,
        )

    def scores(self) -> ReplacedScores:
        """Return a new, empty accumulator of scores."""
        return ReplacedScores()

    def item_scorer(self) -> AnyItemScorer:
        """Return the scorer of sequences."""
        return item_scorers.replaced_tokens()

    def model_card(self, masked: str) -> str:
        """Describe the run for its model card."""
        return f"Detects replaced words in a text; trained by masking {masked}."


def _outputs(forward: Forward, batch: Batch) -> PairOutput:
    """Return the outputs of both models.

    Raises:
        UserError: there is no generator.
    """
    if isinstance(getattr(forward, "func", forward), ModelWithHead):
        raise UserError(
            "objective rtd is scored on tokens that the generator replaces, but exports leave "
            f"{GENERATOR}/ out; give the run itself"
        )
    output: PairOutput = forward(**batch.inputs)
    return output


def were_replaced(output: PairOutput, batch: Batch) -> Tensor:
    """Return which tokens differ from the original ones. Shape (B, T), bool."""
    positions, tokens = batch.inputs["positions"], batch.targets["tokens"]
    labels = torch.zeros_like(batch.targets["real"])  # (B, T)
    return labels.flatten().index_put((positions,), output.samples != tokens).view_as(labels)
