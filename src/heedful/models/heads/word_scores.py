"""The product with the vocabulary, the largest of a small model, only where it is wanted.

Shapes: B batch, S length, D model width, V vocabulary, N places that are scored.
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful import losses
from heedful.errors import UserError
from heedful.layers.feedforward import ACTIVATIONS
from heedful.models.bert.config import BertConfig
from heedful.models.bert.model import BertModel
from heedful.models.heads.labels import check_classes


class Transform(nn.Module):
    """A dense layer, the activation, and a normalisation.

    Args:
        width: D.
        activation: a name in ``feedforward.ACTIVATIONS``.
        eps: added to the variance by the layer normalisation.
    """

    def __init__(self, width: int, activation: str, eps: float) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.LayerNorm = nn.LayerNorm(width, eps=eps)
        self.activation = ACTIVATIONS[activation]

    def forward(self, hidden: Tensor) -> Tensor:
        """Return shape (..., D) for shape (..., D)."""
        normal: Tensor = self.LayerNorm(self.activation(self.dense(hidden)))
        return normal


class WordScores(nn.Module):
    """States to a logit for each word of the vocabulary.

    Args:
        width: D.
        vocab_size: V.
        activation: a name in ``feedforward.ACTIVATIONS``.
        eps: added to the variance by the layer normalisation.
        tied: whether a word's vector is the one of the embeddings, which is then handed to each
            call; else the head has vectors of its own, ``decoder.weight``.
    """

    def __init__(
        self, *, width: int, vocab_size: int, activation: str, eps: float, tied: bool
    ) -> None:
        super().__init__()
        self.transform = Transform(width, activation, eps)
        self.decoder = None if tied else nn.Linear(width, vocab_size, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, hidden: Tensor, embeddings: Tensor) -> Tensor:
        """Return shape (..., V).

        Args:
            hidden: shape (..., D).
            embeddings: the words' vectors, used by a tied head. Shape (V, D).
        """
        vectors = embeddings if self.decoder is None else self.decoder.weight
        # The embeddings may be kept wider than the weights that the layers compute with.
        return F.linear(self.transform(hidden), vectors.to(self.bias.dtype), self.bias)

    def resize(self, vocab_size: int, std: float) -> None:
        """Take another vocabulary: what both have is kept, biases start at 0 and vectors afresh.

        Args:
            vocab_size: the new V.
            std: standard deviation of fresh vectors.
        """
        kept = min(vocab_size, len(self.bias))
        bias = self.bias.new_zeros(vocab_size)
        bias[:kept] = self.bias.detach()[:kept]
        self.bias = nn.Parameter(bias)
        if self.decoder is not None:
            before = self.decoder.weight.detach()
            weight = before.new_empty(vocab_size, before.shape[1]).normal_(std=std)
            weight[:kept] = before[:kept]
            self.decoder.weight = nn.Parameter(weight)
            self.decoder.out_features = vocab_size


def of_config(config: BertConfig) -> WordScores:
    """Build the head of a model."""
    return WordScores(
        width=config.hidden_size,
        vocab_size=config.vocab_size,
        activation=config.hidden_act,
        eps=config.layer_norm_eps,
        tied=config.tie_word_embeddings,
    )


def labelled(
    labels: Tensor, positions: Tensor | None, shape: tuple[int, ...], vocab_size: int
) -> Tensor:
    """Return the places that have a label. Shape (N,).

    Args:
        labels: words, or -100 where there is none.
        positions: what the user asked to score; only None goes with labels.
        shape: (B, S), which the labels must have.
        vocab_size: V.

    Raises:
        UserError: the labels do not fit, or positions are given too.
    """
    if positions is not None:
        raise UserError("give labels or positions, not both: labels are scored where they stand")
    check_classes(labels, shape, vocab_size)
    return (labels.flatten() != losses.IGNORED).nonzero().squeeze(1)


class HasWords(Protocol):
    """A model that scores words."""

    bert: BertModel
    cls: nn.ModuleDict


def score_words(
    model: HasWords, hidden: Tensor, labels: Tensor | None, positions: Tensor | None
) -> tuple[Tensor | None, Tensor, Tensor | None]:
    """Return the mean loss, the logits, and the places that these are of if not of all.

    Args:
        model: its words are scored.
        hidden: shape (B, S, D).
        labels: the right word at each place, or -100 where none is scored. Shape (B, S).
        positions: the places to score, in the batch laid out as one row. Shape (N,).
    """
    if labels is not None:
        shape = (hidden.shape[0], hidden.shape[1])
        positions = labelled(labels, positions, shape, model.bert.config.vocab_size)
    chosen = hidden if positions is None else hidden.flatten(0, 1)[positions]  # (N, D)
    logits = model.cls["predictions"](chosen, model.bert.get_input_embeddings().weight)
    if labels is None:
        return None, logits, positions
    total, count = losses.cross_entropy(logits, labels.flatten()[positions])
    return total / count, logits, positions


def get_output_embeddings(self: HasWords) -> Tensor:
    """Return the vectors that states are compared with, the input's if tied. Shape (V, D)."""
    decoder = self.cls["predictions"].decoder
    table = self.bert.get_input_embeddings() if decoder is None else decoder
    assert isinstance(table, nn.Embedding | nn.Linear)
    return table.weight


def set_input_embeddings(self: HasWords, embeddings: nn.Embedding) -> None:
    """Replace the word embeddings; see ``BertModel.set_input_embeddings``.

    The scores take as many words: what both have is kept, other biases start at 0, and where the
    output is not tied to the embeddings, its other vectors start afresh.
    """
    self.bert.set_input_embeddings(embeddings)
    _resize_scores(self)


def resize_token_embeddings(self: HasWords, size: int) -> nn.Embedding:
    """Change how many words the model knows; see ``set_input_embeddings``."""
    embeddings = self.bert.resize_token_embeddings(size)
    _resize_scores(self)
    return embeddings


def _resize_scores(model: HasWords) -> None:
    scores = model.cls["predictions"]
    assert isinstance(scores, WordScores)
    scores.resize(model.bert.config.vocab_size, model.bert.config.initializer_range)
