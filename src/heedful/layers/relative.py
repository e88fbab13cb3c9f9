"""Relative positions of Transformer-XL and relative segments of XLNet.

Shapes: B batch, H heads, S consecutive tokens, T keys, P further queries, N all queries, K head
width, D model width, R distances: T + S - 1.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.errors import UserError
from heedful.layers.linear import Linear
from heedful.layers.positions import Relations


def distance_vectors(distances: Tensor, width: int) -> Tensor:
    """Return sinusoidal embeddings of distances (Dai et al. 2019, section 3.3).

    Unlike ``positions.sinusoids``, this computes in float32, like the published models.

    Args:
        distances: integers. Shape (R,).
        width: D, even.

    Returns:
        Shape (R, D), float32.
    """
    powers = torch.arange(0, width, 2, device=distances.device).float() / width
    angles = distances.float()[:, None] * (1 / 10000**powers)  # (R, D / 2)
    return torch.cat([angles.sin(), angles.cos()], -1)


class SegmentPositions(nn.Module):
    """A bias of the scores from the distance between query and key, and from their segments.

    The distance term is the product of the query with a projected distance embedding (Dai et al.
    2019, section 3.3). The segment term is the product of the query with one of two learnt vectors:
    same or other segment (Yang et al. 2019, section 2.5). In each term the query has its own bias,
    which replaces the bias of the query's linear layer. Attribute names match the reference's
    files.

    Args:
        width: D.
        head_width: K.
        num_heads: H.
    """

    def __init__(self, width: int, head_width: int, num_heads: int) -> None:
        super().__init__()
        self.head_width = head_width
        self.r = Linear(width, num_heads * head_width, bias=False)
        self.r_r_bias = nn.Parameter(torch.empty(num_heads, head_width))
        self.r_s_bias = nn.Parameter(torch.empty(num_heads, head_width))
        self.seg_embed = nn.Parameter(torch.empty(2, num_heads, head_width))

    def rotate(self, vectors: Tensor, *, start: int) -> Tensor:
        """Return the vectors unchanged."""
        return vectors

    def keep_heads(self, kept: Sequence[int]) -> None:
        """Prune all heads but the given ones (indices among the remaining heads)."""
        rows = torch.arange(self.r.out_features, device=self.r.weight.device)
        rows = rows.view(-1, self.head_width)[list(kept)].flatten()
        self.r.weight = nn.Parameter(self.r.weight.detach()[rows], self.r.weight.requires_grad)
        self.r.out_features = len(rows)
        for name in ("r_r_bias", "r_s_bias", "seg_embed"):
            old: nn.Parameter = getattr(self, name)
            new = old.detach().index_select(-2, torch.tensor(kept, device=old.device))
            setattr(self, name, nn.Parameter(new, old.requires_grad))

    def bias(
        self,
        query: Tensor,
        key: Tensor,
        *,
        start: int,
        query_bias: Tensor | None = None,
        relations: Relations | None = None,
    ) -> Tensor:
        """Return the bias of the scaled scores. Shape (B, H, N, T).

        Args:
            query: shape (B, H, N, K).
            key: shape (B, H, T, K).
            start: number of keys before the first query.
            query_bias: bias of the queries' linear layer. Shape (H * K,).
            relations: relations between the tokens.

        Raises:
            UserError: ``query_bias`` is None.
        """
        assert relations is not None
        if query_bias is None:
            raise UserError("the module in place of query has no bias; XLNet's attention reads it")
        keys = key.shape[2]
        length = keys - start
        divided = relations.other_segment is not None
        products = self.products(query, query_bias, relations.vectors, divided)  # (B, H, N, 1 + R)
        bias = relative_shift(products[:, :, :length], keys)
        if relations.query_positions is not None:
            # Among the distances from T - 1 down, key j has index S - 1 - position + j.
            first = length - relations.query_positions  # (B, P)
            columns = first[..., None] + torch.arange(keys, device=first.device)  # (B, P, T)
            further_products = products[:, :, length:]
            index = columns[:, None].expand(-1, query.shape[1], -1, -1)
            bias = torch.cat([bias, further_products.gather(3, index)], 2)
        if relations.other_segment is None:
            return bias
        return torch.addcmul(bias, relations.other_segment.to(bias.dtype), products[..., :1])

    def products(self, query: Tensor, query_bias: Tensor, vectors: Tensor, divided: bool) -> Tensor:
        """Return the scaled products of the queries with the other segment and each distance.

        Args:
            query: shape (B, H, N, K).
            query_bias: shape (H * K,).
            vectors: distance embeddings. Shape (1 or 2, R, D).
            divided: whether there are several segments; otherwise the first column is unused.

        Returns:
            Shape (B, H, N, 1 + R).
        """
        if len(vectors) == 1:
            return products_with(query, *self.table(query_bias, vectors[0], divided))
        halves = zip(query.chunk(2), vectors, strict=True)
        return torch.cat(
            [products_with(q, *self.table(query_bias, one, divided)) for q, one in halves]
        )

    def table(self, query_bias: Tensor, vectors: Tensor, divided: bool) -> tuple[Tensor, Tensor]:
        """Return the vectors to multiply queries with: the other segment, then each distance.

        The term of the query's own segment is subtracted from all scores. That changes no weight,
        because a softmax depends only on differences.

        Args:
            query_bias: shape (H * K,).
            vectors: distance embeddings. Shape (R, D).
            divided: see ``products``.

        Returns:
            The vectors, shape (H, 1 + R, K), and the contribution of the query biases, (H, 1, 1 +
            R). Both are scaled.
        """
        query_offset = query_bias.view(-1, self.head_width)  # (H, K)
        other = torch.zeros_like(query_offset)
        if divided:
            other = self.seg_embed[1] - self.seg_embed[0]
        distances = self.r(vectors.to(self.r.weight.dtype)).view(-1, *query_offset.shape)
        table = torch.cat([other[None], distances]).transpose(0, 1)  # (H, 1 + R, K)
        table = table / math.sqrt(self.head_width)
        # Multiply the biases with each vector once, not once per query.
        offset = (table @ (self.r_r_bias - query_offset)[..., None]).mT  # (H, 1, 1 + R)
        if divided:
            segment_offset = (table[:, :1] * (self.r_s_bias - self.r_r_bias)[:, None]).sum(-1)
            offset = offset + F.pad(segment_offset[..., None], (0, offset.shape[2] - 1))
        return table, offset


def products_with(query: Tensor, table: Tensor, offset: Tensor) -> Tensor:
    """Return the products of queries with the vectors of a table. Shape (B, H, N, 1 + R).

    Args:
        query: shape (B, H, N, K).
        table: shape (H, 1 + R, K).
        offset: added to the products. Shape (H, 1, 1 + R).
    """
    _, heads, queries, width = query.shape
    by_head = query.transpose(0, 1).reshape(heads, -1, width)  # (H, B * N, K)
    met = torch.baddbmm(offset, by_head, table.mT)
    return met.view(heads, -1, queries, met.shape[-1]).transpose(0, 1)


def relative_shift(products: Tensor, keys: int) -> Tensor:
    """Return the products of each query with its own distances to the keys, as a view.

    This is the relative shift. The first column belongs to no distance. Viewed as rows that are one
    shorter, each row starts one position before the row above.

    Args:
        products: shape (B, H, S, 1 + R).
        keys: T.

    Returns:
        Shape (B, H, S, T).
    """
    length = products.shape[2]
    rows = products.flatten(2)[..., length:]  # (B, H, S * R)
    return rows.view(*rows.shape[:2], length, -1)[..., :keys]
