"""What a search keeps while a Transformer writes.

Shapes: B items, N hypotheses, E length of the encoder's output, H heads, K head width, D model
width.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from heedful.layers.stack import Stack
from heedful.layers.tree import Tree
from heedful.models.translation import uncovered


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchState:
    """What is kept of the hypotheses of a search. Only the newest may be used: see ``Tree``."""

    tree: Tree
    """The keys and values of their tokens."""
    crosses: list[Tensor]
    """The keys and values that each block attends to: of each item once. Each of shape (2, B, H, E,
    K)."""
    cross_mask: Tensor | None
    """Shape (B, 1, 1, E), bool."""
    coverage: Tensor | None
    """How much has been attended to each source token so far, if that counts; padding counts as
    attended to. Shape (N, E)."""

    @classmethod
    def start(
        cls, decoder: Stack, encoded: Tensor, mask: Tensor | None, *, cover: bool
    ) -> "SearchState":
        """Return what is kept before the first token.

        Args:
            decoder: the blocks that write.
            encoded: what they attend to. Shape (B, E, D).
            mask: True for a token of it, False for padding. Shape (B, 1, 1, E).
            cover: whether coverage counts.
        """
        return cls(
            tree=Tree.start(
                len(encoded),
                heads=[len(block.attention.self.heads) for block in decoder.blocks],
                head_width=decoder.blocks[0].attention.self.head_width,
                like=encoded,
            ),
            # Those of a head side by side: they are read at every step.
            crosses=[torch.stack(cross) for cross in decoder.cross_memory(encoded)],
            # Items that are left close up in it, and it may be the user's own.
            cross_mask=None if mask is None else mask.clone(),
            coverage=uncovered(encoded, None if mask is None else mask[:, 0, 0]) if cover else None,
        )

    def select(self, rows: Tensor) -> "SearchState":
        """Return what is kept of some rows, in that order, any of them several times.

        Args:
            rows: numbers of rows. Shape (N,), int64.
        """
        tree, compaction = self.tree.select(rows.cpu().numpy())
        crosses, cross_mask = self.crosses, self.cross_mask
        if compaction is not None:
            crosses = [compaction.apply(cross, 1) for cross in crosses]
            cross_mask = None if cross_mask is None else compaction.apply(cross_mask)
        return SearchState(
            tree=tree,
            crosses=crosses,
            cross_mask=cross_mask,
            coverage=None if self.coverage is None else self.coverage.index_select(0, rows),
        )


class Steps(Protocol):
    """What takes the steps of a search in the place of a model's own."""

    @property
    def is_current(self) -> bool:
        """Whether it computes what the model does, which may have changed since."""

    def start(self, encoded: Tensor, mask: Tensor | None, *, cover: bool) -> SearchState:
        """Return what is kept before the first token; see ``SearchState.start``."""

    def step(self, tokens: Tensor, state: SearchState) -> tuple[Tensor, SearchState]:
        """Score what follows the newest tokens; see ``decoding.search.NextScores``."""
