"""Permutation language modelling (Yang et al. 2019, sections 2.2 to 2.4).

A sequence is plain text of a single document. It is read as two segments, the second with the
memory of the first (section 2.4). No gradient flows into the memory, and no memory is carried over
between steps. In each segment, spans of tokens are predicted one by one in a random order.

Shapes: B sequences of a batch, T their length, N predicted tokens, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from heedful import losses
from heedful.batches import Batch, Draw, Example
from heedful.batches.corpus import Documents
from heedful.batches.masking import MaskRule
from heedful.batches.permuting import permutation_mask, prediction_order
from heedful.batches.segments import IN_WORD
from heedful.batches.sentence_pairs import Frame, single_document_sequences
from heedful.device_transfer import copy_to_device, get_host_copy
from heedful.item_results import AnyItemScorer
from heedful.task import Forward, Scores
from heedful.tasks.answers.sequences import sequence_scores
from heedful.tasks.item_scorers import texts as item_scorers
from heedful.tasks.objectives import masked_tokens
from heedful.tasks.objectives.inference import MaskFilling
from heedful.tasks.objectives.source import OneModel
from heedful.tokens import Tokenizer

LEAST_SEGMENT = 8
"""Minimum segment length in tokens; below it, a sequence is read as a single segment."""

_BY_TOKEN = ("input_ids", "attention_mask", "token_type_ids")
"""Inputs with a column per token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PermutedWords:
    """Permutation language modelling; see ``Objective``."""

    segment: int = 64
    """Length of the first segment in tokens; the same for all sequences in any batch."""

    source: ClassVar[OneModel] = OneModel("permuted_lm")
    inference: ClassVar[MaskFilling] = MaskFilling(pairs=False)
    masks_tokens: ClassVar[bool] = True
    mask_share: ClassVar[float] = 1 / 6
    metrics: ClassVar[tuple[str, ...]] = ("masked_accuracy",)
    pairs_documents: ClassVar[bool] = False

    warning = masked_tokens.no_warning
    loss_divisors = masked_tokens.loss_divisors
    scored = masked_tokens.scored

    def sequences(
        self, corpus: Documents, frame: Frame, *, seed: int, epoch: int
    ) -> Iterator[Example]:
        """Cut sequences, each from a single document."""
        return single_document_sequences(corpus, frame, seed=seed, epoch=epoch)

    def training_batch(
        self, examples: Sequence[Example], tokenizer: Tokenizer, rule: MaskRule | None, draw: Draw
    ) -> Batch:
        """Draw the tokens to predict and their order.

        The input ``positions`` are the flat indices of these tokens in the batch; ``perm_mask``
        hides them. The targets are ``tokens``, (N,).
        """
        assert rule is not None
        batch = masked_tokens.pad(examples, tokenizer)
        ids = batch.inputs["input_ids"]
        order_array = np.zeros(ids.shape, np.int64)
        for row, example, index in zip(order_array, examples, draw.rows, strict=True):
            row[: len(example.ids)] = prediction_order(
                ~rule.special[example.ids & ~IN_WORD],
                rule.share,
                seed=draw.seed,
                epoch=draw.epoch,
                index=int(index),
            )
        order = torch.from_numpy(order_array)
        positions = order.flatten().nonzero().squeeze(1)  # (N,)
        inputs = {"perm_mask": permutation_mask(order), "positions": positions}
        targets = {"tokens": ids.flatten()[positions]}
        return replace(masked_tokens.with_inputs(batch, inputs), targets=targets)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the summed loss of the predicted tokens. Shape (1,)."""
        sums = [
            losses.cross_entropy(logits, part.targets["tokens"])[0]
            for logits, part in _read(forward, batch, self.segment)
        ]
        return torch.stack(sums).sum(0, keepdim=True)

    def score(self, model: Forward, batch: Batch) -> Tensor:
        """Return the summed loss, the correct tokens and the predicted tokens. Shape (B, 3)."""
        scores = [
            masked_tokens.token_scores(logits, part)
            for logits, part in _read(model, batch, self.segment)
        ]
        return torch.stack(scores).sum(0)

    def scores(self) -> Scores[Any, Any]:
        """Return a new, empty accumulator of scores."""
        return sequence_scores()

    def item_scorer(self) -> AnyItemScorer:
        """Return the scorer of sequences."""
        return item_scorers.masked_tokens()

    def model_card(self, masked: str) -> str:
        """Describe the run for its model card."""
        return "Predicts masked words; trained by predicting words in any order."


def _read(forward: Forward, batch: Batch, segment: int) -> Iterator[tuple[Tensor, Batch]]:
    """Read each sequence as two segments, and yield the logits of each segment.

    Args:
        forward: the model.
        batch: the sequences.
        segment: length of the first segment in tokens.

    Yields:
        Logits of the predicted tokens of a segment, shape (N', V), and the batch with only the
        ``positions`` and ``tokens`` of this segment.
    """
    inputs = batch.inputs
    length, positions = inputs["input_ids"].shape[1], inputs["positions"]
    if segment < LEAST_SEGMENT or length <= segment:
        yield forward(**inputs).logits, batch
        return
    host_positions = get_host_copy(positions)
    rows, columns = host_positions // length, host_positions % length
    mems = None
    for start, stop in ((0, segment), (segment, length)):
        segment_inputs = {
            name: value[:, start:stop] for name, value in inputs.items() if name in _BY_TOKEN
        }
        (in_segment,) = ((columns >= start) & (columns < stop)).nonzero(as_tuple=True)
        segment_positions = rows[in_segment] * (stop - start) + columns[in_segment] - start
        output = forward(
            **segment_inputs,
            perm_mask=inputs["perm_mask"][:, start:stop, start:stop],
            positions=copy_to_device(segment_positions, positions.device),
            mems=mems,
            use_mems=stop < length,
        )
        mems = output.mems
        in_segment = copy_to_device(in_segment, positions.device)
        part = masked_tokens.with_inputs(batch, {"positions": positions[in_segment]})
        yield output.logits, replace(part, targets={"tokens": batch.targets["tokens"][in_segment]})
