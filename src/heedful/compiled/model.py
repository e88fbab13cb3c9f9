"""The one joint where a model becomes what computes answers."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from heedful.compiled import int8, kernels
from heedful.compiled.decoder import CompiledDecoder
from heedful.compiled.encoder import CompiledBlock, CompiledStack
from heedful.compiled.int8_encoder import Int8Block, largest_numbers
from heedful.compiled.writer import CompiledWriter
from heedful.layers.block import Block
from heedful.models.body import Body
from heedful.models.encoder import Encoder
from heedful.models.heads import reads_first
from heedful.models.model import Model
from heedful.models.transformer.model import Transformer
from heedful.models.with_head import WithHead

Rows = Callable[[], Sequence[Tensor]]
"""Gives batches of token ids, each of shape (B, S), or of pixels."""


class Compiled(NamedTuple):
    """What computes answers."""

    model: Model
    """Called as the model that it was made of, and answers the same up to rounding."""
    kernel: str
    """``"packed"``, ``"int8"``, or ``"plain"`` for the model as it is."""
    reason: str
    """Why this one, in words for the user."""


def compile_model(model: Model, int8_rows: Rows | None = None) -> Compiled:
    """Make the compiled form of a model that is in evaluation mode.

    The model is not changed. What it has beside its blocks is shared.

    Args:
        model: in the number format and on the device to compute with.
        int8_rows: gives tokens to measure ranges on, for a form in int8 of a model in float32; see
            ``random_rows``. If None the form keeps the format of the model.
    """
    body = model.body
    weight = next(model.parameters())
    if isinstance(model, Transformer) and int8_rows is None:
        return _compiled_translator(model)
    if isinstance(model, Transformer):
        return Compiled(model, kernels.PLAIN, "translators have no form in int8")
    if (obstacle := body.why_not_compiled()) is not None:
        return Compiled(model, kernels.PLAIN, obstacle)
    assert isinstance(body, Body)
    causal = isinstance(body, Encoder) and body.config.is_decoder
    writes = causal and isinstance(model, WithHead) and hasattr(model, "generate")
    asks = isinstance(body, Encoder) and body.asks_with_positions
    if int8_rows is not None and asks:
        return Compiled(model, kernels.PLAIN, "the enhanced mask decoder has no form in int8")
    if int8_rows is not None and writes:
        return Compiled(model, kernels.PLAIN, "what writes has no form in int8")
    if int8_rows is not None:
        there, reason = int8.products(weight.device)
        kernel = kernels.INT8 if there else kernels.PLAIN
    else:
        kernel, reason = kernels.of_encoders(weight.dtype, weight.device)
    if kernel == kernels.PLAIN:
        return Compiled(model, kernel, reason)
    head = None if model is body else getattr(model, "head", None)
    # The last block computes the first tokens alone; one that is shared does so another way.
    last = body.encoder.blocks[-1]
    alone = head is not None and reads_first(head) and body.encoder.blocks.count(last) == 1
    apart = last if (alone or asks) and not causal else None
    if int8_rows is not None:
        stack = _int8(body, int8_rows(), apart)
        return Compiled(model.with_body(body.with_part("encoder", stack)), kernel, reason)
    blocks = _packed(body, apart, causal=causal)
    stack = CompiledStack(body.encoder, blocks, kernel, causal=causal)
    twin = model.with_body(body.with_part("encoder", stack))
    if writes:
        assert isinstance(model, WithHead)
        assert isinstance(twin, WithHead)
        twin.compiled_steps = CompiledWriter(model, stack, blocks)
    return Compiled(twin, kernel, reason)


def _packed(body: Body, apart: Block | None, *, causal: bool) -> list[CompiledBlock]:
    activation = body.config.hidden_act
    packed = {
        block: CompiledBlock(
            block,
            activation,
            query_apart=block is apart,
            causal=causal,
            distances=body.encoder.distances,
        )
        for block in body.encoder.distinct
    }
    return [packed[block] for block in body.encoder.blocks]


def _int8(body: Body, rows: Sequence[Tensor], apart: Block | None) -> CompiledStack:
    bf16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    dtype = torch.bfloat16 if bf16 else torch.float32
    ranges = largest_numbers(body, rows)
    activation, causal = body.config.hidden_act, body.config.is_decoder
    packed = {
        block: Int8Block(
            block,
            activation,
            largest,
            dtype,
            query_apart=block is apart,
            causal=causal,
            distances=body.encoder.distances,
        )
        for block, largest in zip(body.encoder.distinct, ranges, strict=True)
    }
    blocks = [packed[block] for block in body.encoder.blocks]
    return CompiledStack(body.encoder, blocks, kernels.INT8, causal=causal)


def _compiled_translator(model: Transformer) -> Compiled:
    weight = next(model.encoder.parameters())
    kernel, reason = kernels.of_encoders(weight.dtype, weight.device)
    if kernel == kernels.PLAIN:
        return Compiled(model, kernel, reason)
    activation = model.config.activation_function
    blocks = [CompiledBlock(block, activation, query_apart=False) for block in model.encoder.blocks]
    encoder = CompiledStack(model.encoder, blocks, kernel)
    twin = model.with_part("encoder", encoder)
    twin.compiled_steps = CompiledDecoder(model)
    return Compiled(twin, kernel, reason)
