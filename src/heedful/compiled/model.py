"""Compile a model for inference."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from heedful.compiled import int8, kernels
from heedful.compiled.causal_lm import CompiledCausalLM
from heedful.compiled.decoder import CompiledDecoder
from heedful.compiled.encoder import CompiledBlock, CompiledStack
from heedful.compiled.int8_layers import Int8Linears, absolute_maxima
from heedful.compiled.linear import Linears, PackedLinear, UniformLinears
from heedful.layers.block import Block
from heedful.layers.linear import is_plain
from heedful.layers.stack import Stack
from heedful.models.body import Body
from heedful.models.encoder import Encoder
from heedful.models.heads import reads_first
from heedful.models.model import Model
from heedful.models.transformer.model import Transformer
from heedful.models.with_head import ModelWithHead

Rows = Callable[[], Sequence[Tensor]]
"""Returns batches of token ids, each of shape (B, S), or of pixels."""


class Compiled(NamedTuple):
    """A compiled model."""

    model: Model
    """The model; it has the original's call signature, and equal results up to rounding."""
    kernel: str
    """``"packed"``, ``"int8"``, ``"unpadded"``, or ``"plain"`` for the unchanged model."""
    reason: str
    """The reason for this kernel, in words for the user."""


def compile_model(model: Model, int8_rows: Rows | None = None) -> Compiled:
    """Compile a model that is in evaluation mode.

    The model does not change. The compiled model shares all of its modules except the blocks.

    Args:
        model: the model, in the dtype and on the device to compute with.
        int8_rows: returns calibration tokens to quantise a float32 model to int8; see
            ``calibration_rows``. None keeps the dtype of the model.
    """
    body = model.body
    if isinstance(model, Transformer):
        return _compiled_translator(model, int8_rows)
    if (obstacle := body.why_not_compiled()) is not None:
        return Compiled(model, kernels.PLAIN, obstacle)
    assert isinstance(body, Body)
    causal = isinstance(body, Encoder) and body.config.is_decoder
    generates = causal and isinstance(model, ModelWithHead) and hasattr(model, "generate")
    enhanced = isinstance(body, Encoder) and body.queries_add_positions
    if int8_rows is not None and enhanced:
        return Compiled(model, kernels.PLAIN, "the enhanced mask decoder has no int8 version")
    kernel, reason = _kernel(next(model.parameters()), int8_rows)
    if kernel == kernels.PLAIN:
        return _without_padding(model, reason)
    if (obstacle := _own_layer(body.encoder)) is not None:
        return Compiled(model, kernels.PLAIN, obstacle)
    head = None if model is body else getattr(model, "head", None)
    # The last block computes only the first tokens. A shared block keeps its joint projection.
    last = body.encoder.blocks[-1]
    only_first = head is not None and reads_first(head) and body.encoder.blocks.count(last) == 1
    separate_query = last if (only_first or enhanced) and not causal else None
    linears: Linears = UniformLinears(PackedLinear)
    if int8_rows is not None:
        linears = _int8(body, int8_rows(), generates=generates)
    blocks = _blocks(body, linears, separate_query, causal=causal)
    stack = CompiledStack(body.encoder, blocks, kernel, causal=causal)
    compiled = model.with_body(body.with_submodule("encoder", stack))
    if generates:
        assert isinstance(model, ModelWithHead)
        assert isinstance(compiled, ModelWithHead)
        compiled.compiled_steps = CompiledCausalLM(model, stack, blocks, linears)
    return Compiled(compiled, kernel, reason)


def _without_padding(model: Model, reason: str) -> Compiled:
    """Return a model that removes padding, if the GPU has a kernel for packed texts."""
    body = model.body
    if not (isinstance(body, Encoder) and body.encoder.supports_packing):
        return Compiled(model, kernels.PLAIN, reason)
    why = "the GPU attends to texts one after the other"
    return Compiled(model.with_body(body.packed()), kernels.UNPADDED, why)


_COMPILED_PARTS = (nn.ModuleList, nn.Embedding, nn.Conv1d)
"""Classes of torch's in a stack, besides those that ``is_plain`` knows."""


def _own_layer(stack: Stack) -> str | None:
    """Return which layer computes something that a compiled stack does not; None if none does."""
    for name, layer in stack.named_modules():
        of_heedful = type(layer).__module__.startswith("heedful.")
        weighs = isinstance(layer, nn.Linear | nn.LayerNorm)
        if not (is_plain(layer) if weighs else of_heedful or type(layer) in _COMPILED_PARTS):
            return f"{name} ({type(layer).__name__}) has a forward or hooks of its own"
    return None


def _kernel(weight: Tensor, int8_rows: Rows | None) -> tuple[str, str]:
    """Return the kernel for weights like this one, and the reason."""
    if int8_rows is None:
        return kernels.encoder_kernel(weight.dtype, weight.device)
    supported, reason = int8.is_supported(weight.device)
    return kernels.INT8 if supported else kernels.PLAIN, reason


def _blocks(
    body: Body, linears: Linears, separate_query: Block | None, *, causal: bool
) -> list[CompiledBlock]:
    activation = body.config.hidden_act
    compiled = {
        block: CompiledBlock(
            block,
            activation,
            linears,
            query_apart=block is separate_query,
            causal=causal,
            distances=body.encoder.distances,
        )
        for block in body.encoder.distinct
    }
    return [compiled[block] for block in body.encoder.blocks]


def _int8(body: Body, rows: Sequence[Tensor], *, generates: bool) -> Int8Linears:
    def compute() -> None:
        for batch in rows:
            body(batch)

    bf16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    # A generating model stores keys and values in the dtype of its hidden states.
    dtype = torch.bfloat16 if bf16 and not generates else torch.float32
    return Int8Linears(absolute_maxima(body.encoder.distinct, compute), dtype)


def _compiled_translator(model: Transformer, int8_rows: Rows | None) -> Compiled:
    kernel, reason = _kernel(next(model.encoder.parameters()), int8_rows)
    if kernel == kernels.PLAIN:
        return Compiled(model, kernel, reason)
    if (obstacle := _own_layer(model.encoder) or _own_layer(model.decoder)) is not None:
        return Compiled(model, kernels.PLAIN, obstacle)
    linears = UniformLinears(PackedLinear)
    if int8_rows is not None:
        # Ranges measured on random tokens are too small for real texts, and clipping in one token
        # can change the rest of the text. So each token has a quantisation step of its own.
        linears = UniformLinears(int8.DynamicInt8Linear, int8.CHUNK_ROWS)
    activation = model.config.activation_function
    blocks = [
        CompiledBlock(block, activation, linears, query_apart=False)
        for block in model.encoder.blocks
    ]
    encoder = CompiledStack(model.encoder, blocks, kernel)
    compiled = model.with_submodule("encoder", encoder)
    compiled.compiled_steps = CompiledDecoder(model, linears)
    return Compiled(compiled, kernel, reason)
