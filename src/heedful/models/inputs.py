"""Check an encoder's arguments before any computation, with one-line error messages.

Shapes: B batch, S input length, T key length (cached and new tokens), E length of the encoder's
output, H heads, L blocks, D model width, W embedding width.
"""

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor

from heedful import losses
from heedful.device_transfer import blocks_host, get_host_copy
from heedful.errors import UserError, with_article
from heedful.layers import masks
from heedful.layers.block import Context
from heedful.layers.blocksparse import texts_of
from heedful.layers.cache import BlockCache, Cache, KeyValue
from heedful.layers.packing import Packing, packing, packing_of_mask, packing_of_texts
from heedful.models.encoder_config import EncoderConfig


def check_tokens(
    ids: Tensor | None, vectors: Tensor | None, start: int, max_length: int, config: EncoderConfig
) -> Tensor:
    """Return token ids, shape (B, S), or vectors, shape (B, S, W), whichever is given.

    Args:
        ids: shape (B, S).
        vectors: shape (B, S, W).
        start: number of cached tokens before them.
        max_length: maximum sequence length of the model.
        config: configuration of the model.
    """
    for name, tensor in (("input_ids", ids), ("inputs_embeds", vectors)):
        if tensor is not None and not isinstance(tensor, Tensor):
            raise UserError(
                f"{name}: expected a tensor, found {with_article(type(tensor).__name__)}; "
                "model(**tokenizer(texts, padding=True, return_tensors='pt')) answers for texts"
            )
    if ids is not None and vectors is None:
        tokens, shape = ids, "(batch, length)"
        fits = ids.ndim == 2
        if fits:
            check_ids("input_ids", ids, config.vocab_size)
    elif vectors is not None and ids is None:
        tokens, shape = vectors, f"(batch, length, {config.embedding_width})"
        fits = vectors.ndim == 3 and vectors.shape[2] == config.embedding_width
    else:
        raise UserError("give either input_ids or inputs_embeds, not both")
    if not fits:
        name = "input_ids" if vectors is None else "inputs_embeds"
        raise UserError(f"{name} has shape {tuple(tokens.shape)}; it must be {shape}")
    length = tokens.shape[1]
    if not 1 <= length <= max_length - start:
        more = f" and past_key_values {start}" if start else ""
        raise UserError(
            f"the sequence has {length} tokens{more}; the model takes 1 to {max_length}"
        )
    return tokens


def check_ids(name: str, ids: Tensor, limit: int) -> None:
    """Check that ids are integers from 0 to ``limit`` - 1."""
    if ids.dtype not in (torch.int64, torch.int32):
        raise UserError(f"{name} has type {ids.dtype}; it must be torch.int64 or torch.int32")
    # Checking values on another device would block the host.
    if ids.device.type == "cpu" and not torch.compiler.is_compiling() and ids.numel():
        low, high = (int(value) for value in ids.aminmax())
        if low < 0 or high >= limit:
            wrong = low if low < 0 else high
            raise UserError(f"{name} holds {wrong}; the model knows 0 to {limit - 1}")


def check_rows(name: str, ids: Tensor | None, tokens: Tensor, limit: int) -> None:
    """Check ids that accompany the tokens: one row per sequence, or one row for all."""
    if ids is None:
        return
    if limit == 0:
        raise UserError(f"{name} are given; this model has none")
    shape = tuple(tokens.shape[:2])
    if ids.shape not in (shape, (1, shape[1])):
        raise UserError(f"{name} has shape {tuple(ids.shape)}; it must be {shape}")
    check_ids(name, ids, limit)


def check_head_mask(
    name: str, mask: Tensor | None, shapes: Mapping[str, tuple[int, int]]
) -> Tensor | None:
    """Check a head mask and expand it to shape (L, H).

    Args:
        name: name of the model's argument.
        mask: shape (H,) or (L, H), or None.
        shapes: ``Model.head_masks``.
    """
    if mask is None:
        return None
    blocks, heads = shapes[name]
    if mask.shape not in ((heads,), (blocks, heads)):
        raise UserError(
            f"{name} has shape {tuple(mask.shape)}; it must be {(heads,)} or {(blocks, heads)}"
        )
    return mask.expand(blocks, heads)


