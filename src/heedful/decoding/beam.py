"""Beam search; a beam of 1 is greedy search.

Shapes: B items, A unfinished items, N active hypotheses of these, T tokens generated so far, R
ranked candidates per item.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.cancellation import check_cancelled
from heedful.decoding import candidates
from heedful.decoding.candidates import NextTokens
from heedful.decoding.options import (
    HasCoverage,
    Hypothesis,
    ScoreFunction,
    Search,
    State,
    length_divisor,
)
from heedful.errors import UserError


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Active:
    """The active hypotheses, grouped by item."""

    items: NDArray[np.int64]
    """(N,) the item of each hypothesis."""
    tokens: NDArray[np.int64]
    """(N, T)."""
    totals: NDArray[np.float64]
    """(N,) the sums of penalised log-probabilities, which rank the hypotheses."""
    log_probabilities: NDArray[np.float64]
    """(N,)."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Ranked:
    """Candidates: continuations of each item's hypotheses by one token, best first."""

    items: NDArray[np.int64]
    """(A,)."""
    parents: NDArray[np.int64]
    """(A, R) the index of the hypothesis that a candidate continues."""
    token_ids: NDArray[np.int64]
    """(A, R) the next token."""
    totals: NDArray[np.float64]
    """(A, R) the sums that rank the candidates; -inf for no candidate."""
    log_probabilities: NDArray[np.float64]
    """(A, R)."""


def beam_search(
    step: ScoreFunction[State],
    state: State,
    first: Tensor,
    options: Search,
    forced: NDArray[np.int64],
    prompts: NDArray[np.int64] | None,
) -> list[list[Hypothesis]]:
    """Search all items in one batch.

    A hypothesis that ends inside the beam leaves it, and the next best one takes its place. An item
    is done when ``num_beams`` hypotheses have ended, unless ``early_stopping`` is false, or when
    its result can no longer change.

    Args:
        step: returns the scores of the next tokens.
        state: the model state of each item before its first token.
        first: the start token of each item. Shape (B,).
        options: the search options.
        forced: see ``candidates.forced_tokens``.
        prompts: see ``candidates.penalise``. Shape (B, P).
    """
    count = len(first)
    zeros = np.zeros(count)
    active = _Active(
        items=np.arange(count),
        tokens=np.empty((count, 0), dtype=np.int64),
        totals=zeros,
        log_probabilities=zeros,
    )
    finished: list[list[Hypothesis]] = [[] for _ in range(count)]
    margins = np.full(count, np.inf)
    tokens = first
    for length in range(1, options.max_new_tokens + 1):
        check_cancelled()
        scores, state = step(tokens, state)
        forced_ids = forced[active.items, min(length, forced.shape[1]) - 1]
        # One more than the beam width, in case one candidate is the end token.
        top = candidates.best_next_tokens(
            *(scores, active.tokens, forced_ids, options, options.num_beams + 1),
            None if prompts is None else prompts[active.items],
        )
        ranked = _rank(active, top, options)
        coverage = _coverage(state, len(active.items), options)
        needs_more = np.array([_needs_more(finished[item], options) for item in ranked.items])
        continues = _take_finished(ranked, active, coverage, finished, options)
        lead = _lead(ranked, continues, finished, length, options)
        margins[ranked.items] = np.minimum(margins[ranked.items], _margins(ranked, lead, options))
        keep = continues & ~(lead >= 0)[:, None]
        if length == options.max_new_tokens:
            in_beam = np.arange(continues.shape[1]) < options.num_beams
            truncated = continues & in_beam & needs_more[:, None]
            _finish(ranked, truncated, active, coverage, finished, options)
            break
        rows = ranked.parents[keep]
        if not len(rows):
            break
        if not np.array_equal(rows, np.arange(len(active.items))):
            state = state.select(torch.from_numpy(rows).to(first.device))
        token_ids = ranked.token_ids[keep]
        active = _Active(
            items=active.items[rows],
            tokens=np.concatenate([active.tokens[rows], token_ids[:, None]], 1),
            totals=ranked.totals[keep],
            log_probabilities=ranked.log_probabilities[keep],
        )
        tokens = torch.from_numpy(token_ids).to(first.device)
    return [
        best_hypotheses(texts, margin, options)
        for texts, margin in zip(finished, margins, strict=True)
    ]


