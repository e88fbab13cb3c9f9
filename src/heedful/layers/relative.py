"""Positions and segments that only differences tell: of Transformer-XL and XLNet.

Shapes: B batch, H heads, S tokens in a row, T keys, P further queries, N queries in all, K head
width, D model width, R distances: T + S - 1.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.layers.linear import Linear
from heedful.layers.positions import Relations


def distance_vectors(distances: Tensor, width: int) -> Tensor:
    """Return sines and cosines of distances (Dai et al. 2019, section 3.3).

    Unlike ``positions.sinusoids`` they are computed in float32, as the published models were.

    Args:
        distances: whole numbers. Shape (R,).
        width: D, even.

    Returns:
        Shape (R, D), float32.
    """
    powers = torch.arange(0, width, 2, device=distances.device).float() / width
    angles = distances.float()[:, None] * (1 / 10000**powers)  # (R, D / 2)
    return torch.cat([angles.sin(), angles.cos()], -1)


class SegmentPositions(nn.Module):
    """A bias of the scores by how far a key stands from a query, and whether it is of its segment.

    The distance is a vector that the query meets through a linear layer (Dai et al. 2019, section
    3.3). Being of the query's segment or of another one is a learnt vector each (Yang et al. 2019,
    section 2.5). A query meets each with a bias of its own, in the place of the one that its linear
    layer has added. The attributes are named as in the reference's files.

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
        """Return the vectors as they are."""
        return vectors

    def keep_heads(self, kept: Sequence[int]) -> None:
        """Forget all heads but some, given by their places among those that are left."""
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
        """Return what is added to the scaled scores. Shape (B, H, N, T).

        Args:
            query: shape (B, H, N, K).
            key: shape (B, H, T, K).
            start: how many keys stand before the first query.
            query_bias: what the queries' linear layer added. Shape (H * K,).
            relations: of the tokens.
        """
        assert relations is not None
        assert query_bias is not None
        keys = key.shape[2]
        length = keys - start
        divided = relations.apart is not None
        products = self.products(query, query_bias, relations.vectors, divided)  # (B, H, N, 1 + R)
        bias = shifted(products[:, :, :length], keys)
        if relations.places is not None:
            # Key j is the distance from T - 1 down that is S - 1 - place + j from the first.
            first = length - relations.places  # (B, P)
            columns = first[..., None] + torch.arange(keys, device=first.device)  # (B, P, T)
            further = products[:, :, length:]
            index = columns[:, None].expand(-1, query.shape[1], -1, -1)
            bias = torch.cat([bias, further.gather(3, index)], 2)
        if relations.apart is None:
            return bias
        return torch.addcmul(bias, relations.apart.to(bias.dtype), products[..., :1])

    def products(self, query: Tensor, query_bias: Tensor, vectors: Tensor, divided: bool) -> Tensor:
        """Return the scaled scores of queries with the other segment, and with each distance.

        Args:
            query: shape (B, H, N, K).
            query_bias: shape (H * K,).
            vectors: shape (1 or 2, R, D).
            divided: whether there is another segment; else the first column is of nothing.

        Returns:
            Shape (B, H, N, 1 + R).
        """
        if len(vectors) == 1:
            return meet(query, *self.table(query_bias, vectors[0], divided))
        halves = zip(query.chunk(2), vectors, strict=True)
        return torch.cat([meet(q, *self.table(query_bias, one, divided)) for q, one in halves])

    def table(self, query_bias: Tensor, vectors: Tensor, divided: bool) -> tuple[Tensor, Tensor]:
        """Return what queries meet: the other segment, then each distance.

        A query's own segment is left out of all scores, which changes no weight: a softmax sees
        differences alone.

        Args:
            query_bias: shape (H * K,).
            vectors: shape (R, D).
            divided: see ``products``.

        Returns:
            Vectors, shape (H, 1 + R, K), and what the biases of queries add, (H, 1, 1 + R); both
            are scaled.
        """
        added = query_bias.view(-1, self.head_width)  # (H, K)
        other = torch.zeros_like(added)
        if divided:
            other = self.seg_embed[1] - self.seg_embed[0]
        distances = self.r(vectors.to(self.r.weight.dtype)).view(-1, *added.shape)
        table = torch.cat([other[None], distances]).transpose(0, 1)  # (H, 1 + R, K)
        table = table / math.sqrt(self.head_width)
        # The biases meet each vector once, not once for each query.
        offset = (table @ (self.r_r_bias - added)[..., None]).mT  # (H, 1, 1 + R)
        if divided:
            apart = (table[:, :1] * (self.r_s_bias - self.r_r_bias)[:, None]).sum(-1)
            offset = offset + F.pad(apart[..., None], (0, offset.shape[2] - 1))
        return table, offset


def meet(query: Tensor, table: Tensor, offset: Tensor) -> Tensor:
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


def shifted(products: Tensor, keys: int) -> Tensor:
    """Return the products of each query with its own distances to the keys, as a view.

    The first column is of no distance: read on as rows that are one shorter, each row begins one
    place before the one above it.

    Args:
        products: shape (B, H, S, 1 + R).
        keys: T.

    Returns:
        Shape (B, H, S, T).
    """
    length = products.shape[2]
    rows = products.flatten(2)[..., length:]  # (B, H, S * R)
    return rows.view(*rows.shape[:2], length, -1)[..., :keys]
