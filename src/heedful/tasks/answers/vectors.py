"""Embeddings of texts and of their tokens.

Shapes: T tokens, D embedding size.
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
    """The answer to one text or pair."""

    vector: Tensor
    """Embedding of the text, or of the first text of a pair. Shape (D,), fp32."""
    vector_pair: Tensor | None
    """Embedding of the second text of a pair."""
    tokens_total: int
    """Number of tokens of all texts."""
    tokens_used: int
    """Number of tokens that the model read."""
    windows: int
    """Number of windows of all texts; the embeddings of a text's windows are averaged."""
    token_vectors: tuple[Tensor, ...] | None = None
    """If requested, for each text the vectors of all tokens that were read, including special
    tokens. Shape (T, D) each."""

    @property
    def similarity(self) -> float | None:
        """The cosine similarity of a pair, from -1 to 1."""
        if self.vector_pair is None:
            return None
        return float(F.cosine_similarity(self.vector, self.vector_pair, dim=0))

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the embedding; for a pair the similarity, and on request the embeddings."""
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
        """Return the embedding, space-separated; for a pair the similarity."""
        if self.similarity is not None:
            return f"{self.similarity:.6f}"
        return " ".join(f"{value:.7f}" for value in self.vector.tolist())


def _numbers(vector: Tensor) -> list[float]:
    return [round(value, 7) for value in vector.tolist()]


def join_windows(rows: Sequence[Tensor], text: str, tokenizer: Tokenizer) -> Tensor:
    """Join the windows of a text; take each token from its most central window. Shape (T, D)."""
    if len(rows) == 1:
        return rows[0]
    layout = tokenizer.layout
    limit = len(rows[0]) - layout.size(pair=False)
    (ids,) = tokenizer.encode_batch([text])
    starts = window_starts(len(ids), limit, limit // WINDOW_SHARE)
    num_begin = len(layout.begin)
    inner = [
        row[num_begin : num_begin + limit][part]
        for row, part in zip(rows, nearest_windows(starts, limit), strict=True)
    ]
    return torch.cat([rows[0][:num_begin], *inner, rows[-1][num_begin + limit :]])
