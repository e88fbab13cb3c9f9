"""How the linear layers of a model are compiled in whole numbers of 8 bits; see ``int8.py``.

What a layer normalisation gives is alike for all tokens and texts, but for a few channels that are
far larger than the others, and always the same ones. So its steps are fixed beforehand, one for
each channel. They come from the model alone: it reads sequences of random tokens, and the largest
numbers are kept. What attention mixes and what an activation gives differs from token to token, and
has a step for each.

Attention itself, normalisations and residuals are wider, and so is the head of what does not write.

Shapes: B sequences, S length, D model width.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor, nn

from heedful.compiled.int8 import TOGETHER, RowLinear, StepLinear
from heedful.compiled.linear import joined
from heedful.layers.block import Block

_ROWS, _LENGTH, _LONGEST = 8, 48, 512
"""How many random tokens a model reads: so many rows of this length, and one of the longest."""
_RESERVE = 1.25
"""How much larger a text's numbers may be than those of random tokens before they are cut."""
_BALANCE = 0.7
"""How far the steps of channels follow their largest numbers. At 1 every channel uses all whole
numbers, and weights of large channels leave few for the others; at 0 the reverse."""


class Int8Linears:
    """Layers in whole numbers of 8 bits; see ``Linears``.

    Args:
        largest: of each layer that reads what a normalisation gives, the largest number of each
            channel of that. Each of shape (D,).
        dtype: what attention is computed in.
    """

    together: int | None = TOGETHER

    def __init__(self, largest: Mapping[nn.Module, Tensor], dtype: torch.dtype) -> None:
        self.largest = largest
        self.dtype = dtype

    def after_norm(
        self, layers: Sequence[nn.Linear], factor: float = 1.0, activation: str | None = None
    ) -> StepLinear:
        """See ``Linears``."""
        steps = _steps(self.largest[layers[0]])
        dtype = self.dtype if activation is None else torch.float32
        return StepLinear(*joined(layers, factor), steps, activation, dtype)

    def after_any(self, weight: Tensor, bias: Tensor | None) -> RowLinear:
        """See ``Linears``."""
        return RowLinear(weight, bias)


def _steps(largest: Tensor) -> Tensor:
    """Return the step of each channel, for its largest number. Both of shape (D,)."""
    largest = largest.clamp_min(1e-6)
    share = (largest / largest.max()) ** _BALANCE  # of the largest channel's step
    return share * (largest / share).max() * _RESERVE / 127


def random_rows(
    begin: Sequence[int], end: Sequence[int], *, vocab_size: int, positions: int | None
) -> list[Tensor]:
    """Draw the tokens that ranges are measured on; always the same ones.

    Args:
        begin: the special tokens before a text.
        end: those after it.
        vocab_size: how many tokens there are.
        positions: the longest row that the model can read; None for any.

    Returns:
        Batches of rows of one length each. Each of shape (B, S).
    """
    generator = torch.Generator().manual_seed(0)
    longest = min(_LONGEST, positions or _LONGEST)
    batches = []
    for rows, length in ((_ROWS, min(_LENGTH, longest)), (1, longest)):
        drawn = torch.randint(vocab_size, (rows, length), generator=generator)
        drawn[:, : len(begin)] = torch.tensor(begin, dtype=drawn.dtype)
        drawn[:, length - len(end) :] = torch.tensor(end, dtype=drawn.dtype)
        batches.append(drawn)
    return batches


@torch.inference_mode()
def largest_numbers(
    blocks: Iterable[Block], compute: Callable[[], None]
) -> dict[nn.Module, Tensor]:
    """Measure the largest number of each channel of what normalisations give to linear layers.

    Args:
        blocks: the readable form, in evaluation mode.
        compute: computes with them; see ``random_rows``.

    Returns:
        Of each of these layers what it reads. Each of shape (D,).
    """
    largest: dict[nn.Module, Tensor] = {}

    def keep(readers: Sequence[nn.Module], _: object, inputs: tuple[Tensor, ...]) -> None:
        size = inputs[0].flatten(0, -2).abs().amax(0).float()
        size = torch.maximum(largest.get(readers[0], size), size)
        largest.update(dict.fromkeys(readers, size))

    with ExitStack() as hooks:
        for block in blocks:
            for module, readers in _after_norms(block):
                hooks.enter_context(module.register_forward_pre_hook(partial(keep, readers)))
        compute()
    return largest


def _after_norms(block: Block) -> list[tuple[nn.Module, list[nn.Module]]]:
    """Return what in a block is called with what a norm gives, and the layers that read it."""
    attention = block.attention.self
    return [
        (attention.key, [attention.query, attention.key, attention.value]),
        (block.intermediate, [block.intermediate.dense]),
    ]