def context(
    config: EncoderConfig,
    tokens: Tensor,
    *,
    attention_mask: Tensor | None,
    past: Cache | None,
    encoded: Tensor | None,
    encoded_mask: Tensor | None,
    need_cache: bool,
    need_texts: bool = False,
) -> Context:
    """Check the arguments of attention and build the context that all blocks share.

    Args:
        config: configuration of the model.
        tokens: token ids, shape (B, S), or vectors, shape (B, S, W).
        attention_mask: shape (B, T) or (B, S, T), or see ``masks.by_sequence``.
        past: KV cache returned by an earlier call.
        encoded: ``encoder_hidden_states``, shape (B, E, D).
        encoded_mask: ``encoder_attention_mask``, shape (B, E) or (B, S, E), or see
            ``masks.by_sequence``.
        need_cache: whether to return a KV cache.
        need_texts: whether blocks need the bounds of the texts.
    """
    batch, length = tokens.shape[:2]
    attention_mask = masks.by_sequence(attention_mask, batch)
    encoded_mask = masks.by_sequence(encoded_mask, batch)
    if (past is not None or need_cache) and not config.is_decoder:
        name = "use_cache" if past is None else "past_key_values"
        raise UserError(f"{name} is for a decoder; is_decoder is false in this model's config")
    encoded_length = None if encoded is None else _check_encoded(encoded, batch, config)
    if past is not None:
        encoded_length = _check_cache(past, batch, encoded_length, config)

    def mask_on(device: torch.device, attention_mask: Tensor | None) -> Tensor | None:
        return masks.for_self_attention(
            attention_mask,
            batch=batch,
            queries=length,
            keys=length if past is None else length + past.length,
            causal=config.is_decoder,
            device=device,
        )

    mask = host_mask = mask_on(tokens.device, attention_mask)
    if need_texts and attention_mask is not None and blocks_host(tokens.device):
        attention_mask = get_host_copy(attention_mask)
        host_mask = mask_on(attention_mask.device, attention_mask)
    cross_mask = None
    if encoded_mask is not None:
        if encoded_length is None:
            raise UserError("encoder_attention_mask is given without encoder_hidden_states")
        cross_mask = masks.from_attention_mask(
            encoded_mask,
            batch=batch,
            queries=length,
            keys=encoded_length,
            name="encoder_attention_mask",
        )
    return Context(
        mask=mask,
        encoder_hidden_states=encoded,
        cross_mask=cross_mask,
        need_cache=need_cache,
        causal=config.is_decoder,
        texts=texts_of(host_mask, tokens) if need_texts else None,
    )


def _check_encoded(encoded: Tensor, batch: int, config: EncoderConfig) -> int:
    """Check the input of cross-attention and return E."""
    if not config.add_cross_attention:
        raise UserError(
            "encoder_hidden_states are for a decoder with cross-attention; "
            "add_cross_attention is false in this model's config"
        )
    if encoded.ndim != 3 or (encoded.shape[0], encoded.shape[2]) != (batch, config.hidden_size):
        raise UserError(
            f"encoder_hidden_states has shape {tuple(encoded.shape)}; "
            f"it must be ({batch}, length, {config.hidden_size})"
        )
    return encoded.shape[1]


def _check_cache(past: Cache, batch: int, encoded: int | None, config: EncoderConfig) -> int | None:
    """Check that a KV cache fits this model and batch. Return E, from the cache if not given."""
    blocks, heads = config.num_hidden_layers, config.num_attention_heads
    width = config.hidden_size // heads
    if len(past.blocks) != blocks:
        raise UserError(f"past_key_values has {len(past.blocks)} blocks; the model has {blocks}")
    cross = past.blocks[0].cross_attention
    if cross is not None and encoded is None:
        encoded = cross.key.shape[2]
    for number, block in enumerate(past.blocks):
        kept = heads - len(config.pruned_heads.get(number, ()))
        pairs = [("", block.self_attention, (batch, kept, past.length, width))]
        if block.cross_attention is not None and encoded is not None:
            pairs += [("cross-attention ", block.cross_attention, (batch, heads, encoded, width))]
        for name, pair, shape in pairs:
            for kind, tensor in pair._asdict().items():
                if tensor.shape != shape:
                    raise UserError(
                        f"past_key_values: the {name}{kind} of block {number} has shape "
                        f"{tuple(tensor.shape)}; it must be {shape}"
                    )
    return encoded


