"""Token ids to vectors: the sum of up to four tables (Devlin et al. 2019, figure 2), normalised.

Shapes: B batch, S length, W width of the tables, D model width.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from heedful.layers.dropout import Dropout
from heedful.layers.linear import Linear
from heedful.layers.packing import Packing


class Widening(NamedTuple):
    """A linear layer from the width of the tables to that of the model."""

    width: int
    """D."""
    first: bool = False
    """Whether it stands before the normalisation, and has no bias; else it comes last."""


class Embeddings(nn.Module):
    """The sum of word, token type and position embeddings, perhaps layer normalisation, dropout.

    A linear layer may widen what comes out (Lan et al. 2020, section 3.1).

    Args:
        vocab_size: number of pieces in the vocabulary.
        num_types: number of token types; 0 for a model that has none.
        num_tasks: number of task types (Sun et al. 2020, section 4.1); 0 for a model that has none.
        word_types: whether types are words, and have their vectors (Radford et al. 2018); where a
            call has none, none are added.
        position_embeddings: gives the vectors of positions; see ``layers/positions.py``. None for a
            model without them.
        width: W.
        widening: the linear layer that comes last, or before the normalisation; None where there is
            none.
        word_scale: what the vectors of words are multiplied by.
        pad_id: the piece whose vector starts as zeros and gets no gradient.
        eps: added to the variance by the layer normalisation; None where the sum is not normalised,
            as pre-norm blocks do that themselves.
        dropout: probability with which a value is dropped in training.
        add_positions: whether these are added. A BERT with relative positions has the table, too,
            because the reference's files have it.
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
        self.token_type_embeddings = nn.Embedding(num_types, width) if num_types else None
        self.task_type_embeddings = nn.Embedding(num_tasks, width) if num_tasks else None
        self.word_types = word_types
        self.widens_first = widening is not None and widening.first
        normalised = widening.width if widening is not None and widening.first else width
        self.LayerNorm = None if eps is None else nn.LayerNorm(normalised, eps=eps)
        self.dropout = Dropout(dropout)
        self.word_scale = word_scale
        self.project = None
        if widening is not None:
            self.project = Linear(width, widening.width, bias=not widening.first)

    def forward(
        self,
        tokens: Tensor,
        token_type_ids: Tensor | None,
        position_ids: Tensor | None,
        task_type_ids: Tensor | None = None,
        start: int = 0,
        packing: Packing | None = None,
    ) -> Tensor:
        """Return shape (B, S, D), or (1, tokens, D) if it is to be packed.

        Args:
            tokens: ids, shape (B, S), or vectors in their place, shape (B, S, W).
            token_type_ids: shape (B, S) or (1, S); all 0 if None. Not read without types.
            position_ids: shape (B, S) or (1, S); one after the other if None.
            task_type_ids: as ``token_type_ids``.
            start: the first position if ``position_ids`` is None.
            packing: where the tokens stand, if the padding is to be left out.
        """
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
        if self.project is not None and self.widens_first:
            summed = self.project(summed.to(self.project.weight.dtype))
        if self.LayerNorm is not None:
            # The tables may be kept wider than the weights that the layers compute with.
            summed = self.LayerNorm(summed.to(self.LayerNorm.weight.dtype))
        dropped: Tensor = self.dropout(summed)
        if self.project is not None and not self.widens_first:
            dropped = self.project(dropped)
        return dropped

    def positions(self, tokens: Tensor, position_ids: Tensor | None, start: int = 0) -> Tensor:
        """Return the vectors of positions, shape (B, S, W), or (S, W) where no ids are given."""
        assert self.position_embeddings is not None
        if position_ids is None:
            position_ids = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        vectors: Tensor = self.position_embeddings(position_ids)
        return vectors


def _types(table: nn.Embedding, ids: Tensor | None) -> Tensor:
    """Return the vectors of types, shape (B, S, W), or that of the first, shape (W,)."""
    if ids is None:
        return table.weight[0]
    types: Tensor = table(ids)
    return types
