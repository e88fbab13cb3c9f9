"""Possible answers to a question, and the one that is given, as users see them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from heedful.decoding.spans import Span
from heedful.errors import UserError

CANDIDATES = 20
"""Answers that share the probability, as many as in the published code of BERT."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One possible answer."""

    answer: str | None
    """``context[start:end]``; None for no answer."""
    start: int | None
    end: int | None
    score: float
    """Its probability among the best."""

    def row(self) -> dict[str, Any]:
        """Return the fields ready for JSON."""
        score = round(self.score, 6)
        return {"answer": self.answer, "start": self.start, "end": self.end, "score": score}


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanAnswer(Candidate):
    """The candidate that is given."""

    n_best: tuple[Candidate, ...]
    """The likeliest candidates in order; no answer is one of them if the run may give none."""
    best: str
    """The likeliest one that is an answer, given or not; empty if there is nothing to read."""
    margin: float | None
    """How far giving no answer outscores ``best``; None if the run always gives one."""
    tokens_total: int
    """Tokens of the question and its context."""
    tokens_used: int
    """Tokens the model was given: fewer only where ``long_text`` leaves some out."""
    windows: int
    """Windows the context was read in."""

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the answer and where it stands, and on request the likeliest of all."""
        row = self.row()
        if everything:
            row["n_best"] = [candidate.row() for candidate in self.n_best]
            if self.margin is not None:
                row["margin"] = round(self.margin, 6)
        return row | {"tokens_total": self.tokens_total, "tokens_used": self.tokens_used}

    def plain(self) -> str:
        """Return the answer on one line, which is empty where there is none."""
        return " ".join((self.answer or "").split())


def weigh(context: str, spans: Sequence[Span], silence: float | None) -> list[Candidate]:
    """Turn scores into probabilities, which the best ``CANDIDATES`` and giving no answer share.

    Args:
        context: what the spans are of.
        spans: the best ones, best first. What comes after ``CANDIDATES`` of them changes nothing.
        silence: score of giving no answer, which is then the last candidate; None if it is none.

    Raises:
        UserError: a score is not a number.
    """
    silent = [] if silence is None else [silence]
    best = [span.score for span in spans[:CANDIDATES]]
    scores = [span.score for span in spans] + silent
    if not all(map(math.isfinite, scores)):
        raise UserError("the score of an answer is not a number; the model is damaged")
    total = torch.tensor(best + silent, dtype=torch.float64).logsumexp(0)
    shares = (torch.tensor(scores, dtype=torch.float64) - total).exp().tolist()
    candidates = [
        Candidate(
            answer=context[span.start : span.end], start=span.start, end=span.end, score=share
        )
        for span, share in zip(spans, shares, strict=False)
    ]
    if silence is not None:
        candidates.append(Candidate(answer=None, start=None, end=None, score=shares[-1]))
    return candidates
