"""What an explanation holds. All pictures and tables are drawn from this alone.

Shapes: L layers, H heads, R tokens of the side of the rows, C of the side of the columns, T tokens.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from heedful.aim import Patches as Patches
from heedful.aim import Side as Side
from heedful.aim import Token as Token

Kind = Literal["encoder", "decoder", "cross", "alignment", "rollout"]
"""Whose weights a map shows: an encoder's, a decoder's to what it has written, a decoder's to what
was read, the additive attention of recurrent networks, or an encoder's layers put together."""

ATTENTION_NOTE = (
    "Attention shows where each layer looks, not which tokens decided the answer: what a token "
    "gathers is mixed with all that it looked at in earlier layers, and quite different weights "
    "can lead to the same answer (Jain and Wallace 2019)."
)
"""What stands beside every picture of attention."""

DIGITS = 6
"""Decimal places of the numbers in JSON."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AttentionMap:
    """How much each token attends to each other."""

    kind: Kind
    rows: int
    """The number of the side that attends."""
    columns: int
    """The number of the side that is attended to."""
    weights: NDArray[np.float32]
    """Each row sums to 1, except those of heads that are gone, which are 0. Shape (L, H, R, C)."""
    gone: tuple[tuple[int, int], ...] = ()
    """Heads that were pruned: the numbers of their layers and their own, both from 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Completeness:
    """Whether attributions add up to what they explain (Sundararajan et al. 2017, section 3)."""

    total: float
    """The sum of all attributions."""
    difference: float
    """The output for the text less the output for the baseline, which they should add up to."""
    steps: int
    """Points between the baseline and the text that were computed."""
    held: bool
    """Whether the two differ by at most 1 % or 0.01, whichever is larger."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attribution:
    """How much each token speaks for a target; below 0, against it."""

    method: str
    target: str
    """What is explained, in words."""
    scores: tuple[tuple[float, ...] | None, ...]
    """For each side a score for each of its tokens, or None where a side has no scores. The score
    of a word is the sum of its tokens' scores."""
    completeness: Completeness | None = None
    """Only integrated gradients have to add up."""
    note: str | None = None
    """What a reader of the scores must know, in whole sentences."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """What a model answered for a text, what it attended to, and which words decided."""

    task: str
    model: str
    """The name of the run."""
    answer: dict[str, Any]
    """As ``heedful predict`` prints it."""
    sides: tuple[Side, ...]
    attention: tuple[AttentionMap, ...] = ()
    attributions: tuple[Attribution, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader must know, in whole sentences: what was left out, and what attention does not
    mean."""

    def _repr_html_(self) -> str:
        from heedful.explanations.html import render  # which draws what this file says
        from heedful.pages.document import frame

        return frame("Explanation of an answer", render(self))

    def to_dict(self) -> dict[str, Any]:
        """Return everything ready for JSON."""
        return {
            "task": self.task,
            "model": self.model,
            "answer": self.answer,
            "sides": [_side(side) for side in self.sides],
            "attributions": [_attribution(one) for one in self.attributions],
            "attention": [_attention(one) for one in self.attention],
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
    if side.picture is not None:
        row["patches"] = [side.picture.rows, side.picture.columns]
    return row


def _attention(one: AttentionMap) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "rows": one.rows,
        "columns": one.columns,
        "gone": [list(head) for head in one.gone],
        "weights": one.weights.astype(np.float64).round(DIGITS).tolist(),
    }


def _attribution(one: Attribution) -> dict[str, Any]:
    row: dict[str, Any] = {
        "method": one.method,
        "target": one.target,
        "scores": [
            None if scores is None else [round(score, DIGITS) for score in scores]
            for scores in one.scores
        ],
    }
    if one.completeness is not None:
        row["completeness"] = {
            "total": round(one.completeness.total, DIGITS),
            "difference": round(one.completeness.difference, DIGITS),
            "steps": one.completeness.steps,
            "held": one.completeness.held,
        }
    return row
