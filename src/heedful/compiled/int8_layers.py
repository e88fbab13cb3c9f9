"""Choose static or dynamic int8 quantisation for each linear layer of a model; see ``int8.py``.

Outputs of a layer normalisation have similar ranges for all tokens and texts. Only a few channels
have far larger values, and these are always the same channels. So layers after a normalisation use
static steps, one per channel. Calibration needs only the model: it processes sequences of random
tokens, and the absolute maxima are recorded. Outputs of attention and of activations differ from
token to token, so layers after them use a dynamic step per token.

Attention itself, normalisations and residuals use wider dtypes. So does the head of a model that
does not generate text.

Shapes: B sequences, S length, D model width.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor, nn

from heedful.compiled.int8 import CHUNK_ROWS, DynamicInt8Linear, StaticInt8Linear
from heedful.compiled.linear import concatenated
from heedful.layers.block import Block

_ROWS, _LENGTH, _LONGEST = 8, 48, 512
"""Number of random calibration rows, their length, and the length of one further long row."""
_HEADROOM = 1.25
"""Ratio by which values of texts may exceed those of random tokens before they are clipped."""
_BALANCE = 0.7
"""Degree to which a channel's step follows its absolute maximum. At 1 every channel uses the full
integer range, and the weights of large channels leave little range for the others; at 0 the
reverse."""


class Int8Linears:
    """Compiles layers to int8; see ``Linears``.

    Args:
        largest: absolute maximum of each input channel, for each layer after a normalisation. Each
            of shape (D,).
        dtype: dtype of attention.
    """

    together: int | None = CHUNK_ROWS

    def __init__(self, largest: Mapping[nn.Module, Tensor], dtype: torch.dtype) -> None:
        self.largest = largest
        self.dtype = dtype

    def after_norm(
        self, layers: Sequence[nn.Linear], factor: float = 1.0, activation: str | None = None
    ) -> StaticInt8Linear:
        """See ``Linears``."""
        steps = _steps(self.largest[layers[0]])
        dtype = self.dtype if activation is None else torch.float32
        return StaticInt8Linear(*concatenated(layers, factor), steps, activation, dtype)

    def after_any(self, weight: Tensor, bias: Tensor | None) -> DynamicInt8Linear:
        """See ``Linears``."""
        return DynamicInt8Linear(weight, bias)


def _steps(largest: Tensor) -> Tensor:
    """Return the step of each channel, given its absolute maximum. Both of shape (D,)."""
    largest = largest.clamp_min(1e-6)
    ratio = (largest / largest.max()) ** _BALANCE  # relative to the step of the largest channel
    return ratio * (largest / ratio).max() * _HEADROOM / 127


def calibration_rows(
    begin: Sequence[int], end: Sequence[int], *, vocab_size: int, positions: int | None
) -> list[Tensor]:
    """Draw random calibration tokens from a fixed seed.

    Args:
        begin: special tokens before a text.
        end: special tokens after a text.
        vocab_size: vocabulary size.
        positions: maximum length of the model; None for no limit.

    Returns:
        Batches of rows of equal length. Each of shape (B, S).
    """
    generator = torch.Generator().manual_seed(0)
    longest = min(_LONGEST, positions or _LONGEST)
    batches = []
    for rows, length in ((_ROWS, min(_LENGTH, longest)), (1, longest)):
        token_ids = torch.randint(vocab_size, (rows, length), generator=generator)
        token_ids[:, : len(begin)] = torch.tensor(begin, dtype=token_ids.dtype)
        token_ids[:, length - len(end) :] = torch.tensor(end, dtype=token_ids.dtype)
        batches.append(token_ids)
    return batches


@torch.inference_mode()
def absolute_maxima(
    blocks: Iterable[Block], compute: Callable[[], None]
) -> dict[nn.Module, Tensor]:
    """Measure the absolute maximum of each input channel of the layers after a normalisation.

    Args:
        blocks: the uncompiled blocks, in evaluation mode.
        compute: runs the blocks on calibration tokens; see ``calibration_rows``.

    Returns:
        The maxima for each of these layers. Each of shape (D,).
    """
    largest: dict[nn.Module, Tensor] = {}

    def record(layers: Sequence[nn.Module], _: object, inputs: tuple[Tensor, ...]) -> None:
        maxima = inputs[0].flatten(0, -2).abs().amax(0).float()
        maxima = torch.maximum(largest.get(layers[0], maxima), maxima)
        largest.update(dict.fromkeys(layers, maxima))

    with ExitStack() as hooks:
        for block in blocks:
            for module, layers in _after_normalisation(block):
                hooks.enter_context(module.register_forward_pre_hook(partial(record, layers)))
        compute()
    return largest


def _after_normalisation(block: Block) -> list[tuple[nn.Module, list[nn.Module]]]:
    """Return the modules of a block that receive a normalised input, and their input layers."""
    attention = block.attention.self
    return [
        (attention.key, [attention.query, attention.key, attention.value]),
        (block.intermediate, [block.intermediate.dense]),
    ]
