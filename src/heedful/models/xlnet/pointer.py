"""The head that points at an answer: where it starts, and by that where it ends.

Shapes: B batch, S length, N starts, E ends for each, D model width.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.return_types import topk as Top

from heedful import losses
from heedful.layers.linear import Linear, linear
from heedful.models.labels import check_classes


class Best(NamedTuple):
    """The likeliest spans."""

    starts: Top
    """Probabilities and places of starts. Each of shape (B, N)."""
    ends: Top
    """Those of ends after each start. Each of shape (B, E, N)."""
    unanswerable: Tensor
    """Above 0 where there is no answer. Shape (B,)."""


class _Start(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = Linear(width, 1)


class _End(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.dense_0 = Linear(2 * width, width)
        self.LayerNorm = nn.LayerNorm(width, eps=eps)
        self.dense_1 = Linear(width, 1)


class _Answerable(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense_0 = Linear(2 * width, width)
        self.dense_1 = Linear(width, 1, bias=False)


class PointerHead(nn.Module):
    """Scores each token as a start, as an end after a start, and whether there is an answer at all.

    Args:
        width: D.
        eps: added to the variance by the layer normalisation.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.start_logits = _Start(width)
        self.end_logits = _End(width, eps)
        self.answer_class = _Answerable(width)

    def starts(self, hidden: Tensor, forbidden: Tensor | None) -> Tensor:
        """Return how well each token starts an answer. Shape (B, S).

        Args:
            hidden: shape (B, S, D).
            forbidden: 1 for a token that can be in no answer. Shape (B, S).
        """
        logits = self.start_logits.dense(hidden).squeeze(-1)
        return _without(logits, forbidden)

    def ends(self, hidden: Tensor, start: Tensor, forbidden: Tensor | None) -> Tensor:
        """Return how well each token ends an answer after each start. Shape (B, S, N).

        Args:
            hidden: shape (B, S, D).
            start: states of the starts. Shape (B, N, D).
            forbidden: 1 for a token that can be in no answer. Shape (B, S).
        """
        part = self.end_logits
        # The product with both side by side, without putting them so.
        of_token, of_start = part.dense_0.weight.chunk(2, 1)
        token = linear(hidden, of_token, part.dense_0.bias)[:, :, None]
        inner = torch.tanh(token + linear(start, of_start)[:, None])  # (B, S, N, D)
        logits = part.dense_1(part.LayerNorm(inner)).squeeze(-1)
        return _without(logits, None if forbidden is None else forbidden[..., None])

    def unanswerable(self, hidden: Tensor, start: Tensor, cls_index: Tensor | None) -> Tensor:
        """Return what is above 0 where there is no answer. Shape (B,).

        Args:
            hidden: shape (B, S, D).
            start: state of the start. Shape (B, D).
            cls_index: where the class token stands, shape (B,); None for the last token.
        """
        last = hidden[:, -1] if cls_index is None else _at(hidden, cls_index[:, None])[:, 0]
        part = self.answer_class
        inner = torch.tanh(part.dense_0(torch.cat([start, last], -1)))
        logits: Tensor = part.dense_1(inner).squeeze(-1)
        return logits

    def loss(
        self,
        hidden: Tensor,
        starts: Tensor,
        ends: Tensor,
        forbidden: Tensor | None,
        cls_index: Tensor | None,
        is_impossible: Tensor | None,
    ) -> Tensor:
        """Return the mean of both ends' losses, and half of that of answerability.

        Args:
            hidden: shape (B, S, D).
            starts: the right ones. Shape (B,).
            ends: the right ones. Shape (B,).
            forbidden: see ``starts``.
            cls_index: where the class token stands. Shape (B,).
            is_impossible: 1 where there is no answer. Shape (B,). Not learnt without ``cls_index``.

        Raises:
            UserError: an end is no token of its text.
        """
        batch, length, _ = hidden.shape
        for right in (starts, ends):
            check_classes(right, (batch,), length)
        inside = starts.clamp(min=0)
        start = _at(hidden, inside[:, None])  # (B, 1, D)
        of_start = losses.cross_entropy(self.starts(hidden, forbidden), starts)
        of_end = losses.cross_entropy(self.ends(hidden, start, forbidden)[..., 0], ends)
        total = (of_start[0] / of_start[1] + of_end[0] / of_end[1]) / 2
        if cls_index is None or is_impossible is None:
            return total
        logits = self.unanswerable(hidden, start[:, 0], cls_index)
        return total + 0.5 * F.binary_cross_entropy_with_logits(
            logits, is_impossible.to(logits.dtype)
        )

    def best(
        self,
        hidden: Tensor,
        num_starts: int,
        num_ends: int,
        forbidden: Tensor | None,
        cls_index: Tensor | None,
    ) -> Best:
        """Return the likeliest spans, of no more tokens than there are.

        Args:
            hidden: shape (B, S, D).
            num_starts: N.
            num_ends: E.
            forbidden: see ``starts``.
            cls_index: see ``unanswerable``.
        """
        length = hidden.shape[1]
        probabilities = self.starts(hidden, forbidden).softmax(-1)  # (B, S)
        starts = probabilities.topk(min(num_starts, length), -1)
        after = self.ends(hidden, _at(hidden, starts.indices), forbidden).softmax(1)  # (B, S, N)
        ends = after.topk(min(num_ends, length), 1)
        expected = torch.einsum("bsd,bs->bd", hidden, probabilities)
        return Best(starts, ends, self.unanswerable(hidden, expected, cls_index))


def _at(hidden: Tensor, places: Tensor) -> Tensor:
    """Return shape (B, N, D) for the states at places (B, N)."""
    return hidden.take_along_dim(places[..., None], 1)


def _without(logits: Tensor, forbidden: Tensor | None) -> Tensor:
    """Return logits that make forbidden tokens impossible."""
    if forbidden is None:
        return logits
    return logits.masked_fill(forbidden.bool(), torch.finfo(logits.dtype).min)
