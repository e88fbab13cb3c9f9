"""Blocks one after the other.

The attributes are named so that a state dict has the names of the reference's BERT.

Shapes: B batch, H heads, L blocks, those that are computed again counted again, M blocks, each
counted once, T length with what is cached, S length of what is computed, E
length of the encoder's output, D model width.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from heedful.layers.block import Block, BlockOutput, Context
from heedful.layers.cache import Cache, KeyValue, Past
from heedful.layers.convolution import Convolution
from heedful.layers.disentangled import Distances
from heedful.layers.positions import BucketedPositions

T = TypeVar("T")


class Order(NamedTuple):
    """In which order shared blocks are computed (Lan et al. 2020, section 3.1)."""

    numbers: tuple[int, ...]
    """The number of the block that is computed first, second, ...: L numbers."""
    together: int = 1
    """How many in a row make one layer: the states between them are not returned."""


class StackOutput(NamedTuple):
    """What a stack returns; each but the first and ``kernels`` if it was asked for."""

    states: tuple[Tensor, ...]
    """What comes out of the last block; if all are asked for, what went into the first layer and
    came out of each. The last is normalised in a pre-norm stack. Each of shape (B, S, D)."""
    attentions: tuple[Tensor, ...] | None
    """Of each block that was asked for. Each of shape (B, H, S, T)."""
    cross_attentions: tuple[Tensor, ...] | None
    """Of each of them with cross-attention. Each of shape (B, H, S, E)."""
    cache: Cache | None
    kernels: tuple[str, ...]
    """Of each attention, in the order in which they ran."""

    @property
    def hidden(self) -> Tensor:
        """What comes out of the stack. Shape (B, S, D)."""
        return self.states[-1]


class Stack(nn.Module):
    """The blocks of an encoder or a decoder.

    Args:
        blocks: from the first to the last.
        norm: normalises what comes out of the last one, as pre-norm blocks need.
        bias: what all blocks know of positions, if they know it from the stack.
        order: in which order they are computed; None computes each once.
        distances: the vectors of distances that all blocks share, if they do.
        convolution: what is added to what comes out of the first block, if anything is.
    """

    def __init__(
        self,
        blocks: Iterable[Block],
        norm: nn.LayerNorm | None = None,
        bias: BucketedPositions | None = None,
        order: Order | None = None,
        distances: Distances | None = None,
        convolution: Convolution | None = None,
    ) -> None:
        super().__init__()
        self.layer = nn.ModuleList(blocks)
        self.order = order or Order(tuple(range(len(self.layer))))
        self.layer_norm = norm
        self.relative_attention_bias = bias
        self.distances = distances
        self.convolution = convolution

    def keep(self, numbers: Sequence[int]) -> None:
        """Keep some of the blocks, each computed once, in the order in which they are named."""
        self.layer = nn.ModuleList(self.distinct[number] for number in numbers)
        self.order = Order(tuple(range(len(self.layer))))

    @property
    def distinct(self) -> list[Block]:
        """The M blocks, each once."""
        return cast("list[Block]", list(self.layer))

    @property
    def blocks(self) -> list[Block]:
        """The L blocks as they are computed, from the first to the last."""
        distinct = self.distinct
        return [distinct[number] for number in self.order.numbers]

    @property
    def attends_to_texts(self) -> bool:
        """Whether all its attention can do without padding; see ``varlen.py``."""
        attends = all(block.attends_to_texts for block in self.distinct)
        return attends and not self.looks_at_places

    @property
    def looks_at_places(self) -> bool:
        """Whether the places of tokens take part, beside what is added to words."""
        shared = (self.relative_attention_bias, self.distances, self.convolution)
        return any(part is not None for part in shared) or any(
            block.attention.self.looks_at_places for block in self.distinct
        )

    def forward(
        self,
        hidden: Tensor,
        context: Context,
        *,
        head_mask: Tensor | None = None,
        cross_head_mask: Tensor | None = None,
        past: Sequence[Past] | None = None,
        memory: Sequence[Tensor] | None = None,
        weights_of: Collection[int] = (),
        need_states: bool = False,
        recompute: bool = False,
        only_first: bool = False,
        asking: Tensor | None = None,
    ) -> StackOutput:
        """Compute all blocks.

        Args:
            hidden: shape (B, S, D).
            context: what is the same for all blocks.
            head_mask: what each head's output is multiplied by. Shape (M, H).
            cross_head_mask: the same for the cross-attention.
            past: what each block has computed before.
            memory: what each block read of earlier tokens. Each of shape (B, M, D).
            weights_of: the numbers of the blocks whose attention weights are returned.
            need_states: whether to return the output of every block.
            recompute: whether to keep one tensor a block, and compute the rest again in the
                backward pass.
            only_first: whether the last block computes the first token alone.
            asking: what is added to what the last block reads, to ask with; then it asks again with
                what came of that (He et al. 2021, section 3.2). None asks once, as other blocks
                do. Broadcastable to (B, S, D).
        """
        states, attentions, cross_attentions, caches = [hidden], [], [], []
        kernels: list[str] = []
        context = self._with_positions(hidden, context, past)
        blocks = self.blocks
        norm: nn.LayerNorm | None = None  # that the block before left to the next one
        for number, block in enumerate(blocks):
            row, last = self.order.numbers[number], number == len(blocks) - 1
            options = {
                "head_mask": None if head_mask is None else head_mask[row],
                "cross_head_mask": None if cross_head_mask is None else cross_head_mask[row],
                "past": None if past is None else past[number],
                "memory": None if memory is None else memory[number],
                "need_weights": number in weights_of,
                "only_first": only_first and last,
            }
            convolves = self.convolution is not None and number == 0
            asked = asking is not None and number == len(blocks) - 2
            goes_on = recompute and not (need_states or convolves or asked or last)
            call = partial(
                _compute, block, states[-1], context, norm, recompute=recompute, goes_on=goes_on
            )
            if asking is None or not last:
                output = call(options)
            else:
                read = states[-1]
                output = call({**options, "asking": read + asking.to(read.dtype)})
                output = call({**options, "asking": output.hidden})
            norm = block.last_norm if goes_on else None
            if convolves:
                more = self._convolve(hidden, output.hidden, context, only_first and last)
                output = output._replace(hidden=more)
            states = [*states, output.hidden] if need_states else [output.hidden]
            attentions.append(output.weights)
            cross_attentions.append(output.cross_weights)
            caches.append(output.cache)
            kernels += output.kernels
        if self.layer_norm is not None:
            states[-1] = self.layer_norm(states[-1])
        cached = _those_there(caches)
        return StackOutput(
            states=tuple(states[:: self.order.together] if need_states else states),
            attentions=_those_there(attentions),
            cross_attentions=_those_there(cross_attentions),
            cache=None if cached is None else Cache(blocks=cached),
            kernels=tuple(kernels),
        )

    def _convolve(
        self, hidden: Tensor, computed: Tensor, context: Context, only_first: bool
    ) -> Tensor:
        """Return what comes out of the first block, with what is added to it."""
        assert self.convolution is not None
        added: Tensor = self.convolution(
            hidden, computed, context.mask, packing=context.packing, only_first=only_first
        )
        return added

    def _with_positions(
        self, hidden: Tensor, context: Context, past: Sequence[Past] | None
    ) -> Context:
        """Return what the blocks are told, with what they share of positions: computed once."""
        packing, start = context.packing, 0 if past is None else past[0].length
        queries = hidden.shape[1]
        if packing is not None:
            queries = len(packing.numbers) // packing.batch
        if self.relative_attention_bias is not None:
            bias = self.relative_attention_bias.bias(queries, start + queries, start=start)
            context = replace(context, bias=bias)
        if self.distances is not None:
            context = replace(context, distances=self.distances(queries))
        return context

    def cross_memory(self, encoded: Tensor) -> list[KeyValue]:
        """Return what the cross-attention of each block attends to in ``encoded``, (B, E, D)."""
        return [block.crossattention.self.keys_and_values(encoded) for block in self.blocks]


def _compute(
    block: Block,
    hidden: Tensor,
    context: Context,
    norm: nn.LayerNorm | None,
    options: dict[str, Any],
    *,
    recompute: bool,
    goes_on: bool,
) -> BlockOutput:
    """Call a block, perhaps so that most of it is computed again in the backward pass.

    Args:
        block: which.
        hidden: what it reads. Shape (B, S, D).
        context: the same for all blocks.
        norm: normalises ``hidden``, if the block before left that to this one.
        options: of this block.
        recompute: whether to compute again.
        goes_on: whether to leave its last normalisation to the next block, where it is computed
            again, too.
    """
    output: BlockOutput
    if recompute:
        parts = (_as_now(block), None if norm is None else _as_now(norm))
        output = checkpoint(_from_sum, *parts, hidden, context, options, use_reentrant=False)
        if block.last_norm is not None and not goes_on:
            output = output._replace(hidden=block.last_norm(output.hidden))
    else:
        output = block(hidden, context, **options)
    return output


def _as_now(module: nn.Module) -> Callable[..., Any]:
    """Return a module with the weights of now, called with tuples of what it takes.

    In a functional call they are not its own, which is what it has again in the backward pass.
    """
    return partial(functional_call, module, dict(module.named_parameters()))


def _from_sum(
    block: Callable[..., Any],
    norm: Callable[..., Any] | None,
    kept: Tensor,
    context: Context,
    options: dict[str, Any],
) -> Any:
    """Compute what the backward pass computes again: a block, from the sum before it.

    Normalising needs that sum in the backward pass. If the normalised states were kept in its
    place, the product that goes into it would be computed again: a third of a block's products with
    weights.

    Args:
        block: as it is now.
        norm: normalises the sum; None if it needs that no more.
        kept: the sum that the block before ended with. Shape (B, S, D).
        context: of the block.
        options: what else it is called with.
    """
    hidden = kept if norm is None else norm((kept,))
    return block((hidden, context), {**options, "recomputed": True})


def _those_there(values: Iterable[T | None]) -> tuple[T, ...] | None:
    """Return what is not None, or None if nothing is."""
    return tuple(value for value in values if value is not None) or None
