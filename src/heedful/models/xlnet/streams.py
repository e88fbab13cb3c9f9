"""Attention masks for XLNet's two streams, its factorisation orders and its memory.

The content stream has a query for each of S tokens of a segment, computed from the token. The query
stream has one for each of P predicted tokens, computed only from its position (Yang et al. 2019,
section 2.3). Both attend to the M tokens of the memory and to the content stream. So one batch
holds S + P queries over T = M + S keys, and only the mask distinguishes the streams.

Shapes: B batch, S length of a segment, P predicted tokens, M length of the memory, T = M + S, L
blocks, D model width.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.device_transfer import copy_to_device, get_host_copy
from heedful.errors import UserError
from heedful.layers import masks
from heedful.layers.block import Context
from heedful.layers.positions import Relations
from heedful.layers.relative import distance_vectors
from heedful.models.inputs import check_ids
from heedful.models.xlnet.config import XLNetConfig


class Targets(NamedTuple):
    """The predicted tokens."""

    positions: Tensor
    """Position of each predicted token in its segment. Shape (B, P), int64."""
    real: Tensor
    """False for an empty row of the mapping, which predicts nothing. Shape (B, P)."""


def check_memory(
    mems: Sequence[Tensor] | None, batch: int, config: XLNetConfig
) -> list[Tensor] | None:
    """Return each block's memory of earlier tokens, each of shape (B, M, D).

    Args:
        mems: memory returned by an earlier call, for each block of shape (M, B, D).
        batch: B.
        config: configuration of the model.

    Raises:
        UserError: the number of blocks or a shape is wrong.
    """
    if mems is None:
        return None
    if len(mems) != config.n_layer:
        raise UserError(f"mems has {len(mems)} blocks; the model has {config.n_layer}")
    length = mems[0].shape[0]
    for number, memory in enumerate(mems):
        if memory.shape != (length, batch, config.d_model):
            raise UserError(
                f"mems: the memory of block {number} has shape {tuple(memory.shape)}; "
                f"it must be {(length, batch, config.d_model)}"
            )
    return [memory.transpose(0, 1) for memory in mems] if length else None


def remember(
    states: Sequence[Tensor], memory: Sequence[Tensor] | None, config: XLNetConfig
) -> tuple[Tensor, ...]:
    """Return the memory for the next segment, detached from the graph.

    Args:
        states: each block's input for this segment. Each of shape (B, S, D).
        memory: each block's input for earlier segments. Each of shape (B, M, D).
        config: configuration of the model.

    Returns:
        For each block, shape (M', B, D).
    """
    kept = []
    for number, state in enumerate(states):
        if config.reuse_len:
            state = state[:, : config.reuse_len]
        if memory is not None:
            state = torch.cat([memory[number], state], 1)
        if config.mem_len:
            state = state[:, -config.mem_len :]
        kept.append(state.detach().transpose(0, 1))
    return tuple(kept)


def check_targets(target_mapping: Tensor | None, shape: tuple[int, int]) -> Targets | None:
    """Return the predicted tokens of a target mapping.

    Args:
        target_mapping: 1 if row p predicts token i, else 0. A row of zeros predicts nothing. Shape
            (B, P, S).
        shape: (B, S).

    Raises:
        UserError: the shape is wrong, a row is neither one-hot nor zero, or two rows predict the
            same token. Values are checked only on the CPU.
    """
    if target_mapping is None:
        return None
    batch, length = shape
    if target_mapping.ndim != 3 or (target_mapping.shape[0], target_mapping.shape[2]) != shape:
        raise UserError(
            f"target_mapping has shape {tuple(target_mapping.shape)}; "
            f"it must be ({batch}, predictions, {length})"
        )
    hot = target_mapping != 0
    if target_mapping.device.type == "cpu" and not torch.compiler.is_compiling():
        is_binary = bool((target_mapping == hot).all())
        if not is_binary or bool((hot.sum(2) > 1).any()) or bool((hot.sum(1) > 1).any()):
            raise UserError(
                "target_mapping: each row must have at most one 1 and otherwise zeros, and each "
                "token at most one row"
            )
    return Targets(hot.int().argmax(2), hot.any(2))


def mapping_of(positions: Tensor, shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Return the target mapping for given positions, and the row of each position in it.

    Args:
        positions: positions of the predicted tokens in the flattened batch, ascending. Shape (N,).
        shape: (B, S).

    Returns:
        The mapping, shape (B, P, S), bool, with P at least 1, and the rows in its B * P flattened
        rows, shape (N,).

    Raises:
        UserError: the shape or type is wrong, or a value is out of range. Values are checked only
            on the CPU.
    """
    batch, length = shape
    if positions.ndim != 1:
        raise UserError(f"positions has shape {tuple(positions.shape)}; it must be (number,)")
    check_ids("positions", positions, batch * length)
    device, positions = positions.device, get_host_copy(positions)
    rows = positions // length  # (N,)
    counts = torch.bincount(rows, minlength=batch)  # (B,)
    slots = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
    num_targets = max(int(counts.max()), 1)
    mapping = torch.zeros(batch, num_targets, length, dtype=torch.bool, device=rows.device)
    mapping[rows, slots, positions % length] = True
    return copy_to_device(mapping, device), copy_to_device(rows * num_targets + slots, device)


def padding(
    attention_mask: Tensor | None, input_mask: Tensor | None, shape: tuple[int, int]
) -> Tensor | None:
    """Return the padding mask, True for a token, shape (B, S); None if no mask is given.

    Args:
        attention_mask: 1 or True for a token. Shape (B, S).
        input_mask: inverse mask, 1 or True for padding. Shape (B, S).
        shape: (B, S).

    Raises:
        UserError: both masks are given, or the shape or the type is wrong.
    """
    if attention_mask is not None and input_mask is not None:
        raise UserError("give either attention_mask or input_mask, not both")
    for name, mask in (("attention_mask", attention_mask), ("input_mask", input_mask)):
        if mask is None:
            continue
        if mask.shape != shape:
            raise UserError(
                f"{name} has shape {tuple(mask.shape)}; it must be {shape}; "
                "for other masks, give perm_mask"
            )
        integers = mask.to(torch.int8) if mask.is_floating_point() else mask
        nonzero = masks.from_attention_mask(
            integers, batch=shape[0], queries=shape[1], keys=shape[1], name=name
        )[:, 0, 0]
        return nonzero if name == "attention_mask" else ~nonzero
    return None


def context_of(
    config: XLNetConfig,
    shape: tuple[int, int],
    memory: int,
    *,
    real: Tensor | None,
    perm_mask: Tensor | None,
    token_type_ids: Tensor | None,
    targets: Targets | None,
    device: torch.device,
) -> Context:
    """Return the inputs of all blocks for a segment; see ``mask_of`` and ``relations_of``."""
    mask = mask_of(
        config, shape, memory, real=real, perm_mask=perm_mask, targets=targets, device=device
    )
    relations = relations_of(
        config,
        shape,
        memory,
        token_type_ids=token_type_ids,
        targets=targets,
        real=real,
        whole=config.attn_type == "bi" and perm_mask is None,
        device=device,
    )
    attended = None if targets is None else shape[1]
    return Context(mask=mask, relations=relations, num_keys=attended)


def mask_of(
    config: XLNetConfig,
    shape: tuple[int, int],
    memory: int,
    *,
    real: Tensor | None,
    perm_mask: Tensor | None,
    targets: Targets | None,
    device: torch.device,
) -> Tensor | None:
    """Return the attention mask of both streams.

    A token of the content stream always attends to itself. A token of the query stream follows the
    mask, which must hide the token from itself.

    Args:
        config: configuration of the model.
        shape: (B, S).
        memory: M.
        real: see ``padding``.
        perm_mask: 1 where a token must not attend to another token. Shape (B, S, S).
        targets: the predicted tokens.
        device: device of the mask.

    Returns:
        Bool, True where a query may attend to a key. Broadcastable to (B, 1, S + P, T). None masks
        nothing.

    Raises:
        UserError: ``perm_mask`` has the wrong shape.
    """
    batch, length = shape
    allowed = None  # (1 or B, 1 or S, T)
    if perm_mask is not None:
        if perm_mask.shape != (batch, length, length):
            raise UserError(
                f"perm_mask has shape {tuple(perm_mask.shape)}; it must be "
                f"{(batch, length, length)}"
            )
        allowed = perm_mask == 0
    if real is not None:
        allowed = real[:, None] if allowed is None else allowed & real[:, None]
    if allowed is not None and memory:
        allowed = F.pad(allowed, (memory, 0), value=True)
    if config.attn_type == "uni":
        causal = torch.ones(length, memory + length, dtype=torch.bool, device=device).tril(memory)
        causal = causal.triu() if config.same_length else causal
        allowed = causal[None] if allowed is None else allowed & causal
    no_mask = allowed is None
    if allowed is not None:
        diagonal = torch.eye(length, dtype=torch.bool, device=device)
        content = allowed | F.pad(diagonal, (memory, 0))
    if targets is None:
        return None if no_mask else content[:, None]
    keys = memory + length
    if allowed is None:
        query = targets.real[..., None].expand(-1, -1, keys)
        content = torch.ones(1, 1, 1, dtype=torch.bool, device=device)
    else:
        rows = allowed.expand(batch, length, keys)
        query = rows.take_along_dim(targets.positions[..., None], 1) & targets.real[..., None]
    return torch.cat([content.expand(batch, length, keys), query], 1)[:, None]


def relations_of(
    config: XLNetConfig,
    shape: tuple[int, int],
    memory: int,
    *,
    token_type_ids: Tensor | None,
    targets: Targets | None,
    real: Tensor | None,
    whole: bool,
    device: torch.device,
) -> Relations:
    """Return the relative positions and segments of queries and keys.

    Args:
        config: configuration of the model.
        shape: (B, S).
        memory: M. Tokens of the memory have type 0.
        token_type_ids: any integers, of which only equality matters. Shape (B, S) or (1, S).
        targets: the predicted tokens.
        real: see ``padding``.
        whole: whether the mask of a segment hides only padding.
        device: device of the vectors.

    Raises:
        UserError: the token types have a wrong shape or type, or the batch size is odd with
            ``bi_data``.
    """
    batch, length = shape
    keys = memory + length
    distances = keys - 1 - torch.arange(keys + length - 1, device=device)
    if config.clamp_len > 0:
        distances = distances.clamp(-config.clamp_len, config.clamp_len)
    vectors = distance_vectors(distances, config.d_model)[None]
    if config.bi_data:
        if batch % 2:
            raise UserError(
                f"the batch has {batch} sequences; with bi_data half of it is read backwards, so "
                "the number must be even"
            )
        vectors = torch.cat([vectors, distance_vectors(-distances, config.d_model)[None]])
    differs = types = None
    if token_type_ids is not None:
        if token_type_ids.shape not in (shape, (1, length)):
            raise UserError(
                f"token_type_ids has shape {tuple(token_type_ids.shape)}; it must be {shape}"
            )
        check_ids("token_type_ids", token_type_ids, 2**31)
        types = token_type_ids.expand(batch, -1)
        query_types = types
        if targets is not None:
            query_types = torch.cat([types, types.gather(1, targets.positions)], 1)
        key_types = F.pad(types, (memory, 0))
        differs = (query_types[:, :, None] != key_types[:, None])[:, None]
    return Relations(
        vectors=vectors,
        other_segment=differs,
        query_positions=None if targets is None else targets.positions,
        segment_ids=types,
        token_mask=real,
        full_attention=whole and targets is None and not memory and not config.bi_data,
    )
