"""The stack of blocks of an encoder or a decoder.

Attribute names match the state dict of the reference's BERT.

Shapes: B batch, H heads, L blocks in the order of computation (a shared block counts each time), M
distinct blocks, T key length with the cache, S input length without the cache, E length of the
encoder's output, D model width.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from heedful.errors import UserError, with_article
from heedful.layers.block import Block, BlockOutput, Context
from heedful.layers.cache import Cache, KeyValue, KVCache
from heedful.layers.convolution import Convolution
from heedful.layers.disentangled import Distances
from heedful.layers.positions import BucketedPositions

T = TypeVar("T")


class Order(NamedTuple):
    """The order in which shared blocks are computed (Lan et al. 2020, section 3.1)."""

    block_indices: tuple[int, ...]
    """The index of the block computed first, second, ...: L indices."""
    blocks_per_layer: int = 1
    """Number of consecutive blocks per layer; states between them are not returned."""


class StackOutput(NamedTuple):
    """Output of a stack. ``states`` and ``kernels`` are always set, the others on request."""

    states: tuple[Tensor, ...]
    """Output of the last block. If all states are requested: input of the first layer, then the
    output of each layer. The last is normalised in a pre-norm stack. Each of shape (B, S, D)."""
    attentions: tuple[Tensor, ...] | None
    """Attention weights of each requested block. Each of shape (B, H, S, T)."""
    cross_attentions: tuple[Tensor, ...] | None
    """Cross-attention weights of each requested block. Each of shape (B, H, S, E)."""
    cache: Cache | None
    kernels: tuple[str, ...]
    """The kernel of each attention, in order of execution."""

    @property
    def hidden(self) -> Tensor:
        """Output of the stack. Shape (B, S, D)."""
        return self.states[-1]


class Stack(nn.Module):
    """The blocks of an encoder or a decoder.

    Args:
        blocks: from the first to the last.
        norm: final layer normalisation, needed after pre-norm blocks.
        bias: relative position bias shared by all blocks, if any.
        order: the order of computation; None computes each block once.
        distances: distance embeddings shared by all blocks, if any.
        convolution: convolution added to the output of the first block, if any.
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
        self._order = order
        self.layer_norm = norm
        self.relative_attention_bias = bias
        self.distances = distances
        self.convolution = convolution

    def keep(self, indices: Sequence[int]) -> None:
        """Keep only the given blocks, each computed once, in the given order."""
        self.layer = nn.ModuleList(self.distinct[index] for index in indices)
        self._order = None

    @property
    def order(self) -> Order:
        """The order of computation."""
        return self._order or Order(tuple(range(len(self.layer))))

    @property
    def distinct(self) -> list[Block]:
        """The M distinct blocks."""
        return cast("list[Block]", list(self.layer))

    @property
    def blocks(self) -> list[Block]:
        """The L blocks in the order of computation."""
        distinct = self.distinct
        return [distinct[number] for number in self.order.block_indices]

    @property
    def supports_packing(self) -> bool:
        """Whether all attention works without padding; see ``varlen.py``."""
        attends = all(
            isinstance(block, Block) and block.supports_packing for block in self.distinct
        )
        return attends and not self.uses_positions

    @property
    def uses_positions(self) -> bool:
        """Whether positions matter inside the stack, beyond the position embeddings."""
        shared = (self.relative_attention_bias, self.distances, self.convolution)
        return any(module is not None for module in shared) or any(
            isinstance(block, Block) and block.attention.self.uses_positions
            for block in self.distinct
        )

    def forward(
        self,
        hidden: Tensor,
        context: Context,
        *,
        head_mask: Tensor | None = None,
        cross_head_mask: Tensor | None = None,
        past: Sequence[KVCache] | None = None,
        memory: Sequence[Tensor] | None = None,
        weights_of: Collection[int] = (),
        need_states: bool = False,
        recompute: bool = False,
        only_first: bool = False,
        query_offset: Tensor | None = None,
    ) -> StackOutput:
        """Compute all blocks.

        Args:
            hidden: shape (B, S, D).
            context: inputs that are the same for all blocks.
            head_mask: factor of each head's output. Shape (M, H).
            cross_head_mask: factor of each head's output in cross-attention. Shape (M, H).
            past: KV cache of each block.
            memory: each block's input for earlier tokens. Each of shape (B, memory length, D).
            weights_of: indices of the blocks whose attention weights are returned.
            need_states: whether to return the output of every block.
            recompute: whether to use activation checkpointing: keep one tensor per block, and
                recompute the rest in the backward pass.
            only_first: whether the last block computes only the first token.
            query_offset: added to the input of the last block to form its queries. The last block
                then runs a second time, with its own output as the queries (He et al. 2021, section
                3.2). None runs it once, like the other blocks. Broadcastable to (B, S, D).
        """
        states, attentions, cross_attentions, caches = [hidden], [], [], []
        kernels: list[str] = []
        context = self._with_positions(hidden, context, past)
        norm: nn.LayerNorm | None = None  # normalisation deferred by the previous block
        order = self.order
        for number, block in enumerate(blocks := self.blocks):
            row, last = order.block_indices[number], number == len(blocks) - 1
            options = {
                "head_mask": None if head_mask is None else head_mask[row],
                "cross_head_mask": None if cross_head_mask is None else cross_head_mask[row],
                "past": None if past is None else past[number],
                "memory": None if memory is None else memory[number],
                "need_weights": number in weights_of,
                "only_first": only_first and last,
            }
            convolves = self.convolution is not None and number == 0
            next_repeats = query_offset is not None and number == len(blocks) - 2
            defers_norm = recompute and not (need_states or convolves or next_repeats or last)
            call = partial(
                _compute,
                block,
                states[-1],
                context,
                norm,
                recompute=recompute,
                defers_norm=defers_norm,
            )
            if query_offset is not None and last:
                queries = states[-1] + query_offset.to(states[-1].dtype)
                options = _with_output_as_queries(call, options, queries)
            output = call(options)
            norm = getattr(block, "last_norm", None) if defers_norm else None
            if convolves:
                convolved = self._convolve(hidden, output.hidden, context, only_first and last)
                output = output._replace(hidden=convolved)
            states = [*states, output.hidden] if need_states else [output.hidden]
            attentions.append(output.weights)
            cross_attentions.append(output.cross_weights)
            caches.append(output.cache)
            kernels += output.kernels
        if self.layer_norm is not None:
            states[-1] = self.layer_norm(states[-1])
        cached = _not_none(caches)
        return StackOutput(
            states=tuple(states[:: order.blocks_per_layer] if need_states else states),
            attentions=_not_none(attentions),
            cross_attentions=_not_none(cross_attentions),
            cache=None if cached is None else Cache(blocks=cached),
            kernels=tuple(kernels),
        )

    def _convolve(
        self, hidden: Tensor, computed: Tensor, context: Context, only_first: bool
    ) -> Tensor:
        """Return the output of the first block with the convolution added."""
        assert self.convolution is not None
        added: Tensor = self.convolution(
            hidden, computed, context.mask, packing=context.packing, only_first=only_first
        )
        return added

    def _with_positions(
        self, hidden: Tensor, context: Context, past: Sequence[KVCache] | None
    ) -> Context:
        """Return the context with the shared position bias and distances, computed once."""
        packing, start = context.packing, 0 if past is None else past[0].length
        queries = hidden.shape[1]
        if packing is not None:
            queries = len(packing.inverse) // packing.batch
        if self.relative_attention_bias is not None:
            bias = self.relative_attention_bias.bias(queries, start + queries, start=start)
            context = replace(context, bias=bias if context.bias is None else bias + context.bias)
        if self.distances is not None:
            context = replace(context, distances=self.distances(queries))
        return context

    def cross_keys_and_values(self, encoded: Tensor) -> list[KeyValue]:
        """Return the cross-attention keys and values of each block for ``encoded``, (B, E, D)."""
        return [block.crossattention.self.keys_and_values(encoded) for block in self.blocks]


