"""What translators of all kinds share: what they are to write, its loss, and their searches.

Shapes: B batch, E source length, S target length, N positions that are scored, V target vocabulary.
"""

from dataclasses import replace

import torch
from torch import Tensor

from heedful import losses
from heedful.decoding.search import Search
from heedful.errors import UserError
from heedful.host import on_host
from heedful.layers.packing import Packing
from heedful.models.inputs import check_sequences, packing_of, shift_right
from heedful.models.labels import labelled_positions
from heedful.models.translator_config import TranslatorConfig


def to_write(
    decoder_input_ids: Tensor | None, labels: Tensor | None, config: TranslatorConfig
) -> tuple[Tensor, Tensor | None]:
    """Return what a decoder reads while it writes, and which positions of it are scored.

    Args:
        decoder_input_ids: what it reads. Shape (B, S). If None, the labels shifted to the right.
        labels: what it is to write, -100 for what is not scored. Shape (B, S).
        config: of the model.

    Returns:
        Shape (B, S), and shape (N,), int64, of positions in the batch laid out as one row; None
        without labels, where all are scored.

    Raises:
        UserError: both are None, or the labels do not fit.
    """
    if decoder_input_ids is None:
        if labels is None:
            raise UserError("give decoder_input_ids or labels: what to write")
        decoder_input_ids = shifted(labels, config)
    if labels is None:
        return decoder_input_ids, None
    shape = tuple(decoder_input_ids.shape)
    return decoder_input_ids, labelled_positions(labels, None, shape, config.decoder_vocab_size)


def before_last_label(labels: Tensor) -> Tensor:
    """Tell which tokens of a decoder matter to a loss: those up to the last with a label.

    Args:
        labels: shape (B, S).

    Returns:
        Bool, shape (B, S).
    """
    return (labels != losses.IGNORED).flip(1).cummax(1).values.flip(1)


def packings(
    input_ids: Tensor,
    attention_mask: Tensor | None,
    decoder_input_ids: Tensor,
    labels: Tensor,
    *,
    attends: bool,
) -> tuple[Packing | None, Packing | None]:
    """Tell how to leave out the padding of the texts to read, and of those to write.

    Args:
        input_ids: shape (B, E).
        attention_mask: of them, if there is padding. Shape (B, E).
        decoder_input_ids: shape (B, S).
        labels: shape (B, S).
        attends: whether tokens attend to each other without padding, too; see ``varlen.py``.
    """
    if attends and attention_mask is None:
        attention_mask = torch.ones(input_ids.shape, dtype=torch.bool)
    source = packing_of(attention_mask, input_ids, attends=attends)
    labelled = before_last_label(on_host(labels))
    target = packing_of(labelled, decoder_input_ids, attends=attends)
    if attends and (source is None or target is None):  # one attends to the other
        return None, None
    return source, target


def shifted(labels: Tensor, config: TranslatorConfig) -> Tensor:
    """Return the token before each label, padding where there is none. Shape (B, S)."""
    check_sequences("labels", labels, config.max_position_embeddings)
    return shift_right(labels, start=config.decoder_start_token_id, pad=config.pad_token_id)


def loss_of(
    logits: Tensor,
    labels: Tensor | None,
    positions: Tensor | None,
    smoothing: float,
    reduction: losses.Reduction,
) -> Tensor | None:
    """Return the loss of labels; None if there are none.

    Args:
        logits: shape (N, V).
        labels: shape (B, S).
        positions: see ``to_write``.
        smoothing: share of the truth that all pieces have alike.
        reduction: whether it is the mean over the labels or their sum.
    """
    if labels is None:
        return None
    total, count = losses.cross_entropy(
        logits, labels.flatten()[positions], label_smoothing=smoothing
    )
    return losses.reduced(total, count, reduction)


def options_of(search: Search, config: TranslatorConfig) -> Search:
    """Return how a translator looks: it never writes padding.

    Raises:
        UserError: a text may become longer than the model can write.
    """
    most = config.max_position_embeddings
    if search.max_new_tokens > most:
        raise UserError(f"max_new_tokens is {search.max_new_tokens}; the model writes {most}")
    return replace(search, never=(*search.never, config.pad_token_id))


def uncovered(encoded: Tensor, mask: Tensor | None) -> Tensor:
    """Return how much of each source token is covered before the first token: padding is.

    Args:
        encoded: the encoder's output. Shape (B, E, ...).
        mask: True for a token, False for padding. Shape (B, E).

    Returns:
        Shape (B, E), float32.
    """
    coverage = encoded.new_zeros(encoded.shape[:2], dtype=torch.float32)
    return coverage if mask is None else coverage.masked_fill(~mask, 1.0)
