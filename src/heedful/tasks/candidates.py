"""Possible answers to a question, and the one that is given, as users see them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from heedful.decoding.spans import Span
from heedful.errors import UserError


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One possible answer."""

    answer: str | None
    """``context[start:end]``; None for no answer."""
    start: int | None
    end: int | None
    score: float
    """Its probability among the best."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer(Candidate):
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


def weigh(context: str, spans: Sequence[Span], silence: float | None) -> list[Candidate]:
    """Turn scores into probabilities, which these candidates share.

    Args:
        context: what the spans are of.
        spans: the best ones.
        silence: score of giving no answer, which is then the last candidate; None if it is none.

    Raises:
        UserError: a score is not a number.
    """
    scores = [span.score for span in spans] + ([] if silence is None else [silence])
    if not all(map(math.isfinite, scores)):
        raise UserError("the score of an answer is not a number; the model is damaged")
    shares = torch.tensor(scores, dtype=torch.float64).softmax(0).tolist()
    found = [
        Candidate(
            answer=context[span.start : span.end], start=span.start, end=span.end, score=share
        )
        for span, share in zip(spans, shares, strict=False)
    ]
    if silence is not None:
        found.append(Candidate(answer=None, start=None, end=None, score=shares[-1]))
    return found


def row(answer: Answer, everything: bool) -> dict[str, Any]:
    """Return the answer and where it stands, and on request the likeliest of all."""
    found = _row(answer)
    if everything:
        found["n_best"] = [_row(candidate) for candidate in answer.n_best]
        if answer.margin is not None:
            found["margin"] = round(answer.margin, 6)
    return found


def _row(one: Candidate) -> dict[str, Any]:
    score = round(one.score, 6)
    return {"answer": one.answer, "start": one.start, "end": one.end, "score": score}


def plain(answer: Answer) -> str:
    """Return the answer on one line, which is empty where there is none."""
    return " ".join((answer.answer or "").split())
