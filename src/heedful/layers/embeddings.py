"""Input embeddings: the normalised sum of up to four tables (Devlin et al. 2019, figure 2).

Shapes: B batch, S length, W width of the tables, D model width.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from heedful.errors import UserError
from heedful.layers.dropout import Dropout
from heedful.layers.linear import Linear, in_dtype_of
from heedful.layers.packing import Packing


class Widening(NamedTuple):
    """A linear layer from the width of the embedding tables to the model width."""

    width: int
    """D."""
    first: bool = False
    """Whether it comes before the normalisation and has no bias; otherwise it comes last."""


class Embeddings(nn.Module):
    """Word, token type and position embeddings: sum, optional layer normalisation, dropout.

    An optional linear layer projects from W to D (Lan et al. 2020, section 3.1).

    Args:
        vocab_size: vocabulary size.
        num_types: number of token types; 0 for a model without token types.
        num_tasks: number of task types (Sun et al. 2020, section 4.1); 0 for a model without them.
        word_types: whether token types are token ids and share the word embeddings (Radford et al.
            2018). A call without token types adds none.
        position_embeddings: module of position embeddings; see ``layers/positions.py``. None for a
            model without them.
        width: W.
        widening: the linear layer from W to D, last or before the normalisation; None for none.
        word_scale: factor of the word embeddings.
        pad_id: token id whose embedding is initialised to zeros and gets no gradient.
        eps: added to the variance by the layer normalisation; None for no normalisation, as for
            pre-norm blocks.
        dropout: dropout probability in training.
        add_positions: whether to add the position embeddings. A BERT with relative positions has
            the table without using it, because the reference's files contain it.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        num_types: int,
        num_tasks: int = 0,
        word_types: bool = False,
        position_embeddings: nn.Module | None,
        width: int,
        widening: Widening | None = None,
        word_scale: float = 1.0,
        pad_id: int | None,
        eps: float | None,
        dropout: float,
        add_positions: bool = True,
    ) -> None:
        super().__init__()
        self.add_positions = add_positions and position_embeddings is not None
        self.word_embeddings = nn.Embedding(vocab_size, width, padding_idx=pad_id)
        self.position_embeddings = position_embeddings
        self.padding_position: int | None = getattr(position_embeddings, "padding_idx", None)
        self.token_type_embeddings = nn.Embedding(num_types, width) if num_types else None
        self.task_type_embeddings = nn.Embedding(num_tasks, width) if num_tasks else None
        self.word_types = word_types
        self.projects_before_norm = widening is not None and widening.first
        normalised = widening.width if widening is not None and widening.first else width
        self.LayerNorm = None if eps is None else nn.LayerNorm(normalised, eps=eps)
        self.dropout = Dropout(dropout)
        self.word_scale = word_scale
        self.project = None
        if widening is not None:
            self.project = Linear(width, widening.width, bias=not widening.first)

    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        task_type_ids: Tensor | None = None,
        start: int = 0,
        packing: Packing | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        """Return shape (B, S, D), or (1, tokens, D) with a packing.

        Args:
            input_ids: token ids, shape (B, S), or input embeddings, shape (B, S, W).
            token_type_ids: shape (B, S) or (1, S); None for all 0. Not read without token types.
            position_ids: shape (B, S) or (1, S); see ``positions`` for None.
            task_type_ids: like ``token_type_ids``.
            start: number of cached tokens before these.
            packing: packs the output to remove padding; None keeps padding.
            inputs_embeds: the input embeddings, instead of ``input_ids``.

        Raises:
            UserError: neither or both are given.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise UserError("give either input_ids or inputs_embeds")
        tokens = inputs_embeds if input_ids is None else input_ids
        assert tokens is not None
        vectors = self.word_embeddings(tokens) if tokens.ndim == 2 else tokens
        summed = vectors if self.word_scale == 1 else vectors * self.word_scale
        if self.token_type_embeddings is not None:
            summed = summed + _types(self.token_type_embeddings, token_type_ids)
        elif self.word_types and token_type_ids is not None:
            summed = summed + self.word_embeddings(token_type_ids)
        if self.task_type_embeddings is not None:
            summed = summed + _types(self.task_type_embeddings, task_type_ids)
        if self.add_positions:
            summed = summed + self.positions(tokens, position_ids, start)
        if packing is not None:
            summed = packing.pack(summed)
        if self.project is not None and self.projects_before_norm:
            summed = self.project(in_dtype_of(self.project, summed))
        if self.LayerNorm is not None:
            # The tables may have a wider dtype than the weights of the layers.
            summed = self.LayerNorm(in_dtype_of(self.LayerNorm, summed))
        dropped: Tensor = self.dropout(summed)
        if self.project is not None and not self.projects_before_norm:
            dropped = self.project(dropped)
        return dropped

    def positions(self, tokens: Tensor, position_ids: Tensor | None, start: int = 0) -> Tensor:
        """Return position embeddings, shape (B, S, W), or (S, W) if all texts have the same.

        Without position ids, positions count from ``start``. If padding has a position of its own,
        they count from the next one, and skip padding ids.
        """
        assert self.position_embeddings is not None
        if position_ids is None:
            position_ids = self.default_positions(tokens, start)
        vectors: Tensor = self.position_embeddings(position_ids)
        return vectors

    def default_positions(self, tokens: Tensor, start: int | Tensor = 0) -> Tensor:
        """Return the positions of tokens without position ids, shape (B, S), or maybe (S,).

        Args:
            tokens: token ids, shape (B, S), or vectors, shape (B, S, W).
            start: number of cached tokens before them; a number, or shape (B, 1).
        """
        padding = self.padding_position
        if padding is not None and tokens.ndim == 2:
            mask = tokens.ne(padding).long()
            return padding + mask * (start + mask.cumsum(1))
        first = start if padding is None else padding + 1 + start
        return first + torch.arange(tokens.shape[1], device=tokens.device)


def _types(table: nn.Embedding, ids: Tensor | None) -> Tensor:
    """Return the embeddings of types, shape (B, S, W), or of type 0 without ids, shape (W,)."""
    if ids is None:
        return table.weight[0]
    types: Tensor = table(ids)
    return types
