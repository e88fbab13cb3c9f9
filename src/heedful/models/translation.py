"""Shared code of translators: decoder inputs, loss and search options.

Shapes: B batch, E source length, S target length, N scored positions, V target vocabulary.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from heedful import losses
from heedful.arguments import suggest_arguments
from heedful.decoding.search import Search
from heedful.device_transfer import get_host_copy
from heedful.errors import UserError
from heedful.layers.packing import Packing
from heedful.models.inputs import check_sequences, packing_of, shift_right
from heedful.models.labels import labelled_positions
from heedful.models.translator_config import TranslatorConfig

P = ParamSpec("P")
R = TypeVar("R")


def takes_search(generate: Callable[P, R]) -> Callable[P, R]:
    """Decorate a translator's ``generate``: calls with the reference's options are refused."""

    @wraps(generate)
    def call(*args: P.args, **named: P.kwargs) -> R:
        if "search" not in named:
            raise UserError("give search=heedful.Search(eos_token_id=..., max_new_tokens=...)")
        return generate(*args, **named)

    return suggest_arguments(torch.inference_mode()(call))


def decoder_inputs(
    input_ids: Tensor,
    decoder_input_ids: Tensor | None,
    labels: Tensor | None,
    config: TranslatorConfig,
) -> tuple[Tensor, Tensor | None]:
    """Return the decoder's input ids and the scored positions.

    Args:
        input_ids: the sources. Shape (B, E).
        decoder_input_ids: input ids of the decoder. Shape (B, S). None takes the labels shifted
            right.
        labels: target token ids, -100 for a position that is not scored. Shape (B, S).
        config: configuration of the model.

    Returns:
        Input ids, shape (B, S), and positions in the flattened batch, shape (N,), int64. Positions
        are None without labels, which means that all are scored.

    Raises:
        UserError: there is no target, the labels are invalid, or there is not one target for each
            source.
    """
    if decoder_input_ids is None:
        if labels is None:
            raise UserError("give decoder_input_ids or labels")
        decoder_input_ids = shifted(labels, config)
    if input_ids.ndim == 2:  # another function rejects other shapes
        check_same_batch(input_ids, decoder_input_ids)
    if labels is None:
        return decoder_input_ids, None
    shape = tuple(decoder_input_ids.shape)
    return decoder_input_ids, labelled_positions(labels, None, shape, config.decoder_vocab_size)


def check_same_batch(source: Tensor, target: Tensor) -> None:
    """Check that there is a target for each source. Shapes (B, ...) and (B, ...).

    Raises:
        UserError: their numbers differ.
    """
    sources, targets = source.shape[0], target.shape[0]
    if sources != targets:
        raise UserError(f"input_ids are of {sources} texts, the target of {targets}")


def before_last_label(labels: Tensor) -> Tensor:
    """Return a mask of the decoder tokens that affect the loss: up to the last label.

    Args:
        labels: shape (B, S).

    Returns:
        Bool, shape (B, S).
    """
    return (labels != losses.IGNORED).flip(1).cummax(1).values.flip(1)


def pack_source_and_target(
    input_ids: Tensor,
    attention_mask: Tensor | None,
    decoder_input_ids: Tensor,
    labels: Tensor,
    *,
    attends: bool,
) -> tuple[Packing | None, Packing | None]:
    """Return how to pack the source and the target sequences; None keeps padding.

    Args:
        input_ids: shape (B, E).
        attention_mask: mask of ``input_ids``, if there is padding. Shape (B, E).
        decoder_input_ids: shape (B, S).
        labels: shape (B, S).
        attends: whether attention runs on packed sequences, too; see ``varlen.py``.
    """
    if attends and attention_mask is None:
        attention_mask = torch.ones(input_ids.shape, dtype=torch.bool)
    source = packing_of(attention_mask, input_ids, attends=attends)
    target_mask = before_last_label(get_host_copy(labels))
    target = packing_of(target_mask, decoder_input_ids, attends=attends)
    if attends and (source is None or target is None):  # cross-attention needs both packed
        return None, None
    return source, target


def shifted(labels: Tensor, config: TranslatorConfig) -> Tensor:
    """Return the labels shifted right, with ignored labels as padding. Shape (B, S)."""
    check_sequences("labels", labels, config.max_position_embeddings)
    return shift_right(labels, start=config.decoder_start_token_id, pad=config.pad_token_id)


def translation_loss(
    logits: Tensor,
    labels: Tensor | None,
    positions: Tensor | None,
    smoothing: float,
    reduction: losses.Reduction,
) -> Tensor | None:
    """Return the loss; None if there are no labels.

    Args:
        logits: shape (N, V).
        labels: shape (B, S).
        positions: scored positions; see ``decoder_inputs``.
        smoothing: label smoothing, the probability spread evenly over the vocabulary.
        reduction: mean or sum over the labels.
    """
    if labels is None:
        return None
    total, count = losses.cross_entropy(
        logits, labels.flatten()[positions], label_smoothing=smoothing
    )
    return losses.reduced(total, count, reduction)


def search_options(search: Search, config: TranslatorConfig) -> Search:
    """Return the search options of a translator, which never generates padding.

    Raises:
        UserError: ``max_new_tokens`` exceeds the model's maximum length.
    """
    limit = config.max_position_embeddings
    if search.max_new_tokens > limit:
        raise UserError(
            f"max_new_tokens is {search.max_new_tokens}; the model generates at most {limit}"
        )
    return replace(search, never=(*search.never, config.pad_token_id))


def initial_coverage(encoded: Tensor, mask: Tensor | None) -> Tensor:
    """Return the initial coverage of the source tokens: 1 for padding, 0 for other tokens.

    Args:
        encoded: output of the encoder. Shape (B, E, ...).
        mask: True for a token, False for padding. Shape (B, E).

    Returns:
        Shape (B, E), float32.
    """
    coverage = encoded.new_zeros(encoded.shape[:2], dtype=torch.float32)
    return coverage if mask is None else coverage.masked_fill(~mask, 1.0)
