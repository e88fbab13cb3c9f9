"""Beam search; a beam of 1 takes the likeliest token each time.

Shapes: B items, A of them still searched, N their active hypotheses, T tokens of each so far, R
ranked candidates of an item.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.decoding import candidates
from heedful.decoding.candidates import NextTokens
from heedful.decoding.options import (
    Covering,
    Hypothesis,
    NextScores,
    Search,
    State,
    length_divisor,
)
from heedful.errors import UserError


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Partial:
    """The active hypotheses, those of an item side by side."""

    items: NDArray[np.int64]
    """(N,) the item of each."""
    tokens: NDArray[np.int64]
    """(N, T)."""
    totals: NDArray[np.float64]
    """(N,) the sums of penalised log-probabilities, by which they are ranked."""
    log_probabilities: NDArray[np.float64]
    """(N,)."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Ranked:
    """Continuations of each item's hypotheses, best first."""

    items: NDArray[np.int64]
    """(A,)."""
    parents: NDArray[np.int64]
    """(A, R) the index of the hypothesis that each continues."""
    token_ids: NDArray[np.int64]
    """(A, R) the next token."""
    totals: NDArray[np.float64]
    """(A, R) what they are ranked by; -inf for none."""
    log_probabilities: NDArray[np.float64]
    """(A, R)."""


def beam_search(
    step: NextScores[State],
    state: State,
    first: Tensor,
    options: Search,
    forced: NDArray[np.int64],
) -> list[list[Hypothesis]]:
    """Search all items side by side.

    A hypothesis that ends inside the beam leaves it, and the next best takes its position. An item
    is done when as many have ended as the beam is wide, or nothing can change the result.

    Args:
        step: scores the next tokens.
        state: the model's state for each item before its first token.
        first: the token that each item starts with. Shape (B,).
        options: how to search.
        forced: see ``candidates.forced_tokens``.
    """
    count = len(first)
    zeros = np.zeros(count)
    active = _Partial(
        items=np.arange(count),
        tokens=np.empty((count, 0), dtype=np.int64),
        totals=zeros,
        log_probabilities=zeros,
    )
    finished: list[list[Hypothesis]] = [[] for _ in range(count)]
    margins = np.full(count, np.inf)
    tokens = first
    for length in range(1, options.max_new_tokens + 1):
        scores, state = step(tokens, state)
        forced_ids = forced[active.items, min(length, forced.shape[1]) - 1]
        # One more than the beam is wide, in case one of them is the end token.
        top = candidates.best(scores, active.tokens, forced_ids, options, options.num_beams + 1)
        ranked = _rank(active, top, options)
        coverage = _coverage(state, len(active.items), options)
        goes_on = _take_finished(ranked, active, coverage, finished, options)
        lead = _lead(ranked, goes_on, finished, length, options)
        margins[ranked.items] = np.minimum(margins[ranked.items], _margins(ranked, lead, options))
        keep = goes_on & ~(lead >= 0)[:, None]
        if length == options.max_new_tokens:
            _cut_off(ranked, goes_on, active, coverage, finished, options)
            break
        rows = ranked.parents[keep]
        if not len(rows):
            break
        if not np.array_equal(rows, np.arange(len(active.items))):
            state = state.select(torch.from_numpy(rows).to(first.device))
        token_ids = ranked.token_ids[keep]
        active = _Partial(
            items=active.items[rows],
            tokens=np.concatenate([active.tokens[rows], token_ids[:, None]], 1),
            totals=ranked.totals[keep],
            log_probabilities=ranked.log_probabilities[keep],
        )
        tokens = torch.from_numpy(token_ids).to(first.device)
    return [
        best_texts(texts, margin, options) for texts, margin in zip(finished, margins, strict=True)
    ]


