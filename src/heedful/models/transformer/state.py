"""State of a search for a Transformer's output text.

Shapes: B items, N hypotheses, E encoder length, H heads, K head width, D model width.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from heedful.layers.stack import Stack
from heedful.layers.tree_cache import Tree
from heedful.models.translation import initial_coverage


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchState:
    """State of the hypotheses of a search. Only the newest state is valid: see ``Tree``."""

    tree: Tree
    """Self-attention keys and values of the hypotheses' tokens."""
    cross_key_values: list[Tensor]
    """Cross-attention keys and values of each block, stored once per item. Each of shape (2, B, H,
    E, K)."""
    cross_mask: Tensor | None
    """True for a source token, False for padding. Shape (B, 1, 1, E), bool."""
    coverage: Tensor | None
    """Sum of the attention weights on each source token so far, if the search uses a coverage
    penalty. Padding counts as covered. Shape (N, E)."""

    @classmethod
    def start(
        cls, decoder: Stack, encoded: Tensor, mask: Tensor | None, *, cover: bool
    ) -> "SearchState":
        """Return the state before the first token.

        Args:
            decoder: the decoder stack.
            encoded: output of the encoder. Shape (B, E, D).
            mask: True for a source token, False for padding. Shape (B, 1, 1, E).
            cover: whether to track coverage.
        """
        return cls(
            tree=Tree.start(
                len(encoded),
                heads=[len(block.attention.self.heads) for block in decoder.blocks],
                head_width=decoder.blocks[0].attention.self.head_width,
                like=encoded,
            ),
            # Contiguous keys and values per head: every step reads them.
            cross_key_values=[
                torch.stack(cross) for cross in decoder.cross_keys_and_values(encoded)
            ],
            # Compaction overwrites it in place, and it may share memory with the user's mask.
            cross_mask=None if mask is None else mask.clone(),
            coverage=initial_coverage(encoded, None if mask is None else mask[:, 0, 0])
            if cover
            else None,
        )

    def select(self, rows: Tensor) -> "SearchState":
        """Return the state of the selected hypotheses, in the given order.

        Args:
            rows: row numbers of the hypotheses; a number may repeat. Shape (N,), int64.
        """
        tree, compaction = self.tree.select(rows.cpu().numpy())
        crosses, cross_mask = self.cross_key_values, self.cross_mask
        if compaction is not None:
            crosses = [compaction.apply(cross, 1) for cross in crosses]
            cross_mask = None if cross_mask is None else compaction.apply(cross_mask)
        return SearchState(
            tree=tree,
            cross_key_values=crosses,
            cross_mask=cross_mask,
            coverage=None if self.coverage is None else self.coverage.index_select(0, rows),
        )


class Steps(Protocol):
    """Replacement for a model's own decoding steps, such as compiled steps."""

    @property
    def is_current(self) -> bool:
        """Whether the steps still match the model, which may have changed since."""

    def start(self, encoded: Tensor, mask: Tensor | None, *, cover: bool) -> SearchState:
        """Return the state before the first token; see ``SearchState.start``."""

    def step(self, tokens: Tensor, state: SearchState) -> tuple[Tensor, SearchState]:
        """Return the next tokens' logits and the new state, as a ``ScoreFunction``."""
