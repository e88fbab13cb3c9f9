"""Positions: as sinusoids that are added to words, or relative, as a bias on the scores.

For relative ones there is a learned vector for each distance (Shaw et al. 2018, section 3.2), which
the query alone meets, or the query and the key (Huang et al. 2020, method 4).

Shapes: B batch, H heads, S query length, T key length, K head width, D model width, P number of
positions.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Return what tells positions apart (Vaswani et al. 2017, section 3.5).

    The sines stand before the cosines, as in Marian, and not in turn, as in the paper: this only
    permutes the model's width. They are rounded to float32, as Marian's files have them.

    Args:
        positions: whole numbers. Any shape.
        width: D, even.

    Returns:
        Shape (..., D), float32.
    """
    powers = torch.arange(0, width, 2, device=positions.device, dtype=torch.float64) / width
    angles = positions[..., None] / 10000**powers  # (..., D / 2)
    return torch.cat([angles.sin(), angles.cos()], -1).float()


def relative_bias(
    query: Tensor, key: Tensor, distances: Tensor, *, start: int, with_key: bool
) -> Tensor:
    """Return what is added to the scaled scores for the distance from each key to each query.

    Each vector meets each distance in one matrix product; the products of a row are then shifted
    into their places as a view, without gathering them (Huang et al. 2018, section 3.4.1).

    Args:
        query: shape (B, H, S, K).
        key: shape (B, H, T, K).
        distances: the vector of each distance, from 1 - P to P - 1. Shape (2 P - 1, K).
        start: the position of the first query; that of the first key is 0.
        with_key: whether the key meets the vector, too.

    Returns:
        Shape (B, H, S, T).
    """
    queries, keys = query.shape[2], key.shape[2]
    middle = len(distances) // 2  # the row of distance 0
    # From the last key's distance to the first query, to the first key's to the last query.
    table = distances[middle + start - keys + 1 : middle + start + queries]  # (S + T - 1, K)
    table = table.to(query.dtype) / math.sqrt(query.shape[-1])
    bias = _by_distance(query, table.flip(0), keys)
    if with_key:
        bias = bias + _by_distance(key, table, queries).mT
    return bias


def _by_distance(vectors: Tensor, table: Tensor, columns: int) -> Tensor:
    """Return the products of vector i with row ``j + rows - 1 - i`` of a table.

    Args:
        vectors: shape (B, H, rows, K).
        table: shape (rows + columns - 1, K).
        columns: how many j there are.

    Returns:
        Shape (B, H, rows, columns).
    """
    rows = vectors.shape[2]
    # One column more than there are distances: read on as rows that are one shorter, each row
    # begins one place before the one above it.
    products = vectors @ F.pad(table, (0, 0, 1, 0)).mT  # (B, H, rows, rows + columns)
    shifted = products.flatten(2)[:, :, rows:]
    return shifted.view(*shifted.shape[:2], rows, -1)[..., :columns]