def as_cache(past: Cache | Sequence[Sequence[Tensor]] | None) -> Cache | None:
    """Return a KV cache, from the keys and values of each block if that is what is given.

    Raises:
        UserError: it is neither.
    """
    if past is None or hasattr(past, "blocks"):
        return cast("Cache | None", past)  # or the cache of a search, which changes in place
    if not isinstance(past, Sequence) or not all(
        isinstance(block, Sequence)
        and len(block) in (2, 4)
        and all(isinstance(tensor, Tensor) for tensor in block)
        for block in past
    ):
        raise UserError(
            f"past_key_values is {with_article(type(past).__name__)}; give what an earlier call "
            "returned, or the keys and values of each block: ((keys, values), ...)"
        )
    return Cache(
        blocks=tuple(
            BlockCache(
                self_attention=KeyValue(*block[:2]),
                cross_attention=KeyValue(*block[2:]) if len(block) > 2 else None,
            )
            for block in past
        )
    )


def packing_of(
    mask: Tensor | None, tokens: Tensor, *, attends: bool = False, only_first: bool = False
) -> Packing | None:
    """Return how to pack the sequences; None if the mask has too little padding or another shape.

    Args:
        mask: 1 or True for a token, 0 or False for padding. Shape (B, S). Another function rejects
            masks of a wrong shape.
        tokens: token ids or vectors. Shape (B, S, ...).
        attends: whether attention runs on packed sequences, too; see ``varlen.py``.
        only_first: whether the first token of each sequence is needed, so that none may be padding.
    """
    if mask is None or mask.shape != tokens.shape[:2]:
        return None
    host_mask = get_host_copy(mask).bool()
    if only_first and not host_mask[:, 0].all():
        return None
    return (
        packing_of_texts(host_mask, tokens.device) if attends else packing(host_mask, tokens.device)
    )


def packing_of_separate_texts(
    mask: Tensor, tokens: Tensor, config: EncoderConfig
) -> Packing | None:
    """Return how to pack sequences of several texts that a mask with one row per query separates.

    Args:
        mask: 1 or True where a query may attend. Shape (B, S, S). Another function rejects masks
            of a wrong shape.
        tokens: token ids, shape (B, S). A token that does not attend to itself is padding if it
            has the padding id; any other such token prevents packing.
        config: configuration of the model.
    """
    if tokens.ndim != 2 or mask.shape != (*tokens.shape, tokens.shape[1]):
        return None
    host_mask = get_host_copy(mask).bool()
    masked_out = ~host_mask.diagonal(dim1=1, dim2=2)  # (B, S)
    if config.pad_token_id is not None:
        masked_out = masked_out & (get_host_copy(tokens) != config.pad_token_id)
    if masked_out.any():
        return None
    return packing_of_mask(host_mask, tokens.device, causal=config.is_decoder)


def check_sequences(name: str, ids: Tensor, max_length: int) -> tuple[int, int]:
    """Check that ids are sequences of at most ``max_length`` tokens; return batch size and length.

    Raises:
        UserError: the shape is wrong, or the sequences are empty or too long.
    """
    if ids.ndim != 2:
        raise UserError(f"{name} has shape {tuple(ids.shape)}; it must be (batch, length)")
    batch, length = ids.shape
    if not 1 <= length <= max_length:
        raise UserError(f"{name} has {length} tokens; the model takes 1 to {max_length}")
    return batch, length


def shift_right(labels: Tensor, *, start: int, pad: int) -> Tensor:
    """Shift labels right to make decoder inputs; ignored labels become padding.

    Args:
        labels: shape (B, S).
        start: id of the start token.
        pad: id of the padding token.
    """
    first = torch.full_like(labels[:, :1], start)
    shifted = labels[:, :-1].masked_fill(labels[:, :-1] == losses.IGNORED, pad)
    return torch.cat([first, shifted], 1)
