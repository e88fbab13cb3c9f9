"""Attention of many heads (Vaswani et al. 2017, section 3.2.2), to itself or to an encoder.

The attributes are named so that a state dict has the reference's names.

Shapes: B batch, H heads, S query length, T key length, K head width, D model width, P number of
positions.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from heedful.layers.attention import Mixed, attend
from heedful.layers.cache import KeyValue
from heedful.layers.positions import relative_bias


class MultiHead(nn.Module):
    """Multi-head attention without its output projection.

    Args:
        width: D.
        head_width: K.
        heads: the numbers of its heads: 0, 1, ..., less those that were pruned.
        dropout: probability with which an attention weight is dropped in training.
        num_positions: P if it knows relative positions, else 0.
        with_key: whether the keys meet the relative positions as the queries do.
    """

    def __init__(
        self,
        width: int,
        head_width: int,
        heads: Sequence[int],
        dropout: float,
        *,
        num_positions: int = 0,
        with_key: bool = False,
    ) -> None:
        super().__init__()
        self.heads = tuple(heads)
        self.dropout = dropout
        self.with_key = with_key
        self.query = nn.Linear(width, len(heads) * head_width)
        self.key = nn.Linear(width, len(heads) * head_width)
        self.value = nn.Linear(width, len(heads) * head_width)
        self.distance_embedding = (
            nn.Embedding(2 * num_positions - 1, head_width) if num_positions else None
        )

    def keys_and_values(self, source: Tensor) -> KeyValue:
        """Return what queries attend to in ``source``, shape (B, T, D)."""
        return KeyValue(self._split(self.key(source)), self._split(self.value(source)))

    def forward(
        self,
        hidden: Tensor,
        memory: KeyValue,
        *,
        mask: Tensor | None,
        head_mask: Tensor | None,
        need_weights: bool,
        start: int,
    ) -> Mixed:
        """Return the mixed values with the heads side by side, shape (B, S, D) if none is pruned.

        Args:
            hidden: what asks. Shape (B, S, D).
            memory: what it attends to: ``keys_and_values``.
            mask: bool, broadcastable to (B, H, S, T); None lets every query attend to all.
            head_mask: what the values and weights of each head are multiplied by, of those that
                were pruned, too. Shape (H,).
            need_weights: whether to return the weights.
            start: the position of the first query.
        """
        query, bias = self._split(self.query(hidden)), None
        if self.distance_embedding is not None:
            table = self.distance_embedding.weight
            bias = relative_bias(query, memory.key, table, start=start, with_key=self.with_key)
        mixed, weights, kernel = attend(
            query,
            *memory,
            mask=mask,
            bias=bias,
            dropout=self.dropout if self.training else 0.0,
            need_weights=need_weights,
        )
        if head_mask is not None:
            # After the softmax a factor may move from a head's weights to what they mix, so the
            # fused kernel needs to know nothing of it.
            factor = head_mask.to(mixed.dtype)[list(self.heads), None, None]  # (H, 1, 1)
            mixed = mixed * factor
            weights = None if weights is None else weights * factor
        return Mixed(mixed.transpose(1, 2).flatten(2), weights, kernel)

    def _split(self, hidden: Tensor) -> Tensor:
        batch, length, _ = hidden.shape
        return hidden.view(batch, length, len(self.heads), -1).transpose(1, 2)  # (B, H, S, K)
