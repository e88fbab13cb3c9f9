"""The data of an explanation. All figures and tables are drawn only from this data.

Shapes: L layers, H heads, R tokens of the row side, C tokens of the column side, T tokens.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from heedful.explanation_target import Patches as Patches
from heedful.explanation_target import Side as Side
from heedful.explanation_target import Token as Token

Kind = Literal["encoder", "decoder", "cross", "alignment", "rollout"]
"""The kind of attention in a map: encoder self-attention, decoder self-attention, cross-attention,
additive attention of recurrent networks, or the rollout of an encoder's layers."""

ATTENTION_NOTE = (
    "Attention shows where each layer looks, not which tokens decided the answer: what a token "
    "gathers is mixed with all that it looked at in earlier layers, and quite different weights "
    "can lead to the same answer (Jain and Wallace 2019)."
)
"""The note beside every attention figure."""

DIGITS = 6
"""Decimal places of numbers in JSON."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AttentionMap:
    """Attention weights between all tokens of two sides."""

    kind: Kind
    rows: int
    """Index of the attending side (the queries)."""
    columns: int
    """Index of the attended side (the keys)."""
    weights: NDArray[np.float32]
    """Each row sums to 1, except rows of pruned heads, which are 0. Shape (L, H, R, C)."""
    gone: tuple[tuple[int, int], ...] = ()
    """Pruned heads, as (layer, head) indices from 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Completeness:
    """Whether attributions sum to the output difference (Sundararajan et al. 2017, section 3)."""

    total: float
    """The sum of all attributions."""
    difference: float
    """Output for the text minus output for the baseline; the expected sum."""
    steps: int
    """Number of points computed between the baseline and the text."""
    held: bool
    """Whether ``total`` and ``difference`` differ by at most 1 % or 0.01, whichever is larger."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attribution:
    """Contribution of each token to a target. A negative score is evidence against it."""

    method: str
    target: str
    """Description of the explained target."""
    scores: tuple[tuple[float, ...] | None, ...]
    """For each side, the scores of its tokens, or None if the side has no scores. The score of a
    word is the sum of its tokens' scores."""
    completeness: Completeness | None = None
    """Only for integrated gradients, the only method whose scores must add up."""
    note: str | None = None
    """Caveats for readers of the scores, in whole sentences."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """A model's answer for a text, its attention maps, and its token attributions."""

    task: str
    model: str
    """The name of the run."""
    answer: dict[str, Any]
    """The answer in the format of ``heedful predict``."""
    sides: tuple[Side, ...]
    attention: tuple[AttentionMap, ...] = ()
    attributions: tuple[Attribution, ...] = ()
    notes: tuple[str, ...] = ()
    """Caveats for readers, in whole sentences: omitted parts, and the limits of attention."""

    def _repr_html_(self) -> str:
        from heedful.explanations.html import render  # imports this module
        from heedful.pages.document import frame

        return frame("Explanation of an answer", render(self))

    def to_dict(self) -> dict[str, Any]:
        """Return all data in JSON-compatible form."""
        return {
            "task": self.task,
            "model": self.model,
            "answer": self.answer,
            "sides": [_side(side) for side in self.sides],
            "attributions": [_attribution(item) for item in self.attributions],
            "attention": [_attention(item) for item in self.attention],
            "notes": list(self.notes),
        }


def _side(side: Side) -> dict[str, Any]:
    tokens = [
        {
            "piece": token.piece,
            "text": token.text,
            "start": token.start,
            "end": token.end,
            "word": token.word,
        }
        for token in side.tokens
    ]
    row: dict[str, Any] = {"name": side.name, "texts": list(side.texts), "tokens": tokens}
    if side.patches is not None:
        row["patches"] = [side.patches.rows, side.patches.columns]
    return row


def _attention(attention_map: AttentionMap) -> dict[str, Any]:
    return {
        "kind": attention_map.kind,
        "rows": attention_map.rows,
        "columns": attention_map.columns,
        "gone": [list(head) for head in attention_map.gone],
        "weights": attention_map.weights.astype(np.float64).round(DIGITS).tolist(),
    }


def _attribution(attribution: Attribution) -> dict[str, Any]:
    row: dict[str, Any] = {
        "method": attribution.method,
        "target": attribution.target,
        "scores": [
            None if scores is None else [round(score, DIGITS) for score in scores]
            for scores in attribution.scores
        ],
    }
    if attribution.completeness is not None:
        row["completeness"] = {
            "total": round(attribution.completeness.total, DIGITS),
            "difference": round(attribution.completeness.difference, DIGITS),
            "steps": attribution.completeness.steps,
            "held": attribution.completeness.held,
        }
    return row