def _rank(active: _Active, top: NextTokens, options: Search) -> _Ranked:
    """Rank the candidates of each item. In a tie, the better parent hypothesis comes first."""
    items, starts, sizes = np.unique(active.items, return_index=True, return_counts=True)
    num_candidates = top.token_ids.shape[1]
    # (A, most hypotheses of an item). Missing hypotheses of the other items stay at -inf.
    rows = starts[:, None] + np.arange(sizes.max())
    exists = np.arange(sizes.max()) < sizes[:, None]
    rows = np.where(exists, rows, 0)
    totals = active.totals[:, None] + top.penalised  # (N, M)
    grid = np.where(exists[..., None], totals[rows], -np.inf).reshape(len(items), -1)
    # Each hypothesis can end only once, so 2 * num_beams candidates hold all that continue or end
    # inside the beam. One more candidate is the best one outside, for the margin.
    order = np.argsort(-grid, axis=1, kind="stable")[:, : 2 * options.num_beams + 1]  # (A, R)
    parents = np.take_along_axis(rows, order // num_candidates, 1)
    ranks = order % num_candidates
    return _Ranked(
        items=items,
        parents=parents,
        token_ids=top.token_ids[parents, ranks],
        totals=np.take_along_axis(grid, order, 1),
        log_probabilities=active.log_probabilities[parents] + top.log_probabilities[parents, ranks],
    )


def _take_finished(
    ranked: _Ranked,
    active: _Active,
    coverage: NDArray[np.float64],
    finished: Sequence[list[Hypothesis]],
    options: Search,
) -> NDArray[np.bool_]:
    """Add hypotheses that end inside the beam to the finished ones; return the mask of the others.

    The mask is True for the candidates that continue.

    Shape:
        (A, R).
    """
    allowed = ranked.totals > -np.inf
    ends = ranked.token_ids == options.eos_token_id
    continues: NDArray[np.bool_] = allowed & ~ends
    continues &= continues.cumsum(1) <= options.num_beams
    in_beam = np.arange(ranked.token_ids.shape[1]) < options.num_beams
    _finish(ranked, allowed & ends & in_beam, active, coverage, finished, options)
    # If every next token is forbidden, the current hypotheses are the result.
    for item in ranked.items[~continues.any(1)]:
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
    return continues


def _needs_more(finished: Sequence[Hypothesis], options: Search) -> bool:
    """Return whether an item takes further finished hypotheses."""
    return not options.early_stopping or len(finished) < options.num_beams


def _finish(
    ranked: _Ranked,
    mask: NDArray[np.bool_],
    active: _Active,
    coverage: NDArray[np.float64],
    finished: Sequence[list[Hypothesis]],
    options: Search,
) -> None:
    """Add the selected candidates to the finished hypotheses. Shape of the mask: (A, R)."""
    for row, rank in zip(*np.nonzero(mask), strict=True):
        text = _extended(ranked, active, coverage, row, rank, options)
        finished[ranked.items[row]].append(text)


def _extended(
    ranked: _Ranked,
    active: _Active,
    coverage: NDArray[np.float64],
    row: int | np.integer,
    rank: int | np.integer,
    options: Search,
) -> Hypothesis:
    """Return a candidate as a hypothesis."""
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
    continues: NDArray[np.bool_],
    finished: Sequence[list[Hypothesis]],
    length: int,
    options: Search,
) -> NDArray[np.float64]:
    """Return the lead of each item's result over any later one; if negative, the search goes on.

    Shape:
        (A,).
    """
    best = np.where(continues, ranked.totals, -np.inf).max(1)  # (A,)
    return np.array(
        [
            _lead_of_finished(finished[item], float(total), length, options)
            if _needs_more(finished[item], options)
            else np.inf
            for item, total in zip(ranked.items, best, strict=True)
        ]
    )