def _rank(active: _Partial, top: NextTokens, options: Search) -> _Ranked:
    """Rank the candidates of each item; of equal ones, those of the better hypothesis first."""
    items, starts, sizes = np.unique(active.items, return_index=True, return_counts=True)
    each = top.token_ids.shape[1]
    # (A, hypotheses of the fullest item); what other items lack stays at -inf.
    rows = starts[:, None] + np.arange(sizes.max())
    exists = np.arange(sizes.max()) < sizes[:, None]
    rows = np.where(exists, rows, 0)
    totals = active.totals[:, None] + top.penalised  # (N, M)
    grid = np.where(exists[..., None], totals[rows], -np.inf).reshape(len(items), -1)
    # Each hypothesis can end once, so no more than these go on or end inside the beam; and the best
    # one outside, for the margin.
    order = np.argsort(-grid, axis=1, kind="stable")[:, : 2 * options.num_beams + 1]  # (A, R)
    parents = np.take_along_axis(rows, order // each, 1)
    ranks = order % each
    return _Ranked(
        items=items,
        parents=parents,
        token_ids=top.token_ids[parents, ranks],
        totals=np.take_along_axis(grid, order, 1),
        log_probabilities=active.log_probabilities[parents] + top.log_probabilities[parents, ranks],
    )


def _take_finished(
    ranked: _Ranked,
    active: _Partial,
    coverage: NDArray[np.float64],
    finished: Sequence[list[Hypothesis]],
    options: Search,
) -> NDArray[np.bool_]:
    """Add what ends inside the beam to the finished texts; return which candidates go on.

    Shape:
        (A, R).
    """
    possible = ranked.totals > -np.inf
    ends = ranked.token_ids == options.eos_token_id
    goes_on: NDArray[np.bool_] = possible & ~ends
    goes_on &= goes_on.cumsum(1) <= options.num_beams
    inside = np.arange(ranked.token_ids.shape[1]) < options.num_beams
    for row, rank in zip(*np.nonzero(possible & ends & inside), strict=True):
        text = _continued(ranked, active, coverage, row, rank, options)
        finished[ranked.items[row]].append(text)
    # If every token is forbidden, the texts so far are the result.
    for item in ranked.items[~goes_on.any(1)]:
        if not finished[item]:
            finished[item].extend(
                _hypothesis(
                    active.tokens[row],
                    total=active.totals[row],
                    log_probability=active.log_probabilities[row],
                    coverage=coverage[row],
                    ended=False,
                    options=options,
                )
                for row in np.flatnonzero(active.items == item)
            )
    return goes_on


def _cut_off(
    ranked: _Ranked,
    goes_on: NDArray[np.bool_],
    active: _Partial,
    coverage: NDArray[np.float64],
    finished: Sequence[list[Hypothesis]],
    options: Search,
) -> None:
    """Add texts of the greatest length to the finished ones of items where too few have ended."""
    for row, item in enumerate(ranked.items):
        if len(finished[item]) < options.num_beams:
            finished[item].extend(
                _continued(ranked, active, coverage, row, rank, options)
                for rank in np.flatnonzero(goes_on[row])
            )


def _continued(
    ranked: _Ranked,
    active: _Partial,
    coverage: NDArray[np.float64],
    row: int | np.integer,
    rank: int | np.integer,
    options: Search,
) -> Hypothesis:
    """Build the hypothesis of a candidate."""
    parent, token_id = ranked.parents[row, rank], ranked.token_ids[row, rank]
    ended = bool(token_id == options.eos_token_id)
    return _hypothesis(
        active.tokens[parent] if ended else np.append(active.tokens[parent], token_id),
        total=ranked.totals[row, rank],
        log_probability=ranked.log_probabilities[row, rank],
        coverage=coverage[parent],
        ended=ended,
        options=options,
    )


def _lead(
    ranked: _Ranked,
    goes_on: NDArray[np.bool_],
    finished: Sequence[list[Hypothesis]],
    length: int,
    options: Search,
) -> NDArray[np.float64]:
    """Return by how much each item's result is safe from any change; below 0, it must go on.

    Shape:
        (A,).
    """
    best = np.where(goes_on, ranked.totals, -np.inf).max(1)  # (A,)
    return np.array(
        [
            np.inf
            if len(finished[item]) >= options.num_beams
            else _lead_of_finished(finished[item], float(total), length, options)
            for item, total in zip(ranked.items, best, strict=True)
        ]
    )


def _lead_of_finished(
    finished: Sequence[Hypothesis], best: float, length: int, options: Search
) -> float:
    """Return by how much the finished texts are better than any active one can become.

    Every further token adds a log-probability times a number above 0, so a total only falls. The
    length penalty favours the longest text or, if its power is below 0, the shortest. The coverage
    penalty is at most 0. So no score can exceed the best total of now with the most favourable
    length, and in a tie the earlier text wins.

    Args:
        finished: the texts that have ended.
        best: the highest total of the active ones.
        length: how many tokens these have.
        options: how to search.

    Returns:
        The lead as a difference of totals; -inf if too few texts have ended.
    """
    if len(finished) < options.num_return_sequences:
        return -math.inf
    worst = sorted(finished, key=lambda text: text.score)[-options.num_return_sequences]
    longest = options.length_penalty > 0
    kindest = math.pow(options.max_new_tokens if longest else length + 1, options.length_penalty)
    # The smaller divisor gives the smaller difference of totals.
    return (worst.score - best / kindest) * min(kindest, _divisor(worst, options))


def _margins(ranked: _Ranked, lead: NDArray[np.float64], options: Search) -> NDArray[np.float64]:
    """Return the smallest difference of totals by which a decision on each item was made.

    The decisions are which candidates are inside the beam, which of those that do not end are kept,
    and whether nothing can change the result.

    Shape:
        (A,).
    """
    width = options.num_beams
    whole = ranked.totals
    ends = ranked.token_ids == options.eos_token_id
    lasting = -np.sort(-np.where(ends, -np.inf, whole), axis=1)
    margins = np.where(lead >= 0, lead, np.inf)
    for totals in (whole, lasting):
        if totals.shape[1] > width:
            inside, outside = totals[:, width - 1], totals[:, width]
            exists = outside > -np.inf
            gap = np.subtract(inside, outside, out=np.full(len(whole), np.inf), where=exists)
            margins = np.minimum(margins, gap)
    return margins


def best_texts(finished: Sequence[Hypothesis], margin: float, options: Search) -> list[Hypothesis]:
    """Return the best texts of an item, best first, with the smallest margin of its search."""
    ranked = sorted(finished, key=lambda text: -text.score)
    wanted = options.num_return_sequences
    for better, worse in pairwise(ranked[: wanted + 1]):
        divisor = min(_divisor(better, options), _divisor(worse, options))
        margin = min(margin, (better.score - worse.score) * divisor)
    return [replace(text, margin=float(margin)) for text in ranked[:wanted]]


def _divisor(text: Hypothesis, options: Search) -> float:
    return length_divisor(len(text.tokens), text.ended, options)


def _hypothesis(
    tokens: NDArray[np.int64],
    *,
    total: float,
    log_probability: float,
    coverage: float,
    ended: bool,
    options: Search,
) -> Hypothesis:
    """Build a text with its score."""
    return Hypothesis(
        tokens=tuple(tokens.tolist()),
        ended=ended,
        log_probability=float(log_probability),
        score=float(total) / length_divisor(len(tokens), ended, options) + float(coverage),
    )


def no_source() -> UserError:
    """Return what is said where coverage counts and there is nothing to cover."""
    return UserError("coverage_penalty needs a model that attends to a source; this one does not")


def _coverage(state: object, count: int, options: Search) -> NDArray[np.float64]:
    """Return the coverage penalty of each hypothesis, 0 or below, whatever the next token is.

    Wu et al. 2016, equation 14, with the attention that the next token is chosen by.

    Shape:
        (N,).
    """
    if not options.coverage_penalty:
        return np.zeros(count)
    if not isinstance(state, Covering):
        raise no_source()
    covered = state.coverage.double()  # (N, E)
    tiny = torch.finfo(torch.float32).tiny  # attention may have underflowed
    penalty = covered.clamp(tiny, 1).log().sum(1) * options.coverage_penalty
    penalties: NDArray[np.float64] = penalty.cpu().numpy()
    return penalties
