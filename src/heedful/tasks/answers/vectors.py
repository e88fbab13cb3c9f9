"""Vectors of texts, and of their tokens.

Shapes: T tokens, D width of a vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.batches.windows import WINDOW_SHARE, nearest_windows, window_starts
from heedful.tokens import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Embedding:
    """The answer for one text, or a pair."""

    vector: Tensor
    """Of the text, or the first text of a pair. Shape (D,), fp32."""
    vector_pair: Tensor | None
    """Of the second text of a pair."""
    tokens_total: int
    """Tokens of the text, or of both."""
    tokens_used: int
    """Tokens the model was given."""
    windows: int
    """Windows the text was read in, or both were; their vectors are averaged."""
    token_vectors: tuple[Tensor, ...] | None = None
    """If asked for, of the text, or of both, a vector of each token that was read, special tokens
    among them. Shape (T, D) each."""

    @property
    def similarity(self) -> float | None:
        """The cosine between the two vectors of a pair, from -1 to 1."""
        if self.vector_pair is None:
            return None
        return float(F.cosine_similarity(self.vector, self.vector_pair, dim=0))

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the vector, or of a pair how alike its texts are, and its vectors if wanted."""
        row: dict[str, Any] = {}
        if self.similarity is not None:
            row["similarity"] = round(self.similarity, 6)
        if self.vector_pair is None or everything:
            row["vector"] = _numbers(self.vector)
        if self.vector_pair is not None and everything:
            row["vector_pair"] = _numbers(self.vector_pair)
        if self.token_vectors is not None:
            row["token_vectors"] = [[_numbers(v) for v in text] for text in self.token_vectors]
        return row | {"tokens_total": self.tokens_total, "tokens_used": self.tokens_used}

    def plain(self) -> str:
        """Return the vector's numbers between spaces, or of a pair how alike its texts are."""
        if self.similarity is not None:
            return f"{self.similarity:.6f}"
        return " ".join(f"{value:.7f}" for value in self.vector.tolist())


def _numbers(vector: Tensor) -> list[float]:
    return [round(value, 7) for value in vector.tolist()]


def join_windows(rows: Sequence[Tensor], text: str, tokenizer: Tokenizer) -> Tensor:
    """Put a text's windows together, each token from where it has most context. Shape (T, D)."""
    if len(rows) == 1:
        return rows[0]
    layout = tokenizer.layout
    limit = len(rows[0]) - layout.size(pair=False)
    (ids,) = tokenizer.encode_batch([text])
    starts = window_starts(len(ids), limit, limit // WINDOW_SHARE)
    begin = len(layout.begin)
    inner = [
        row[begin : begin + limit][part]
        for row, part in zip(rows, nearest_windows(starts, limit), strict=True)
    ]
    return torch.cat([rows[0][:begin], *inner, rows[-1][begin + limit :]])
