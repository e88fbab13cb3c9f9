"""Candidate answers to a question, and the answer itself."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from heedful.decoding.spans import Span
from heedful.errors import UserError

CANDIDATES = 20
"""Number of spans in the softmax, as in the published code of BERT."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A candidate answer."""

    answer: str | None
    """``context[start:end]``; None for no answer."""
    start: int | None
    end: int | None
    score: float
    """Its probability among the best candidates."""

    def row(self) -> dict[str, Any]:
        """Return the fields as JSON-serializable values."""
        score = round(self.score, 6)
        return {"answer": self.answer, "start": self.start, "end": self.end, "score": score}


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanAnswer(Candidate):
    """The answer to a question."""

    n_best: tuple[Candidate, ...]
    """The most probable candidates in order; may include no answer if the run may give none."""
    best: str
    """The best span, even if no answer is given; empty if the context has no tokens."""
    margin: float | None
    """Score of no answer minus the score of ``best``; None if the run always gives an answer."""
    tokens_total: int
    """Number of tokens of the question and its context."""
    tokens_used: int
    """Number of tokens that the model read; lower only if ``long_text`` cuts the context."""
    windows: int
    """Number of windows of the context."""

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the answer with its span, and on request the most probable candidates."""
        row = self.row()
        if everything:
            row["n_best"] = [candidate.row() for candidate in self.n_best]
            if self.margin is not None:
                row["margin"] = round(self.margin, 6)
        return row | {"tokens_total": self.tokens_total, "tokens_used": self.tokens_used}

    def plain(self) -> str:
        """Return the answer on one line; empty for no answer."""
        return " ".join((self.answer or "").split())


def span_probabilities(
    context: str, spans: Sequence[Span], no_answer_score: float | None
) -> list[Candidate]:
    """Turn scores into probabilities: a softmax over the best ``CANDIDATES`` and no answer.

    Args:
        context: the text of the spans.
        spans: spans in decreasing order of score. Those after the first ``CANDIDATES`` are not part
            of the normalisation.
        no_answer_score: score of no answer, which becomes the last candidate; None to exclude it.

    Raises:
        UserError: a score is NaN or infinite.
    """
    no_answer = [] if no_answer_score is None else [no_answer_score]
    best = [span.score for span in spans[:CANDIDATES]]
    scores = [span.score for span in spans] + no_answer
    if not all(map(math.isfinite, scores)):
        raise UserError("the score of an answer is not a number; the model is damaged")
    total = torch.tensor(best + no_answer, dtype=torch.float64).logsumexp(0)
    probabilities = (torch.tensor(scores, dtype=torch.float64) - total).exp().tolist()
    candidates = [
        Candidate(
            answer=context[span.start : span.end], start=span.start, end=span.end, score=probability
        )
        for span, probability in zip(spans, probabilities, strict=False)
    ]
    if no_answer_score is not None:
        candidates.append(Candidate(answer=None, start=None, end=None, score=probabilities[-1]))
    return candidates
