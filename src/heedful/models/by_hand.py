"""Blocks and stacks that code for the reference can also call alone, with its arguments.

::

    mask = model.get_extended_attention_mask(attention_mask)
    hidden = model.embeddings(input_ids)
    for layer in model.encoder.layer:
        hidden = layer(hidden, mask)[0]

Shapes: B batch, H heads, L blocks, S input length, T key length, E length of the encoder's output,
D model width.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from heedful.arguments import suggest_arguments
from heedful.errors import UserError
from heedful.layers import masks
from heedful.layers.block import Block, Context
from heedful.layers.cache import Cache
from heedful.layers.stack import Stack
from heedful.models.outputs import BertModelOutput

HeadMask = Tensor | Sequence[Tensor | None] | None


def _has_context(inputs: Sequence[object], options: Mapping[str, object]) -> bool:
    """Return whether the arguments of a call are those of heedful's models."""
    return isinstance(inputs[1] if len(inputs) > 1 else options.get("context"), Context)


class CallableBlock(Block):
    """A block of a model.

    Attributes:
        causal: whether attention without a mask is causal.
    """

    causal: bool = False

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Compute the block; see ``forward``, or `alone` without a ``Context``."""
        if _has_context(inputs, options):
            return super().__call__(*inputs, **options)
        return self.alone(*inputs, **options)

    @suggest_arguments
    def alone(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        head_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        output_attentions: bool = False,
    ) -> tuple[Tensor, ...]:
        """Compute the block alone.

        Args:
            hidden_states: shape (B, S, D).
            attention_mask: see `context_of`.
            head_mask: factor on each head's output. H numbers, in any shape.
            encoder_hidden_states: see `context_of`.
            encoder_attention_mask: see `context_of`.
            output_attentions: whether to return the attention weights.

        Returns:
            The hidden states and, if requested, the attention weights and those of cross-attention.

        Raises:
            UserError: a mask has a wrong shape.
        """
        encoder = (encoder_hidden_states, encoder_attention_mask)
        context = context_of(hidden_states, attention_mask, *encoder, causal=self.causal)
        row = None if head_mask is None else head_mask.flatten()
        output = self(
            hidden_states,
            context,
            head_mask=row,
            cross_head_mask=row,
            need_weights=output_attentions,
        )
        returned = (output.hidden, output.weights, output.cross_weights)
        return tuple(value for value in returned if value is not None)


class CallableStack(Stack):
    """The stack of blocks of a model."""

    def set_causal(self, causal: bool) -> None:
        """Set whether attention without a mask is causal in blocks that are called alone."""
        for block in self.distinct:
            if isinstance(block, CallableBlock):
                block.causal = causal

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Compute all blocks; see ``forward``, or `alone` without a ``Context``."""
        if _has_context(inputs, options):
            return super().__call__(*inputs, **options)
        return self.alone(*inputs, **options)

    @suggest_arguments
    def alone(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        head_mask: HeadMask = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = False,
        output_hidden_states: bool | None = False,
        return_dict: bool | None = True,
    ) -> BertModelOutput | tuple[Any, ...]:
        """Compute all blocks, without embeddings and pooler.

        Args:
            hidden_states: shape (B, S, D).
            attention_mask: see `context_of`.
            head_mask: factor on the output of each block's heads, or None for each block, as
                ``model.get_head_mask`` returns them.
            encoder_hidden_states: see `context_of`.
            encoder_attention_mask: see `context_of`.
            past_key_values: KV cache returned by an earlier call, which this call continues.
            use_cache: whether to return the KV cache.
            output_attentions: whether to return the attention weights.
            output_hidden_states: whether to return the input and the outputs of the blocks.
            return_dict: whether to return an output with named values, or a tuple of them.

        Raises:
            UserError: a mask has a wrong shape.
        """
        blocks = self.distinct
        causal = bool(blocks) and getattr(blocks[0], "causal", False)
        context = context_of(
            hidden_states,
            attention_mask,
            encoder_hidden_states,
            encoder_attention_mask,
            past=0 if past_key_values is None else past_key_values.length,
            causal=causal,
            need_cache=bool(use_cache),
        )
        factors = _head_factors(head_mask)
        computed = self(
            hidden_states,
            context,
            head_mask=factors,
            cross_head_mask=factors,
            past=None if past_key_values is None else past_key_values.blocks,
            weights_of=range(len(self.blocks)) if output_attentions else (),
            need_states=bool(output_hidden_states),
        )
        output = BertModelOutput(
            last_hidden_state=computed.hidden,
            past_key_values=computed.cache,
            hidden_states=computed.states if output_hidden_states else None,
            attentions=computed.attentions,
            cross_attentions=computed.cross_attentions,
        )
        return output.to_tuple() if return_dict is False else output


def context_of(
    hidden: Tensor,
    attention_mask: Tensor | None,
    encoder_hidden_states: Tensor | None = None,
    encoder_attention_mask: Tensor | None = None,
    *,
    past: int = 0,
    causal: bool = False,
    need_cache: bool = False,
) -> Context:
    """Return the context of blocks that are called alone.

    Args:
        hidden: their input. Shape (B, S, D).
        attention_mask: added to the attention scores, or bool: True where a token may be attended
            to. Four dimensions, broadcastable to (B, H, S, T). None: a decoder's attention is
            causal, and any other masks nothing.
        encoder_hidden_states: input of cross-attention. Shape (B, E, D).
        encoder_attention_mask: bool, or 0 where a token of the encoder may be attended to, and a
            large negative number elsewhere. Broadcastable to (B, H, S, E).
        past: number of cached tokens.
        causal: whether the blocks are a decoder's.
        need_cache: see ``Context``.

    Raises:
        UserError: a mask does not have four dimensions.
    """
    for name, value in (
        ("attention_mask", attention_mask),
        ("encoder_attention_mask", encoder_attention_mask),
    ):
        if value is not None and value.ndim != 4:
            made = "get_extended" if name == "attention_mask" else "invert"
            raise UserError(
                f"{name} has shape {tuple(value.shape)}; layers called alone take four "
                f"dimensions, as model.{made}_attention_mask(mask) returns them"
            )
    mask = bias = None
    if attention_mask is None:
        batch, queries = hidden.shape[:2]
        mask = masks.for_self_attention(
            None,
            batch=batch,
            queries=queries,
            keys=past + queries,
            causal=causal,
            device=hidden.device,
        )
    elif attention_mask.dtype == torch.bool:
        mask = attention_mask
    else:
        bias = attention_mask
    cross = encoder_attention_mask
    if cross is not None and cross.dtype != torch.bool:
        cross = cross == 0
    return Context(
        mask=mask,
        bias=bias,
        encoder_hidden_states=encoder_hidden_states,
        cross_mask=cross,
        need_cache=need_cache,
    )


def _head_factors(head_mask: HeadMask) -> Tensor | None:
    """Return the factors of the heads of all blocks. Shape (L, H)."""
    if isinstance(head_mask, Tensor):
        return head_mask.reshape(len(head_mask), -1)
    rows = [row for row in head_mask or () if row is not None]
    if not rows or head_mask is None:
        return None
    ones = torch.ones_like(rows[0].flatten())
    return torch.stack([ones if row is None else row.flatten() for row in head_mask])