def _lead_of_finished(
    finished: Sequence[Hypothesis], best: float, length: int, options: Search
) -> float:
    """Return the lead of the finished hypotheses over the best that an active one can become.

    Each further token adds a log-probability times a positive number, so a total only falls. The
    length penalty favours the longest hypothesis or, if its power is negative, the shortest. The
    coverage penalty is at most 0. So the current best total with the most favourable length is an
    upper bound of all later scores. In a tie the earlier hypothesis wins.

    Without ``early_stopping``, once ``num_beams`` hypotheses are finished, the current length
    counts, as in the reference. A longer hypothesis may then score more than this.

    Args:
        finished: the finished hypotheses.
        best: the highest total of the active hypotheses.
        length: the number of tokens of the active hypotheses.
        options: the search options.

    Returns:
        The lead as a difference of totals; -inf if too few hypotheses are finished.
    """
    is_full = len(finished) >= options.num_beams
    needed = options.num_beams if is_full else options.num_return_sequences
    if len(finished) < needed:
        return -math.inf
    worst = sorted(finished, key=lambda text: -text.score)[needed - 1]
    if is_full:
        best_length = length
    else:
        best_length = options.max_new_tokens if options.length_penalty > 0 else length + 1
    divisor = math.pow(best_length, options.length_penalty)
    # The smaller divisor gives the smaller, safer difference of totals.
    return (worst.score - best / divisor) * min(divisor, _divisor(worst, options))


def _margins(ranked: _Ranked, lead: NDArray[np.float64], options: Search) -> NDArray[np.float64]:
    """Return the smallest difference of totals that decided anything for each item in this step.

    The decisions are which candidates are inside the beam, which unfinished candidates are kept,
    and whether the result is final.

    Shape:
        (A,).
    """
    width = options.num_beams
    all_totals = ranked.totals
    ends = ranked.token_ids == options.eos_token_id
    unfinished = -np.sort(-np.where(ends, -np.inf, all_totals), axis=1)
    margins = np.where(lead >= 0, lead, np.inf)
    for totals in (all_totals, unfinished):
        if totals.shape[1] > width:
            inside, outside = totals[:, width - 1], totals[:, width]
            exists = outside > -np.inf
            gap = np.subtract(inside, outside, out=np.full(len(all_totals), np.inf), where=exists)
            margins = np.minimum(margins, gap)
    return margins


def best_hypotheses(
    finished: Sequence[Hypothesis], margin: float, options: Search
) -> list[Hypothesis]:
    """Return the best hypotheses of an item, best first, with the smallest margin of its search."""
    ranked = sorted(finished, key=lambda text: -text.score)
    num_results = options.num_return_sequences
    for better, worse in pairwise(ranked[: num_results + 1]):
        divisor = min(_divisor(better, options), _divisor(worse, options))
        margin = min(margin, (better.score - worse.score) * divisor)
    return [replace(text, margin=float(margin)) for text in ranked[:num_results]]


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
    """Build a hypothesis with its score."""
    return Hypothesis(
        tokens=tuple(tokens.tolist()),
        ended=ended,
        log_probability=float(log_probability),
        score=float(total) / length_divisor(len(tokens), ended, options) + float(coverage),
    )


def coverage_without_source_error() -> UserError:
    """Return the error for a coverage penalty with a model that has no source."""
    return UserError("coverage_penalty needs a model that attends to a source; this one does not")


def _coverage(state: object, count: int, options: Search) -> NDArray[np.float64]:
    """Return the coverage penalty of each hypothesis, at most 0; independent of the next token.

    Wu et al. 2016, equation 14. Includes the attention of the step that scores the next token.

    Shape:
        (N,).
    """
    if not options.coverage_penalty:
        return np.zeros(count)
    if not isinstance(state, HasCoverage):
        raise coverage_without_source_error()
    covered = state.coverage.double()  # (N, E)
    tiny = torch.finfo(torch.float32).tiny  # attention may have underflowed
    penalty = covered.clamp(tiny, 1).log().sum(1) * options.coverage_penalty
    penalties: NDArray[np.float64] = penalty.cpu().numpy()
    return penalties
