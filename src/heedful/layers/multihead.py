"""Multi-head attention (Vaswani et al. 2017, section 3.2.2), for self- and cross-attention.

Attribute names match the reference's state dict.

Shapes: B batch, H heads, S query length, T key length, K head width, D model width, N
tokens without padding.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from heedful.layers import fused
from heedful.layers.attention import AttentionOutput, attend, attend_talking
from heedful.layers.blocksparse import BlockSparse, Texts
from heedful.layers.cache import KeyValue
from heedful.layers.disentangled import Disentangled, disentangled_bias
from heedful.layers.dropout import Dropout, active_probability
from heedful.layers.linear import Linear
from heedful.layers.packing import Packing
from heedful.layers.positions import Positions, Relations
from heedful.layers.varlen import attend_varlen, has_kernel

BIASES = frozenset({"query", "key", "value", "output"})
"""The linear layers of attention; each may have a bias."""


class MultiHead(nn.Module):
    """Multi-head attention without its output projection.

    Args:
        width: D.
        head_width: K.
        heads: indices of the heads: 0, 1, ..., without the pruned ones.
        dropout: dropout probability of the attention weights in training.
        positions: position module, if any.
        score_factor: factor of the scaled scores.
        sparse: sparse attention for long texts; None for full attention.
        disentangled: disentangled attention to distances, if any.
        biases: the linear layers that have a bias; a subset of ``BIASES``.
        talking: whether heads mix their scores, and then their weights (talking heads).
    """

    def __init__(
        self,
        width: int,
        head_width: int,
        heads: Sequence[int],
        dropout: float,
        positions: Positions | None = None,
        score_factor: float = 1.0,
        sparse: BlockSparse | None = None,
        disentangled: Disentangled | None = None,
        *,
        biases: frozenset[str] = BIASES,
        talking: bool = False,
    ) -> None:
        super().__init__()
        self.heads = tuple(heads)
        self.head_width = head_width
        self.dropout = Dropout(dropout)
        self.score_factor = score_factor
        self.compute_dtype: torch.dtype | None = None
        """Dtype of the matrix products if torch casts the weights just before (sharded mixed
        precision); None for the dtype of the weights."""
        self.query = Linear(width, len(heads) * head_width, "query" in biases)
        self.key = Linear(width, len(heads) * head_width, "key" in biases)
        self.value = Linear(width, len(heads) * head_width, "value" in biases)
        self.distance_embedding = positions
        self.sparse = sparse
        self.disentangled = disentangled
        self.talk_scores, self.talk_weights = (
            Linear(len(heads), len(heads), bias=False) if talking else None for _ in range(2)
        )

    def projections(self) -> list[nn.Linear]:
        """Return the layers whose output rows belong to heads."""
        layers: list[nn.Linear] = [self.query, self.key, self.value]
        if self.disentangled is not None:
            layers += self.disentangled.layers()
        return layers

    def set_block_index(self, number: int) -> None:
        """Draw the random blocks of sparse attention as the block of another index does."""
        if self.sparse is not None:
            self.sparse = replace(self.sparse, number=number)

    @property
    def supports_packing(self) -> bool:
        """Whether ``varlen.py`` has a kernel for this module with its current device and dtype."""
        special = self.uses_positions or self.sparse is not None or self.talk_scores is not None
        weight = getattr(self.query, "weight", None)
        if not isinstance(weight, Tensor):  # a user's module that wraps the layer
            return False
        supported = has_kernel(weight.device, self.compute_dtype or weight.dtype, self.head_width)
        return supported and not special

    @property
    def uses_positions(self) -> bool:
        """Whether the scores depend on the positions of the keys."""
        return self.distance_embedding is not None or self.disentangled is not None

    def keys_and_values(
        self, source: Tensor, *, start: int = 0, packing: Packing | None = None
    ) -> KeyValue:
        """Return the keys and values of a source.

        Args:
            source: shape (B, T, D), or (1, N, D) if packed.
            start: position of the first token.
            packing: packing of the source.

        Returns:
            Shape (B, H, T, K) each; (1, H, N, K) if the packing has bounds.
        """
        key = self._rotate(self._split(self.key(source), packing), start)
        return KeyValue(key, self._split(self.value(source), packing))

    def fused_qkv(self, source: Tensor, packing: Packing | None) -> tuple[Tensor, KeyValue] | None:
        """Return the queries and `keys_and_values` of one source by one matrix product.

        Shapes as in ``keys_and_values``. Return None if a fused product is not supported.
        """
        layers = (self.query, self.key, self.value)
        if not fused.supports_fused_linear(layers, source):
            return None
        query, key, value = (self._split(x, packing) for x in fused.fused_linear(source, layers))
        return self._rotate(query, 0), KeyValue(self._rotate(key, 0), value)

    def forward(
        self,
        source: Tensor,
        memory: KeyValue,
        *,
        query: Tensor | None = None,
        mask: Tensor | None,
        head_mask: Tensor | None,
        need_weights: bool,
        bias: Tensor | None = None,
        distances: Tensor | None = None,
        start: int = 0,
        packing: Packing | None = None,
        memory_packing: Packing | None = None,
        causal: bool = False,
        texts: Texts | None = None,
        relations: Relations | None = None,
    ) -> AttentionOutput:
        """Return the weighted values, heads concatenated: shape (B, S, D) if no head is pruned.

        Args:
            source: input of the queries. Shape (B, S, D), or (1, N, D) if packed; the result is
                packed, too.
            memory: the keys and values: ``keys_and_values``.
            query: the projected queries, if already computed: see `fused_qkv`.
            mask: bool, broadcastable to (B, H, S, T); None lets every query attend to all keys.
            head_mask: factor of the values and weights of each head, including pruned heads. Shape
                (H,).
            need_weights: whether to return the weights.
            bias: added to the scaled scores, in addition to the bias of the positions.
                Broadcastable to (B, H, S, T), with 4 dimensions. H includes pruned heads.
            distances: embeddings of the distances, for ``disentangled``. Shape (2 * T - 1, D).
            start: position of the first query.
            packing: packing of the source.
            memory_packing: packing of the source of ``memory``. If it has bounds, no mask is read.
            causal: whether attention is causal when there is no mask.
            texts: the texts in the batch, for sparse attention. Tokens attend within their text.
            relations: relations between this call's tokens, for the position module.
        """
        if query is None:
            query = self._rotate(self._split(self.query(source), packing), start)
        if self.score_factor != 1:
            query = query * self.score_factor
        if bias is not None and bias.shape[1] > len(self.heads):
            bias = bias[:, list(self.heads)]
        if self.distance_embedding is not None:
            query_bias = getattr(self.query, "bias", None)
            distances = self.distance_embedding.bias(
                query, memory.key, start=start, query_bias=query_bias, relations=relations
            )
            bias = distances if bias is None or distances is None else bias + distances
        if self.disentangled is not None and distances is not None:
            bias = self._disentangled_bias(query, memory.key, distances)
        dropout = active_probability(self.dropout)
        if memory_packing is not None and memory_packing.bounds is not None:
            keys = memory_packing.bounds
            queries = keys.single if packing is None else packing.bounds
            assert queries is not None
            mixed = attend_varlen(
                query, *memory, queries=queries, keys=keys, causal=causal, dropout=dropout
            )
            weights, kernel, packing = None, "varlen", None
        elif (
            self.sparse is not None and texts is not None and self.sparse.applies(query, memory.key)
        ):
            mixed, weights, kernel = self.sparse.attend(
                query,
                *memory,
                heads=self.heads,
                texts=texts,
                mask=mask,
                dropout=dropout,
                training=self.training,
                need_weights=need_weights,
            )
        else:
            mixed, weights, kernel = self._attend(
                query, *memory, mask=mask, bias=bias, dropout=dropout, need_weights=need_weights
            )
        if head_mask is not None:
            # Scaling a head's weights after the softmax equals scaling its output. So the fused
            # kernel does not need the head mask.
            factor = head_mask.to(mixed.dtype)[list(self.heads), None, None]  # (H, 1, 1)
            mixed = mixed * factor
            weights = None if weights is None else weights * factor
        merged = mixed.transpose(1, 2).flatten(2)
        return AttentionOutput(merged if packing is None else packing.pack(merged), weights, kernel)

    @property
    def _attend(self) -> Callable[..., AttentionOutput]:
        if self.talk_scores is None or self.talk_weights is None:
            return attend
        return partial(attend_talking, talk=(self.talk_scores.weight, self.talk_weights.weight))

    def _disentangled_bias(self, query: Tensor, key: Tensor, distances: Tensor) -> Tensor | None:
        assert self.disentangled is not None
        keys, queries = self.disentangled.project(distances, self.query, self.key)
        # The content queries are already scaled; scale the distance queries, too.
        queries = None if queries is None else queries * self.score_factor
        return disentangled_bias(query, key, keys, queries)

    def _split(self, hidden: Tensor, packing: Packing | None) -> Tensor:
        if packing is not None and packing.bounds is None:
            hidden = packing.pad(hidden)
        batch, length, _ = hidden.shape
        return hidden.view(batch, length, -1, self.head_width).transpose(1, 2)  # (B, H, S, K)

    def _rotate(self, vectors: Tensor, start: int) -> Tensor:
        positions = self.distance_embedding
        return vectors if positions is None else positions.rotate(vectors, start=start)