def _with_output_as_queries(
    call: Callable[[dict[str, Any]], BlockOutput], options: dict[str, Any], queries: Tensor
) -> dict[str, Any]:
    """Run a block with given queries, and return its options for a run with its output as queries.

    Each run has a dict of its own, which activation checkpointing reads again.
    """
    return {**options, "query_states": call({**options, "query_states": queries}).hidden}


def _compute(
    block: nn.Module,
    hidden: Tensor,
    context: Context,
    norm: nn.LayerNorm | None,
    options: dict[str, Any],
    *,
    recompute: bool,
    defers_norm: bool,
) -> BlockOutput:
    """Call a block, with or without activation checkpointing.

    Args:
        block: the block.
        hidden: its input. Shape (B, S, D).
        context: inputs that are the same for all blocks.
        norm: normalises ``hidden``, if the previous block deferred its last normalisation.
        options: arguments of this block.
        recompute: whether to recompute the block in the backward pass.
        defers_norm: whether to defer the block's last normalisation to the next block, which
            recomputes it, too.
    """
    output: Any
    if not recompute:
        output = block(hidden, context, **options)
    elif isinstance(block, Block):
        modules = (_bind_weights(block), None if norm is None else _bind_weights(norm))
        output = checkpoint(
            _recompute_block, *modules, hidden, context, options, use_reentrant=False
        )
        if block.last_norm is not None and not defers_norm:
            output = output._replace(hidden=block.last_norm(output.hidden))
    else:  # a user's layer, which defers no normalisation
        hidden = hidden if norm is None else norm(hidden)
        call = _bind_weights(block)
        output = checkpoint(call, (hidden, context), options, use_reentrant=False)
    return output if isinstance(output, BlockOutput) else _from_hook(output, context, options)


