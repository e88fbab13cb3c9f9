"""The blocks of an encoder in whole numbers of 8 bits; see ``int8.py``.

What a layer normalisation gives is alike for all tokens and texts, but for a few channels that are
far larger than the others, and always the same ones. So its steps are fixed beforehand, one for
each channel. They come from the model alone: it reads sequences of random tokens, and the largest
numbers are kept. What attention mixes and what an activation gives differs from token to token, and
has a step for each.

Attention itself, normalisations, residuals and the head are wider.

Shapes: N tokens without padding, B sequences, D model width.
"""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.compiled.attention import Group, attend
from heedful.compiled.int8 import RowLinear, StepLinear
from heedful.compiled.linear import joined
from heedful.compiled.relative import Told
from heedful.compiled.residual import Norm
from heedful.compiled.terms import compiled_terms
from heedful.layers.block import Block
from heedful.layers.disentangled import Distances
from heedful.models.body import Body

_TOGETHER = 256
"""Tokens whose feed-forward part is computed together: it stays in a core's cache."""
_ROWS, _LENGTH, _LONGEST = 8, 48, 512
"""How many random tokens a model reads: so many rows of this length, and one of the longest."""
_RESERVE = 1.25
"""How much larger a text's numbers may be than those of random tokens before they are cut."""
_BALANCE = 0.7
"""How far the steps of channels follow their largest numbers. At 1 every channel uses all whole
numbers, and weights of large channels leave few for the others; at 0 the reverse."""


class Int8Block:
    """A block that attends to itself.

    Args:
        block: the readable form, in float32.
        activation: a name in ``feedforward.ACTIVATIONS``.
        largest: the largest number of each channel of what it reads, and of what its feed-forward
            part reads. Both of shape (D,).
        dtype: what attention is computed in.
        query_apart: whether queries are a product of their own, so that the first tokens can ask
            alone.
        causal: whether a token attends to none after it.
        distances: see ``CompiledBlock``.
    """

    def __init__(
        self,
        block: Block,
        activation: str,
        largest: tuple[Tensor, Tensor],
        dtype: torch.dtype,
        *,
        query_apart: bool,
        causal: bool = False,
        distances: Distances | None = None,
    ) -> None:
        heads, output = block.attention.self, block.attention.output
        self.dtype = dtype
        self.causal = causal
        self.norm_before = output.norm_before
        self.heads = list(heads.heads)
        self.head_width = heads.head_width
        self.sparse = heads.sparse
        self.width = heads.query.out_features
        steps = _steps(largest[0])
        memory, factor = [heads.key, heads.value], heads.score_factor
        if query_apart:
            self.query: StepLinear | None = StepLinear(*joined([heads.query], factor), steps)
            self.project = StepLinear(*joined(memory), steps)
        else:
            self.query = None
            self.project = StepLinear(*joined([heads.query, *memory], factor), steps)
        self.terms = compiled_terms(heads, distances, dtype)
        self.mix = RowLinear(*joined([output.dense]))
        self.mix_norm = Norm.of(output.LayerNorm)
        self.widen = StepLinear(*joined([block.intermediate.dense]), _steps(largest[1]), activation)
        self.narrow = RowLinear(*joined([block.output.dense]))
        self.narrow_norm = Norm.of(block.output.LayerNorm)

    def __call__(
        self,
        hidden: Tensor,
        groups: Sequence[Group],
        firsts: Tensor | None = None,
        bias: Tensor | None = None,
        numbers: Tensor | Told | None = None,
        asking: Tensor | None = None,
    ) -> Tensor:
        """Compute every token, shape (N, D), or the first of each sequence alone, shape (B, D).

        Args:
            hidden: float32, shape (N, D).
            groups: the sequences.
            firsts: where the first tokens stand, if they alone are wanted. Shape (B,).
            bias: see ``CompiledBlock``.
            numbers: the same.
            asking: None; see ``CompiledBlock``.
        """
        assert asking is None
        whole = torch.empty(hidden.shape, dtype=torch.uint8)
        for rows in _parts(hidden.shape[0]):
            source = hidden[rows]
            if self.norm_before:
                source = F.layer_norm(source, *self.mix_norm)
            whole[rows] = self.project.whole(source)
        memory = self.project(whole, self.dtype)
        if firsts is not None:
            hidden, whole = hidden[firsts], whole[firsts]
        if self.query is None:
            query, memory = memory[:, : self.width], memory[:, self.width :]
            query = query if firsts is None else query[firsts]
        else:
            query = self.query(whole, self.dtype)
        only_first = firsts is not None
        if bias is not None and len(bias) > len(self.heads):
            bias = bias[self.heads]
        terms = None if self.terms is None or numbers is None else self.terms.laid_out(numbers)
        mixed = attend(
            *(query, memory, groups, self.head_width),
            only_first=only_first,
            bias=bias,
            causal=self.causal,
            sparse=self.sparse,
            terms=terms,
        )
        output = torch.empty_like(hidden)
        for rows in _parts(hidden.shape[0]):
            output[rows] = self._after_attention(mixed[rows], hidden[rows])
        return output

    def _after_attention(self, mixed: Tensor, hidden: Tensor) -> Tensor:
        mixed = mixed.to(torch.float32, copy=True)
        hidden = self.mix(mixed, hidden)
        if self.norm_before:
            source = F.layer_norm(hidden, *self.narrow_norm)
        else:
            source = hidden = F.layer_norm(hidden, *self.mix_norm)
        inner = self.widen(self.widen.whole(source), torch.float32)
        added = self.narrow(inner, hidden)
        return added if self.norm_before else F.layer_norm(added, *self.narrow_norm)


def _parts(count: int) -> Iterator[slice]:
    for first in range(0, count, _TOGETHER):
        yield slice(first, first + _TOGETHER)


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
def largest_numbers(body: Body, rows: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Measure the largest number of each channel that the products of each block read.

    Args:
        body: the readable form, in evaluation mode.
        rows: see ``random_rows``.

    Returns:
        Of each block what its attention reads, and what its feed-forward part reads. Each of shape
        (D,).
    """
    largest = [torch.zeros(body.config.hidden_size) for _ in range(2 * len(body.encoder.distinct))]
    hooks = []
    for number, block in enumerate(body.encoder.distinct):
        attention = block.attention.self.key
        for index, module in ((2 * number, attention), (2 * number + 1, block.intermediate)):

            def keep(_: object, inputs: tuple[Tensor, ...], index: int = index) -> None:
                size = inputs[0].flatten(0, -2).abs().amax(0).float()
                largest[index] = torch.maximum(largest[index], size)

            hooks.append(module.register_forward_pre_hook(keep))
    try:
        for batch in rows:
            body(batch)
    finally:
        for hook in hooks:
            hook.remove()
    return list(zip(largest[::2], largest[1::2], strict=True))
