"""What the search of a decoder without an encoder of its own starts from, and takes its steps with.

Shapes: B items, N hypotheses that go on, S prompt length, E encoder's length, D model width.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoded:
    """What a decoder attends to."""

    hidden: Tensor
    """Shape (N, E, D)."""
    mask: Tensor | None
    """Shape (N, E), or None where there is no padding."""

    def select(self, rows: Tensor) -> "Encoded":
        """Return some rows, shape (M,), in that order."""
        mask = None if self.mask is None else self.mask.index_select(0, rows)
        return Encoded(hidden=self.hidden.index_select(0, rows), mask=mask)


class Steps(Protocol):
    """What takes the steps of a search in the place of a decoder without an encoder."""

    @property
    def is_current(self) -> bool:
        """Whether it computes what the decoder does, which may have changed since."""

    def start(self, prompts: Tensor, lengths: Tensor) -> Any:
        """Read all of each prompt but its last token.

        Args:
            prompts: token ids. Shape (B, S).
            lengths: how many tokens each has. Shape (B,).
        """

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Score what follows the newest tokens; see ``decoding.search.NextScores``."""