def _from_hook(output: Any, context: Context, options: Mapping[str, Any]) -> BlockOutput:
    """Return the output of a block from what a user's forward hook made of it.

    Raises:
        UserError: it has no hidden states, or it lacks a value that the model must return.
    """
    if isinstance(output, tuple) and len(output) == len(BlockOutput._fields):
        return BlockOutput(*output)
    hidden = output[0] if isinstance(output, tuple) and len(output) == 1 else output
    if not isinstance(hidden, Tensor) or context.need_cache or options["need_weights"]:
        raise UserError(
            f"a hook of a block returned {with_article(type(output).__name__)}; return the block's "
            "output with other hidden states: (hidden, *output[1:])"
        )
    return BlockOutput(hidden, None, None, None, ())


def _bind_weights(module: nn.Module) -> Callable[..., Any]:
    """Return the module bound to its current weights; call it with tuples of its arguments.

    In a functional call the module temporarily has weights other than its own. By the backward pass
    it has its own again, so recomputation would use these.
    """
    return partial(functional_call, module, dict(module.named_parameters()))


def _recompute_block(
    block: Callable[..., Any],
    norm: Callable[..., Any] | None,
    summed: Tensor,
    context: Context,
    options: dict[str, Any],
) -> Any:
    """Compute a checkpointed block from the unnormalised sum of the previous block.

    The backward pass of the normalisation needs that sum. Keeping the normalised states instead
    would mean recomputing the matrix product before the sum: a third of a block's products with
    weights.

    Args:
        block: the block, bound to its current weights.
        norm: normalises the sum; None if it is already normalised.
        summed: the final sum of the previous block. Shape (B, S, D).
        context: inputs that are the same for all blocks.
        options: further arguments of the block.
    """
    hidden = summed if norm is None else norm((summed,))
    return block((hidden, context), {**options, "checkpointed": True})


def _not_none(values: Iterable[T | None]) -> tuple[T, ...] | None:
    """Return the values that are not None, or None if there are none."""
    return tuple(value for value in values if value is not None) or None
