"""Pointer head for question answering: predict the start, and the end given the start.

Shapes: B batch, S length, N starts, E ends per start, D model width.
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
    """The most probable spans."""

    starts: Top
    """Probabilities and positions of starts. Each of shape (B, N)."""
    ends: Top
    """Probabilities and positions of ends for each start. Each of shape (B, E, N)."""
    unanswerable: Tensor
    """Logit that there is no answer. Shape (B,)."""


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
    """Compute logits of starts, of ends given a start, and of the question being unanswerable.

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
        """Return the start logit of each token. Shape (B, S).

        Args:
            hidden: hidden states. Shape (B, S, D).
            forbidden: 1 for a token that cannot be in an answer. Shape (B, S).
        """
        logits = self.start_logits.dense(hidden).squeeze(-1)
        return _masked(logits, forbidden)

    def ends(self, hidden: Tensor, start: Tensor, forbidden: Tensor | None) -> Tensor:
        """Return the end logit of each token for each start. Shape (B, S, N).

        Args:
            hidden: hidden states. Shape (B, S, D).
            start: hidden states of the starts. Shape (B, N, D).
            forbidden: 1 for a token that cannot be in an answer. Shape (B, S).
        """
        layers = self.end_logits
        # Same as `dense_0` of token and start concatenated, without the large concatenation.
        token_weight, start_weight = layers.dense_0.weight.chunk(2, 1)
        token = linear(hidden, token_weight, layers.dense_0.bias)[:, :, None]
        inner = torch.tanh(token + linear(start, start_weight)[:, None])  # (B, S, N, D)
        logits = layers.dense_1(layers.LayerNorm(inner)).squeeze(-1)
        return _masked(logits, None if forbidden is None else forbidden[..., None])

    def unanswerable(self, hidden: Tensor, start: Tensor, cls_index: Tensor | None) -> Tensor:
        """Return the logit that there is no answer. Shape (B,).

        Args:
            hidden: hidden states. Shape (B, S, D).
            start: hidden state of the start. Shape (B, D).
            cls_index: position of the class token, shape (B,); None for the last token.
        """
        cls_state = hidden[:, -1] if cls_index is None else _at(hidden, cls_index[:, None])[:, 0]
        layers = self.answer_class
        inner = torch.tanh(layers.dense_0(torch.cat([start, cls_state], -1)))
        logits: Tensor = layers.dense_1(inner).squeeze(-1)
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
        """Return the mean of the start and end losses, plus half the answerability loss.

        Args:
            hidden: hidden states. Shape (B, S, D).
            starts: start labels. Shape (B,).
            ends: end labels. Shape (B,).
            forbidden: see ``starts``.
            cls_index: position of the class token. Shape (B,).
            is_impossible: 1 if there is no answer. Shape (B,). Ignored without ``cls_index``.

        Raises:
            UserError: a start or an end is outside its text.
        """
        batch, length, _ = hidden.shape
        for labels in (starts, ends):
            check_classes(labels, (batch,), length)
        clamped = starts.clamp(min=0)
        start = _at(hidden, clamped[:, None])  # (B, 1, D)
        start_loss = losses.cross_entropy(self.starts(hidden, forbidden), starts)
        end_loss = losses.cross_entropy(self.ends(hidden, start, forbidden)[..., 0], ends)
        total = (losses.reduced(*start_loss, "mean") + losses.reduced(*end_loss, "mean")) / 2
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
        """Return the most probable spans.

        Args:
            hidden: hidden states. Shape (B, S, D).
            num_starts: N; at most S are returned.
            num_ends: E; at most S are returned.
            forbidden: see ``starts``.
            cls_index: see ``unanswerable``.
        """
        length = hidden.shape[1]
        probabilities = self.starts(hidden, forbidden).softmax(-1)  # (B, S)
        starts = probabilities.topk(min(num_starts, length), -1)
        given = self.ends(hidden, _at(hidden, starts.indices), forbidden).softmax(1)  # (B, S, N)
        ends = given.topk(min(num_ends, length), 1)
        expected = torch.einsum("bsd,bs->bd", hidden, probabilities)
        return Best(starts, ends, self.unanswerable(hidden, expected, cls_index))


def _at(hidden: Tensor, positions: Tensor) -> Tensor:
    """Return the hidden states at positions of shape (B, N). Shape (B, N, D)."""
    return hidden.take_along_dim(positions[..., None], 1)


def _masked(logits: Tensor, forbidden: Tensor | None) -> Tensor:
    """Return the logits with the minimum of the dtype at forbidden tokens."""
    if forbidden is None:
        return logits
    return logits.masked_fill(forbidden.bool(), torch.finfo(logits.dtype).min)
