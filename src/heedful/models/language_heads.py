"""Heads of language models: a logit for each token of the vocabulary.

Shapes: D model width, W width of the token embeddings, V vocabulary, ... any dimensions.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn

from heedful.layers.feedforward import ACTIVATIONS
from heedful.layers.linear import Linear, linear
from heedful.models.heads import SequenceHead


class Transform(nn.Module):
    """A dense layer, an activation and layer normalisation.

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
        normalised: Tensor = self.LayerNorm(self.activation(self.dense(hidden)))
        return normalised


class OutputLayer(nn.Linear):
    """The last layer of a language model head, made of weights that exist already.

    Args:
        weight: shape (V, W).
        bias: shape (V,), if any.
    """

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter | None) -> None:
        nn.Module.__init__(self)  # which draws no weights
        self.out_features, self.in_features = weight.shape
        self.weight = weight
        self.register_parameter("bias", bias)


class LanguageHead(nn.Module):
    """Language model head: a logit for each token of the vocabulary.

    Args:
        transform: maps hidden states to the width of the embeddings; None for no transform, if the
            widths are equal.
        piece_width: W, the width of the embeddings.
        vocab_size: V.
        tied: whether the output weight is tied to the embeddings, which are then an argument of
            each call, or those of `tie`. Otherwise the head has its own weight, ``decoder.weight``.
        biased: whether the logits have a bias.
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
        if not tied:
            self.decoder = Linear(piece_width, vocab_size, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if biased else None
        self._embeddings: tuple[nn.Embedding, ...] = ()  # in a tuple, so that it is no submodule

    def __getattr__(self, name: str) -> Any:
        """Return an attribute; ``decoder`` of a tied head is its output layer, as in the reference.

        It shares the weights of the embeddings and of the head.
        """
        if name == "decoder" and self._embeddings:
            return self.output_layer(*self._embeddings)
        return super().__getattr__(name)

    def tie(self, embeddings: nn.Embedding) -> None:
        """Set the embeddings that a tied head uses where a call gives none."""
        self._embeddings = () if self._own_decoder is not None else (embeddings,)

    @property
    def _own_decoder(self) -> Linear | None:
        return cast("Linear | None", self._modules.get("decoder"))

    def vectors(self, embeddings: nn.Embedding) -> nn.Parameter:
        """Return the output weight, which is that of the embeddings if tied. Shape (V, W)."""
        decoder = self._own_decoder
        layer: nn.Embedding | Linear = embeddings if decoder is None else decoder
        return layer.weight  # type: ignore[return-value]

    def output_layer(self, embeddings: nn.Embedding) -> OutputLayer:
        """Return the layer that maps vectors to logits; it shares the weights."""
        return OutputLayer(self.vectors(embeddings), self.bias)

    def forward(self, hidden: Tensor, embeddings: nn.Embedding | None = None) -> Tensor:
        """Return logits of shape (..., V).

        Args:
            hidden: shape (..., D).
            embeddings: token embeddings, used by a tied head; by default those of `tie`.
        """
        if self.transform is not None:
            hidden = self.transform(hidden)
        # The dtype of the embeddings may be wider than that of the layers.
        weight = self.decoder.weight if embeddings is None else self.vectors(embeddings)
        return linear(hidden, weight.to(hidden.dtype), self.bias)

    def resize(self, vocab_size: int, std: float) -> None:
        """Change the vocabulary size. New tokens get a bias of 0 and fresh vectors.

        Args:
            vocab_size: the new V.
            std: standard deviation of fresh vectors.
        """
        if self.bias is not None:
            kept = min(vocab_size, len(self.bias))
            bias = self.bias.new_zeros(vocab_size)
            bias[:kept] = self.bias.detach()[:kept]
            self.bias = nn.Parameter(bias, self.bias.requires_grad)
        if (decoder := self._own_decoder) is not None:
            old = decoder.weight.detach()
            kept = min(vocab_size, len(old))
            weight = old.new_empty(vocab_size, old.shape[1]).normal_(std=std)
            weight[:kept] = old[:kept]
            decoder.weight = nn.Parameter(weight, decoder.weight.requires_grad)
            decoder.out_features = vocab_size


class PartsOfHead(nn.ModuleDict):
    """The parts of a head under the reference's name for both, such as ``cls``."""

    def forward(self, hidden: Tensor) -> Any:
        """Return what the only part returns."""
        (part,) = self.values()
        return part(hidden)


class PreTrainingHead(nn.Module):
    """Both heads of BERT's pre-training (Devlin et al. 2019, section 3.1).

    Args:
        predictions: the masked language model head.
        width: D.
        dropout: dropout probability before the next-sentence head.
    """

    def __init__(self, predictions: LanguageHead, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.predictions = predictions
        self.seq_relationship = SequenceHead(width, 2, dropout=dropout)

    def forward(self, hidden: Tensor, pooled: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of tokens, (B, S, V), and of the next sentence, (B, 2).

        Args:
            hidden: shape (B, S, D).
            pooled: the pooler's output. Shape (B, D).
        """
        return self.predictions(hidden), self.seq_relationship(pooled)
