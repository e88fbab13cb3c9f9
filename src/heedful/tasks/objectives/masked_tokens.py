"""Shared code of objectives that mask tokens: masking, losses and scores.

Functions with a ``self`` parameter become methods of objectives; see ``Objective``.

Shapes: B sequences of a batch, T their length, N masked tokens, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful import losses
from heedful.batches import Batch, Draw, Example, Fitted
from heedful.batches.collate import collate
from heedful.batches.masking import IGNORED, MaskRule, mask_tokens
from heedful.distillation import DistillationLoss
from heedful.settings import PredictSettings
from heedful.task import Forward
from heedful.tasks.answers import filled_masks
from heedful.tasks.answers.sequences import MaskedCounts
from heedful.tokens import Tokenizer

MASKED = {
    "token": "tokens",
    "word": "whole words",
    "n-gram": "consecutive words",
    "entity": "entities and phrases",
}
"""Unit of masking, for the model card."""


def mask(
    examples: Sequence[Example], tokenizer: Tokenizer, rule: MaskRule | None, draw: Draw
) -> Batch:
    """Mask tokens, and pad.

    The flat indices of the N masked tokens in the batch are the input ``positions``. The targets
    are ``tokens``, (N,).
    """
    assert rule is not None  # the objective masks tokens
    draws = [
        mask_tokens(example.ids, rule, seed=draw.seed, epoch=draw.epoch, index=int(index))
        for example, index in zip(examples, draw.rows, strict=True)
    ]
    masked = [
        replace(example, ids=ids.astype(np.int32))
        for example, (ids, _) in zip(examples, draws, strict=True)
    ]
    batch = pad(masked, tokenizer)
    truth = np.full(batch.inputs["input_ids"].shape, IGNORED)  # (B, T)
    for row, (_, labels) in zip(truth, draws, strict=True):
        row[: len(labels)] = labels
    positions = np.flatnonzero(truth != IGNORED)  # (N,)
    return replace(
        with_inputs(batch, {"positions": torch.from_numpy(positions)}),
        targets={"tokens": torch.from_numpy(truth.reshape(-1)[positions])},
    )


def pad(examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
    """Collate and pad examples."""
    return collate(
        examples, pad_id=tokenizer.pad_token_id, closing_type=tokenizer.layout.closing_type
    )


def with_mask_positions(examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
    """Collate and pad examples; add the ``positions`` of their masks, as in `mask`."""
    batch = pad(examples, tokenizer)
    assert tokenizer.mask_token_id is not None  # training needed it
    masks = batch.inputs["input_ids"].flatten().eq(tokenizer.mask_token_id)
    return with_inputs(batch, {"positions": masks.nonzero().squeeze(1)})


def with_inputs(batch: Batch, inputs: dict[str, Tensor]) -> Batch:
    """Return a batch with additional model inputs."""
    return replace(batch, inputs=batch.inputs | inputs)


def with_first_position(first: int, batch: Batch) -> Batch:
    """Shift the position ids of a batch, if it has any, to start at ``first``."""
    positions = batch.inputs.get("position_ids")
    return batch if positions is None else with_inputs(batch, {"position_ids": positions + first})


def token_scores(logits: Tensor, batch: Batch) -> Tensor:
    """Score the predictions of masked tokens.

    Args:
        logits: logits of the masked tokens. Shape (N, V).
        batch: a batch from `mask`.

    Returns:
        For each sequence the summed loss, and the number of correct tokens and of masked tokens.
        Shape (B, 3).
    """
    tokens, positions = batch.targets["tokens"], batch.inputs["positions"]
    size, length = batch.inputs["input_ids"].shape
    sequence_ids = positions // length  # (N,)
    token_losses = -logits.float().log_softmax(-1).gather(1, tokens[:, None]).squeeze(1)  # (N,)
    correct = (logits.argmax(-1) == tokens).float()
    rows = torch.stack([token_losses, correct, torch.ones_like(token_losses)], dim=1)  # (N, 3)
    return rows.new_zeros(size, 3).index_add_(0, sequence_ids, rows)


def no_warning(self: object, labels: NDArray[np.float64]) -> str | None:
    """Return None: the labels are not checked."""
    return None


def loss(self: object, forward: Forward, batch: Batch) -> Tensor:
    """Return the summed loss of the target tokens. Shape (1,)."""
    logits: Tensor = forward(**batch.inputs).logits  # (N, V)
    return torch.stack([losses.cross_entropy(logits, batch.targets["tokens"])[0]])


def loss_divisors(self: object, batch: Batch) -> Tensor:
    """Return the number of target tokens. Shape (1,)."""
    tokens = batch.targets["tokens"]
    return torch.tensor([len(tokens)], device=tokens.device)


def score(self: object, model: Forward, batch: Batch) -> Tensor:
    """Return the result of `token_scores` for each sequence. Shape (B, 3)."""
    return token_scores(model(**batch.inputs).logits, batch)


def scored(
    self: object, numbers: Sequence[float], text: str, fitted: Fitted[Example]
) -> MaskedCounts:
    """Wrap the scores of a sequence."""
    return MaskedCounts.of(numbers, text, fitted)


def candidates(
    logits: Tensor, follows: Tensor | None, batch: Batch, settings: PredictSettings
) -> Tensor:
    """Return the most probable tokens of each mask of a batch; see `filled_masks.candidates`."""
    shape = batch.inputs["input_ids"].shape
    top = logits.shape[1] if settings.targets else settings.top
    return filled_masks.candidates(logits, follows, batch.inputs["positions"], shape, top)


def distillation_losses(batch: Batch) -> tuple[DistillationLoss, ...]:
    """Return the distillation losses: masked tokens, and pairs if the batch has pair targets.

    Args:
        batch: a batch from `mask`, optionally with ``pairs`` targets.
    """
    if "pairs" not in batch.targets:
        count = float(len(batch.targets["tokens"]))
        return (
            DistillationLoss(kind="classes", divisor=count, extract=lambda output: output.logits),
        )
    return (
        DistillationLoss(
            kind="classes",
            divisor=float(len(batch.targets["tokens"])),
            extract=lambda output: output.prediction_logits,
        ),
        DistillationLoss(
            kind="classes",
            divisor=float(len(batch.targets["pairs"])),
            extract=lambda output: output.pair_logits,
        ),
    )
