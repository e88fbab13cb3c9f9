"""Encoder output and compiled steps for the search of a decoder without its own encoder.

Shapes: B batch, N live hypotheses, S prompt length, E encoder length, D model width.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderOutput:
    """Encoder output that a decoder attends to."""

    hidden: Tensor
    """Hidden states. Shape (N, E, D)."""
    mask: Tensor | None
    """Mask of shape (N, E), or None if there is no padding."""

    def select(self, rows: Tensor) -> "EncoderOutput":
        """Return the given rows, shape (M,), in the given order."""
        mask = None if self.mask is None else self.mask.index_select(0, rows)
        return EncoderOutput(hidden=self.hidden.index_select(0, rows), mask=mask)


class CompiledSteps(Protocol):
    """Runs search steps in place of a decoder without an encoder."""

    @property
    def is_current(self) -> bool:
        """Whether its results still match the decoder, which may have changed since."""

    def start(self, prompts: Tensor, lengths: Tensor) -> Any:
        """Process each prompt without its last token, which the first step receives.

        Args:
            prompts: token ids. Shape (B, S).
            lengths: number of tokens of each prompt. Shape (B,).
        """

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Score the token after the newest tokens; see ``decoding.search.ScoreFunction``."""
