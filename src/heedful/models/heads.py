"""Heads: small modules that map hidden states to predictions.

``with_head.py`` puts a head on a body. Weight names match the reference.

Shapes: B batch, S length, D model width, W width of the token embeddings, C classes, outputs or
choices, V vocabulary, ... any dimensions.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.errors import UserError
from heedful.layers.dropout import Dropout
from heedful.layers.feedforward import ACTIVATIONS
from heedful.layers.linear import Linear, in_dtype_of
from heedful.losses import IGNORED, reduced
from heedful.models.labels import class_loss, classification_loss


class SequenceHead(nn.Linear):
    """Classify a text from one vector: dropout, then a linear layer.

    The layer's dtype may be wider than its input's; see ``with_head.float32_layers``.

    Args:
        width: D.
        num_labels: C.
        dropout: dropout probability.
        problem_type: selects the loss; see ``classification_loss``.
        bias: whether the linear layer has a bias.
    """

    every_token = False

    def __init__(
        self,
        width: int,
        num_labels: int,
        *,
        dropout: float = 0.0,
        problem_type: str | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__(width, num_labels, bias)
        self.dropout = Dropout(dropout)
        self.problem_type = problem_type

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits of shape (B, C) for shape (B, D)."""
        return super().forward(self.dropout(hidden).to(self.weight.dtype))

    def loss(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sum and count of the losses; see ``classification_loss``."""
        return classification_loss(logits, labels, self.problem_type)


class DenseSequenceHead(nn.Module):
    """Classify a text with a dense layer, an activation and a linear layer.

    Dropout precedes both layers. The last layer's dtype may be wider; see
    ``with_head.float32_layers``.

    Args:
        width: D.
        num_labels: C.
        dropout: dropout probability.
        input_dropout: dropout probability before the first layer; None takes ``dropout``.
        problem_type: selects the loss; see ``classification_loss``.
        activation: a name in ``feedforward.ACTIVATIONS``.
    """

    every_token = False

    def __init__(
        self,
        width: int,
        num_labels: int,
        *,
        dropout: float,
        input_dropout: float | None = None,
        problem_type: str | None,
        activation: str = "tanh",
    ) -> None:
        super().__init__()
        self.input_dropout = Dropout(dropout if input_dropout is None else input_dropout)
        self.dense = Linear(width, width)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)
        self.out_proj = Linear(width, num_labels)
        self.problem_type = problem_type

    @property
    def bias(self) -> nn.Parameter:
        """Bias of the logits. Shape (C,)."""
        return self.out_proj.bias

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits of shape (B, C) for shape (B, D)."""
        inner = self.activation(self.dense(self.input_dropout(hidden)))
        logits: Tensor = self.out_proj(in_dtype_of(self.out_proj, self.dropout(inner)))
        return logits

    def loss(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sum and count of the losses; see ``classification_loss``."""
        return classification_loss(logits, labels, self.problem_type)


SUMMARIES = ("first", "last", "mean", "cls_index")
"""The reference's names for the summary of a text: its first token, last token or mean of tokens.
``cls_index`` is the last token, too, since the reference's models never give another index."""


class SummaryHead(SequenceHead):
    """Classify a text from a summary of its tokens.

    Unlike the reference, it ignores padding: predictions must not depend on other texts of the
    batch.

    Args:
        width: D.
        num_labels: C.
        kind: one of ``SUMMARIES``.
        project: whether a linear layer is applied to the summary.
        activation: activation of the summary, a name in ``feedforward.ACTIVATIONS``, or None.
        dropout: dropout probability of the summary.
        problem_type: selects the loss; see ``classification_loss``.
        bias: whether the linear layer has a bias.
        padding_by_id: whether, without a mask, the padding token's ids are padding.
    """

    def __init__(
        self,
        width: int,
        num_labels: int,
        *,
        kind: str,
        project: bool,
        activation: str | None,
        dropout: float,
        problem_type: str | None = None,
        bias: bool = True,
        padding_by_id: bool = False,
    ) -> None:
        super().__init__(width, num_labels, dropout=dropout, problem_type=problem_type, bias=bias)
        self.kind, self.padding_by_id = kind, padding_by_id
        self.summary = Linear(width, width) if project else None
        self.activation = ACTIVATIONS[activation] if activation else None

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits of shape (B, C) for shape (B, D)."""
        if self.summary is not None:
            hidden = self.summary(hidden.to(self.summary.weight.dtype))
        if self.activation is not None:
            hidden = self.activation(hidden)
        return super().forward(hidden)


class TokenHead(nn.Linear):
    """Classify each token: dropout, then a linear layer.

    Args:
        width: D.
        num_labels: C.
        dropout: dropout probability.
    """

    every_token = True

    def __init__(self, width: int, num_labels: int, *, dropout: float) -> None:
        super().__init__(width, num_labels)
        self.dropout = Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits of shape (B, S, C) for shape (B, S, D)."""
        return super().forward(self.dropout(hidden))

    def loss(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sum and count of the losses; see ``class_loss``."""
        return class_loss(logits, labels)


class SpanHead(nn.Linear):
    """Score each token as the start and the end of an answer.

    Args:
        width: D.
        num_labels: 2, for start and end.
        dropout: dropout probability.

    Raises:
        UserError: ``num_labels`` is not 2.
    """

    def __init__(self, width: int, num_labels: int, *, dropout: float = 0.0) -> None:
        if num_labels != 2:
            raise UserError(f"num_labels is {num_labels}; answers have 2: start and end")
        super().__init__(width, 2)
        self.dropout = Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits of shape (B, S, 2) for shape (B, S, D)."""
        return super().forward(self.dropout(hidden))

    def loss(self, logits: Tensor, positions: Tensor) -> Tensor:
        """Return the mean loss of the start or of the end.

        Args:
            logits: logits of the tokens. Shape (B, S).
            positions: target positions. As in the reference, a position from S on is ignored and a
                negative one becomes 0. Shape (B,) or (B, 1).
        """
        length = logits.shape[1]
        positions = positions.squeeze(-1) if positions.ndim == 2 else positions
        clamped = positions.clamp(min=0)
        targets = clamped.masked_fill(clamped >= length, IGNORED)
        return reduced(*class_loss(logits, targets), "mean")


class ReplacedTokenHead(nn.Module):
    """Detect replaced tokens (Clark et al. 2020, section 2).

    Args:
        width: D.
        activation: a name in ``feedforward.ACTIVATIONS``.
    """

    every_token = True

    def __init__(self, width: int, activation: str) -> None:
        super().__init__()
        self.dense = Linear(width, width)
        self.activation = ACTIVATIONS[activation]
        self.dense_prediction = Linear(width, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits, shape (B, S), above 0 for replaced tokens, for shape (B, S, D)."""
        logits: Tensor = self.dense_prediction(self.activation(self.dense(hidden)))
        return logits.squeeze(-1)


class ContextReplacedTokenHead(nn.Module):
    """Detect replaced tokens from each token plus the first token (He et al. 2023).

    Args:
        width: D.
        activation: a name in ``feedforward.ACTIVATIONS``.
        eps: added to the variance by the layer normalisation.
    """

    every_token = True

    def __init__(self, width: int, activation: str, eps: float) -> None:
        super().__init__()
        self.LayerNorm = nn.LayerNorm(width, eps=eps)
        self.dense = Linear(width, width)
        self.activation = ACTIVATIONS[activation]
        self.classifier = Linear(width, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits, shape (B, S), above 0 for replaced tokens, for shape (B, S, D)."""
        with_first = self.LayerNorm(hidden[:, :1] + hidden)
        logits: Tensor = self.classifier(self.activation(self.dense(with_first)))
        return logits.squeeze(-1)


class PixelHead(nn.Module):
    """Predict the pixels of each patch from its token (Xie et al. 2022, section 3.3).

    Args:
        width: D.
        channels: channels of a pixel.
        side: side length in pixels of the square predicted from a token.
    """

    def __init__(self, width: int, channels: int, side: int) -> None:
        super().__init__()
        self.projection = nn.Conv2d(width, side**2 * channels, 1)
        self.channels, self.side = channels, side

    def forward(self, hidden: Tensor) -> Tensor:
        """Return shape (B, channels, R * side, Q * side) for R rows and Q columns, (B, D, R, Q)."""
        return F.pixel_shuffle(self.projection(hidden), self.side)

    def loss(self, pixels: Tensor, truth: Tensor, hidden: Tensor) -> Tensor:
        """Return the mean absolute error over the channels of masked pixels.

        Args:
            pixels: output of `forward`.
            truth: ground truth, of the same shape.
            hidden: nonzero for a masked patch. Shape (B, R, Q).
        """
        mask = hidden.to(pixels.dtype)[:, None]
        mask = mask.repeat_interleave(self.side, 2).repeat_interleave(self.side, 3)
        error = ((truth - pixels).abs() * mask).sum()
        return error / (mask.sum() + 1e-5) / self.channels


def reads_first(head: Any) -> bool:
    """Return whether a head reads only the first token."""
    if getattr(head, "kind", "first") != "first":
        return False
    return not getattr(head, "every_token", True)


def reads_last(head: Any) -> bool:
    """Return whether a head reads only the last token."""
    return getattr(head, "kind", "first") in ("last", "cls_index")


def summary(head: Any, hidden: Tensor, mask: Tensor | None) -> Tensor:
    """Return the vectors from which a head classifies texts. Shape (B, D).

    Args:
        head: a head that classifies texts.
        hidden: states of all tokens, or of the first if the head reads no other. Shape (B, S, D).
        mask: nonzero for a token. Shape (B, S); None if there is no padding.
    """
    if reads_first(head):
        return hidden[:, 0]
    return summarised(hidden, head.kind, mask)


def summarised(hidden: Tensor, kind: str, mask: Tensor | None) -> Tensor:
    """Return the summary of each text, of a kind in ``SUMMARIES``; see ``summary``."""
    if kind == "first":
        return hidden[:, 0]
    if mask is None:
        return hidden.mean(1) if kind == "mean" else hidden[:, -1]
    real = mask.ne(0)
    if kind == "mean":
        return (hidden * real[..., None]).sum(1) / real.sum(1, keepdim=True).clamp(min=1)
    last = last_positions(real)
    return hidden[torch.arange(last.shape[0], device=last.device), last]


def last_positions(real: Tensor) -> Tensor:
    """Return the position of each sequence's last token, (B,), from a token mask, (B, S).

    An empty text gets 0, as in the reference; its prediction then depends on its batch.
    """
    return real.cumsum(1).argmax(1)
