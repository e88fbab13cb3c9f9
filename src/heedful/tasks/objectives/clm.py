"""Causal language modelling: next-token prediction, as for decoders (Radford et al. 2018, 3.1).

A run answers like ``train generate`` on plain text: it continues texts.

Shapes: B sequences of a batch, T their length, N tokens that have a next token, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F

from heedful.batches import Batch, Draw, Example, Fitted, collate
from heedful.batches.corpus import Documents
from heedful.batches.masking import MaskRule
from heedful.batches.packing import packing_mask
from heedful.batches.sentence_pairs import Frame, causal_sequences
from heedful.errors import UserError
from heedful.explanation_target import Answered, ExplanationTarget
from heedful.item_results import AnyItemScorer
from heedful.reading import Record
from heedful.settings import PredictSettings
from heedful.task import Ability, Forward, Input, LengthLimit, Scores
from heedful.tasks.answers.generated import Generation
from heedful.tasks.answers.sequences import NextTokenCounts, next_token_scores
from heedful.tasks.generate import Generate
from heedful.tasks.generation import GenerationOutput
from heedful.tasks.item_scorers import texts as item_scorers
from heedful.tasks.objectives import masked_tokens
from heedful.tasks.objectives.source import OneModel
from heedful.tokens import PairLayout, Tokenizer

_CONTINUES = Generate(pairs=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Continuation:
    """Continues texts; see ``Inference``."""

    abilities: ClassVar[frozenset[Ability]] = _CONTINUES.abilities
    answer_options: ClassVar[frozenset[str]] = _CONTINUES.answer_options
    inputs: ClassVar[tuple[Input, ...]] = (Input(name="text"),)
    example: ClassVar[str] = '"The cat sat on"'

    def encode(self, record: Record, tokenizer: Tokenizer, fit: LengthLimit) -> Fitted[Example]:
        """Encode a text to continue.

        Raises:
            UserError: it is a pair.
        """
        if record.text_pair is not None:
            raise UserError(
                f"{record.where}: a pair, but this run continues single texts (objective clm)"
            )
        return next(_CONTINUES.encode([record], tokenizer, fit, labelled=False))

    def batch(self, examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
        """Collate and pad examples."""
        return _CONTINUES.batch(examples, tokenizer, None)

    def run_model(
        self, model: Forward, batch: Batch, settings: PredictSettings
    ) -> list[GenerationOutput]:
        """Continue texts."""
        return _CONTINUES.run_model(model, batch, settings)

    def decode(
        self,
        record: Record,
        fitted: Fitted[Example],
        outputs: Sequence[GenerationOutput],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> Generation:
        """Decode tokens into texts."""
        return _CONTINUES.decode(record, fitted, outputs, settings, tokenizer)

    def explanation_target(
        self,
        computed: Answered[Any, GenerationOutput, Any],
        target: str | None,
        tokenizer: Tokenizer,
    ) -> ExplanationTarget:
        """Explain a word of the generated text, or the whole text."""
        return _CONTINUES.explanation_target(computed, target, tokenizer)


@dataclass(frozen=True, kw_only=True, slots=True)
class NextWords:
    """Causal language modelling; see ``Objective``."""

    metrics: ClassVar[tuple[str, ...]] = ("log_likelihood", "next_accuracy")
    pairs_documents: ClassVar[bool] = False
    source: ClassVar[OneModel] = OneModel("causal_lm")
    inference: ClassVar[Continuation] = Continuation()
    masks_tokens: ClassVar[bool] = False
    mask_share: ClassVar[float] = 0.15

    warning = masked_tokens.no_warning
    loss = masked_tokens.loss
    loss_divisors = masked_tokens.loss_divisors
    score = masked_tokens.score

    def sequences(
        self, corpus: Documents, frame: Frame, *, seed: int, epoch: int
    ) -> Iterator[Example]:
        """Cut full sequences from the concatenated texts; each begins with the class token."""
        if frame.layout.closing_type is not None:  # there the class token ends a text
            *end, begin = frame.layout.end
            frame = replace(frame, layout=PairLayout(begin=(begin,), end=tuple(end)))
        return causal_sequences(corpus, frame, seed=seed, epoch=epoch)

    def training_batch(
        self, examples: Sequence[Example], tokenizer: Tokenizer, rule: MaskRule | None, draw: Draw
    ) -> Batch:
        """Pad, and prevent attention between the texts of a sequence.

        The input ``positions`` are the flat indices in the batch of the N tokens that have a next
        token in the same text. The targets are ``tokens``, the next tokens, (N,).
        """
        batch = collate(examples, pad_id=tokenizer.pad_token_id, closing_type=None)
        ids, mask = batch.inputs["input_ids"], batch.inputs.get("attention_mask")
        is_token = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
        start_id = tokenizer.cls_token_id
        next_ids = F.pad(ids[:, 1:], (0, 1))  # (B, T)
        has_next = F.pad(is_token[:, 1:], (0, 1))
        if start_id != tokenizer.sep_token_id:
            has_next &= next_ids != start_id  # do not predict the start of the next text
        inputs = {"positions": has_next.flatten().nonzero().squeeze(1)}
        inputs |= packing_mask(ids, None if mask is None else is_token, start_id, causal=True)
        targets = {"tokens": next_ids[has_next]}
        return replace(masked_tokens.with_inputs(batch, inputs), targets=targets)

    def scored(
        self, numbers: Sequence[float], text: str, fitted: Fitted[Example]
    ) -> NextTokenCounts:
        """Wrap the scores of a sequence."""
        total, correct, count = numbers
        return NextTokenCounts(
            text=text,
            loss=total,
            correct=int(correct),
            predicted=int(count),
            tokens_total=fitted.tokens_total,
            tokens_used=fitted.tokens_used,
        )

    def scores(self) -> Scores[Any, Any]:
        """Return a new, empty accumulator of scores."""
        return next_token_scores()

    def item_scorer(self) -> AnyItemScorer:
        """Return the scorer of sequences."""
        return item_scorers.next_tokens()

    def model_card(self, masked: str) -> str:
        """Describe the run for its model card."""
        return "Continues a text, word by word; trained on running text."
