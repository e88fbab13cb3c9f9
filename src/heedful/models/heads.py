"""Heads: small modules that turn hidden states into what a model decides.

``with_head.py`` puts one on a body. Their weights are named as the reference names them.

Shapes: B batch, S length, D model width, W width of the vectors of pieces, C classes, outputs or
choices, V vocabulary, ... any dimensions.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.errors import UserError
from heedful.layers.dropout import Dropout
from heedful.layers.feedforward import ACTIVATIONS
from heedful.layers.linear import Linear, linear
from heedful.losses import IGNORED, reduced
from heedful.models.labels import class_loss, classification_loss


class SequenceHead(nn.Linear):
    """Decides about a text from one vector of it: dropout, then a linear layer.

    The layer may be wider than what it reads; see ``with_head.wide_layers``.

    Args:
        width: D.
        num_labels: C.
        dropout: probability with which a value is dropped in training.
        problem_type: decides the loss; see ``classification_loss``.
        bias: whether an output has a bias.
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
        """Return the sum and the count of the losses; see ``classification_loss``."""
        return classification_loss(logits, labels, self.problem_type)


class DenseSequenceHead(nn.Module):
    """Decides about a text by a dense layer, an activation and a linear layer.

    There is dropout before both layers. The last one may be wider than the other; see
    ``with_head.wide_layers``.

    Args:
        width: D.
        num_labels: C.
        dropout: probability with which a value is dropped in training.
        input_dropout: the same before the first layer; None takes ``dropout``.
        problem_type: decides the loss; see ``classification_loss``.
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
        """What is added to the logits. Shape (C,)."""
        return self.out_proj.bias

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits of shape (B, C) for shape (B, D)."""
        inner = self.activation(self.dense(self.input_dropout(hidden)))
        logits: Tensor = self.out_proj(self.dropout(inner).to(self.out_proj.weight.dtype))
        return logits

    def loss(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sum and the count of the losses; see ``classification_loss``."""
        return classification_loss(logits, labels, self.problem_type)


SUMMARIES = ("first", "last", "mean", "cls_index")
"""The reference's names of what stands for a text: its first token, its last, or the mean of all.
``cls_index`` is the last, too: the reference's models do not say another one."""


class SummaryHead(SequenceHead):
    """Decides about a text from a summary of its tokens.

    Padding does not count, unlike in the reference: what a text gets must not depend on the others
    of its batch.

    Args:
        width: D.
        num_labels: C.
        kind: one of ``SUMMARIES``.
        project: whether the summary goes through a linear layer.
        activation: of the summary, a name in ``feedforward.ACTIVATIONS``; None for none.
        dropout: probability with which a value of the summary is dropped in training.
        problem_type: decides the loss; see ``classification_loss``.
        bias: whether an output has a bias.
        pad_id: the token that is padding where no mask says what is; None for none.
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
        pad_id: int | None = None,
    ) -> None:
        super().__init__(width, num_labels, dropout=dropout, problem_type=problem_type, bias=bias)
        self.kind, self.pad_id = kind, pad_id
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
    """Decides about each token: dropout, then a linear layer.

    Args:
        width: D.
        num_labels: C.
        dropout: probability with which a value is dropped in training.
    """

    every_token = True

    def __init__(self, width: int, num_labels: int, *, dropout: float) -> None:
        super().__init__(width, num_labels)
        self.dropout = Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits of shape (B, S, C) for shape (B, S, D)."""
        return super().forward(self.dropout(hidden))

    def loss(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sum and the count of the losses; see ``class_loss``."""
        return class_loss(logits, labels)


class SpanHead(nn.Linear):
    """Scores each token as the start and as the end of an answer.

    Args:
        width: D.
        num_labels: 2, one for each end.
        dropout: probability with which a value is dropped in training.

    Raises:
        UserError: it is not 2.
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
        """Return the mean loss of one of the ends.

        Args:
            logits: of the tokens. Shape (B, S).
            positions: of the right ones. As in the reference, one from S on counts for nothing, and
                one below 0 stands for 0. Shape (B,) or (B, 1).
        """
        length = logits.shape[1]
        positions = positions.squeeze(-1) if positions.ndim == 2 else positions
        inside = positions.clamp(min=0)
        counted = inside.masked_fill(inside >= length, IGNORED)
        return reduced(*class_loss(logits, counted), "mean")


class Transform(nn.Module):
    """A dense layer, the activation, and a normalisation.

    Args:
        width: D.
        piece_width: W.
        activation: a name in ``feedforward.ACTIVATIONS``.
        eps: added to the variance by the layer normalisation.
    """

    def __init__(self, width: int, piece_width: int, activation: str, eps: float) -> None:
        super().__init__()
        self.dense = Linear(width, piece_width)
        self.LayerNorm = nn.LayerNorm(piece_width, eps=eps)
        self.activation = ACTIVATIONS[activation]

    def forward(self, hidden: Tensor) -> Tensor:
        """Return shape (..., W) for shape (..., D)."""
        normal: Tensor = self.LayerNorm(self.activation(self.dense(hidden)))
        return normal


class ReplacedHead(nn.Module):
    """Tells replaced tokens from original ones (Clark et al. 2020, section 2).

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
        """Return shape (B, S), above 0 for replaced ones, for shape (B, S, D)."""
        logits: Tensor = self.dense_prediction(self.activation(self.dense(hidden)))
        return logits.squeeze(-1)


class ContextReplacedHead(nn.Module):
    """Tells replaced tokens from original ones, each beside the first token (He et al. 2023).

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
        """Return shape (B, S), above 0 for replaced ones, for shape (B, S, D)."""
        beside = self.LayerNorm(hidden[:, :1] + hidden)
        logits: Tensor = self.classifier(self.activation(self.dense(beside)))
        return logits.squeeze(-1)


class LanguageHead(nn.Module):
    """A logit for each piece of the vocabulary.

    Args:
        transform: what hidden states go through first, to the width of the embeddings; None where
            they have that width and go through nothing.
        piece_width: W, which is that of the embeddings.
        vocab_size: V.
        tied: whether a piece's vector is the one of the embeddings, which is then handed to each
            call; else the head has vectors of its own, ``decoder.weight``.
        biased: whether a piece has a bias.
    """

    def __init__(
        self,
        transform: Transform | None,
        *,
        piece_width: int,
        vocab_size: int,
        tied: bool,
        biased: bool = True,
    ) -> None:
        super().__init__()
        self.transform = transform
        self.decoder = None if tied else Linear(piece_width, vocab_size, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if biased else None

    def vectors(self, embeddings: nn.Embedding) -> Tensor:
        """Return what hidden states are compared with: the embeddings' if tied. Shape (V, W)."""
        return embeddings.weight if self.decoder is None else self.decoder.weight

    def forward(self, hidden: Tensor, embeddings: nn.Embedding) -> Tensor:
        """Return shape (..., V).

        Args:
            hidden: shape (..., D).
            embeddings: of the pieces, used by a tied head.
        """
        if self.transform is not None:
            hidden = self.transform(hidden)
        # The embeddings may be kept wider than the weights that the layers compute with.
        return linear(hidden, self.vectors(embeddings).to(hidden.dtype), self.bias)

    def resize(self, vocab_size: int, std: float) -> None:
        """Take another vocabulary: what both have is kept, biases start at 0 and vectors afresh.

        Args:
            vocab_size: the new V.
            std: standard deviation of fresh vectors.
        """
        if self.bias is not None:
            kept = min(vocab_size, len(self.bias))
            bias = self.bias.new_zeros(vocab_size)
            bias[:kept] = self.bias.detach()[:kept]
            self.bias = nn.Parameter(bias)
        if self.decoder is not None:
            before = self.decoder.weight.detach()
            kept = min(vocab_size, len(before))
            weight = before.new_empty(vocab_size, before.shape[1]).normal_(std=std)
            weight[:kept] = before[:kept]
            self.decoder.weight = nn.Parameter(weight)
            self.decoder.out_features = vocab_size


class PixelHead(nn.Module):
    """Makes the pixels of each patch from its token (Xie et al. 2022, section 3.3).

    Args:
        width: D.
        channels: numbers of a pixel.
        side: pixels on each side of what comes of a token.
    """

    def __init__(self, width: int, channels: int, side: int) -> None:
        super().__init__()
        self.projection = nn.Conv2d(width, side**2 * channels, 1)
        self.channels, self.side = channels, side

    def forward(self, hidden: Tensor) -> Tensor:
        """Return shape (B, channels, R * side, Q * side) for R rows and Q columns, (B, D, R, Q)."""
        return F.pixel_shuffle(self.projection(hidden), self.side)

    def loss(self, pixels: Tensor, truth: Tensor, hidden: Tensor) -> Tensor:
        """Return the mean distance of the numbers of hidden pixels.

        Args:
            pixels: what `forward` returned.
            truth: of the same shape.
            hidden: not 0 for a patch that counts. Shape (B, R, Q).
        """
        counts = hidden.to(pixels.dtype)[:, None]
        counts = counts.repeat_interleave(self.side, 2).repeat_interleave(self.side, 3)
        distance = ((truth - pixels).abs() * counts).sum()
        return distance / (counts.sum() + 1e-5) / self.channels


class PreTrainingHead(nn.Module):
    """Both heads of BERT's pre-training (Devlin et al. 2019, section 3.1).

    Args:
        predictions: says which pieces stand at masked positions.
        width: D.
        dropout: probability with which a value is dropped in training that the second one reads.
    """

    def __init__(self, predictions: LanguageHead, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.predictions = predictions
        self.seq_relationship = SequenceHead(width, 2, dropout=dropout)


def reads_first(head: nn.Module) -> bool:
    """Return whether a head decides from the first token alone."""
    if isinstance(head, SummaryHead) and head.kind != "first":
        return False
    return not getattr(head, "every_token", True)


def reads_last(head: nn.Module) -> bool:
    """Return whether a head decides from the last token alone."""
    return isinstance(head, SummaryHead) and head.kind in ("last", "cls_index")


def summary(
    head: nn.Module, hidden: Tensor, mask: Tensor | None, ids: Tensor | None = None
) -> Tensor:
    """Return the vectors that a head decides about texts from. Shape (B, D).

    Args:
        head: decides about texts.
        hidden: of all tokens, or of the first alone if it reads no other. Shape (B, S, D).
        mask: not 0 for a token. Shape (B, S); None if there is no padding.
        ids: of the tokens, if they are known. Shape (B, S).
    """
    if reads_first(head):
        return hidden[:, 0]
    assert isinstance(head, SummaryHead)
    if mask is None and ids is not None and head.pad_id is not None:
        mask = ids.ne(head.pad_id)
    if mask is None:
        return hidden.mean(1) if head.kind == "mean" else hidden[:, -1]
    real = mask.ne(0)
    if head.kind == "mean":
        return (hidden * real[..., None]).sum(1) / real.sum(1, keepdim=True)
    last = last_places(real)
    return hidden[torch.arange(last.shape[0], device=last.device), last]


def last_places(real: Tensor) -> Tensor:
    """Return where the last token of each sequence stands, (B,), for True in tokens, (B, S).

    That is 0 for a text of no tokens, in the reference, too: what follows depends on its batch.
    """
    return real.cumsum(1).argmax(1)
