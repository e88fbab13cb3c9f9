"""Beam search; of a beam of 1, the likeliest token each time.

Shapes: B items, A of them that are not settled, N their hypotheses that go on, T tokens of each so
far, R ranked candidates of an item.
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
from heedful.decoding.candidates import Candidates
from heedful.decoding.options import Covering, Hypothesis, Search, State, Step
from heedful.errors import UserError


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Partial:
    """The hypotheses that go on, those of an item side by side."""

    items: NDArray[np.int64]
    """(N,) the item of each."""
    tokens: NDArray[np.int64]
    """(N, T)."""
    totals: NDArray[np.float64]
    """(N,) what they are ranked by."""
    log_probabilities: NDArray[np.float64]
    """(N,)."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Ranked:
    """Continuations of each item's hypotheses, best first."""

    items: NDArray[np.int64]
    """(A,)."""
    parents: NDArray[np.int64]
    """(A, R) which of the N hypotheses each continues."""
    words: NDArray[np.int64]
    """(A, R) by which token."""
    totals: NDArray[np.float64]
    """(A, R) what they are ranked by; -inf for none."""
    log_probabilities: NDArray[np.float64]
    """(A, R)."""


def beam_search(
    step: Step[State],
    state: State,
    first: Tensor,
    options: Search,
    forced: NDArray[np.int64],
) -> list[list[Hypothesis]]:
    """Search all items side by side.

    An ending that ranks inside the beam is taken out, and its place filled with the next best. An
    item is settled when as many have ended as the beam is wide, or nothing can change the result.

    Args:
        step: scores the next tokens.
        state: what is kept of each item before its first token.
        first: the token that each item starts with. Shape (B,).
        options: how to look.
        forced: see ``candidates.forced_words``.
    """
    count = len(first)
    nothing = np.zeros(count)
    going = _Partial(
        items=np.arange(count),
        tokens=np.empty((count, 0), dtype=np.int64),
        totals=nothing,
        log_probabilities=nothing,
    )
    found: list[list[Hypothesis]] = [[] for _ in range(count)]
    margins = np.full(count, np.inf)
    tokens = first
    for length in range(1, options.max_new_tokens + 1):
        scores, state = step(tokens, state)
        must = forced[going.items, min(length, forced.shape[1]) - 1]
        # One more than the beam is wide, in case one of them is the ending.
        top = candidates.best(scores, going.tokens, must, options, options.num_beams + 1)
        ranked = _rank(going, top, options)
        coverage = _coverage(state, len(going.items), options)
        goes = _take_endings(ranked, going, coverage, found, options)
        lead = _lead(ranked, goes, found, length, options)
        margins[ranked.items] = np.minimum(margins[ranked.items], _margins(ranked, lead, options))
        keep = goes & ~(lead >= 0)[:, None]
        if length == options.max_new_tokens:
            _close(ranked, goes, going, coverage, found, options)
            break
        rows = ranked.parents[keep]
        if not len(rows):
            break
        if not np.array_equal(rows, np.arange(len(going.items))):
            state = state.select(torch.from_numpy(rows).to(first.device))
        words = ranked.words[keep]
        going = _Partial(
            items=going.items[rows],
            tokens=np.concatenate([going.tokens[rows], words[:, None]], 1),
            totals=ranked.totals[keep],
            log_probabilities=ranked.log_probabilities[keep],
        )
        tokens = torch.from_numpy(words).to(first.device)
    return [_best(texts, margin, options) for texts, margin in zip(found, margins, strict=True)]


def _rank(going: _Partial, top: Candidates, options: Search) -> _Ranked:
    """Rank the candidates of each item; of equal ones, those of the better hypothesis first."""
    items, starts, sizes = np.unique(going.items, return_index=True, return_counts=True)
    each = top.words.shape[1]
    # (A, hypotheses of the fullest item); what an item has less is left at -inf.
    rows = starts[:, None] + np.arange(sizes.max())
    there = np.arange(sizes.max()) < sizes[:, None]
    rows = np.where(there, rows, 0)
    totals = going.totals[:, None] + top.values  # (N, M)
    grid = np.where(there[..., None], totals[rows], -np.inf).reshape(len(items), -1)
    # Each hypothesis can end once, so no more than these go on or end inside the beam; and one that
    # just does not.
    order = np.argsort(-grid, axis=1, kind="stable")[:, : 2 * options.num_beams + 1]  # (A, R)
    parents = np.take_along_axis(rows, order // each, 1)
    places = order % each
    return _Ranked(
        items=items,
        parents=parents,
        words=top.words[parents, places],
        totals=np.take_along_axis(grid, order, 1),
        log_probabilities=going.log_probabilities[parents] + top.log_probabilities[parents, places],
    )


def _take_endings(
    ranked: _Ranked,
    going: _Partial,
    coverage: NDArray[np.float64],
    found: Sequence[list[Hypothesis]],
    options: Search,
) -> NDArray[np.bool_]:
    """Move what ends inside the beam to what was found; return which candidates go on.

    Shape:
        (A, R).
    """
    possible = ranked.totals > -np.inf
    ends = ranked.words == options.eos_token_id
    goes: NDArray[np.bool_] = possible & ~ends
    goes &= goes.cumsum(1) <= options.num_beams
    inside = np.arange(ranked.words.shape[1]) < options.num_beams
    for place, rank in zip(*np.nonzero(possible & ends & inside), strict=True):
        parent = ranked.parents[place, rank]
        found[ranked.items[place]].append(
            _hypothesis(
                going.tokens[parent],
                total=ranked.totals[place, rank],
                log_probability=ranked.log_probabilities[place, rank],
                coverage=coverage[parent],
                ended=True,
                options=options,
            )
        )
    # Where every token is ruled out, what there is must do.
    for place in np.flatnonzero(~goes.any(1)):
        item = ranked.items[place]
        if not found[item]:
            found[item].extend(
                _hypothesis(
                    going.tokens[row],
                    total=going.totals[row],
                    log_probability=going.log_probabilities[row],
                    coverage=coverage[row],
                    ended=False,
                    options=options,
                )
                for row in np.flatnonzero(going.items == item)
            )
    return goes


def _close(
    ranked: _Ranked,
    goes: NDArray[np.bool_],
    going: _Partial,
    coverage: NDArray[np.float64],
    found: Sequence[list[Hypothesis]],
    options: Search,
) -> None:
    """Count what has its last token as found, where not enough have ended."""
    for place, item in enumerate(ranked.items):
        if len(found[item]) >= options.num_beams:
            continue
        for rank in np.flatnonzero(goes[place]):
            parent = ranked.parents[place, rank]
            found[item].append(
                _hypothesis(
                    np.append(going.tokens[parent], ranked.words[place, rank]),
                    total=ranked.totals[place, rank],
                    log_probability=ranked.log_probabilities[place, rank],
                    coverage=coverage[parent],
                    ended=False,
                    options=options,
                )
            )


def _lead(
    ranked: _Ranked,
    goes: NDArray[np.bool_],
    found: Sequence[list[Hypothesis]],
    length: int,
    options: Search,
) -> NDArray[np.float64]:
    """Tell how far each item's search is beyond what can change it; below 0 it must go on.

    Shape:
        (A,).
    """
    best = np.where(goes, ranked.totals, -np.inf).max(1)  # (A,)
    return np.array(
        [
            np.inf
            if len(found[item]) >= options.num_beams
            else _lead_of_found(found[item], float(total), length, options)
            for item, total in zip(ranked.items, best, strict=True)
        ]
    )


def _lead_of_found(found: Sequence[Hypothesis], best: float, length: int, options: Search) -> float:
    """Tell by how much what was found is better than whatever those that go on can become.

    Every further token adds a log-probability times a number above 0, so a total only falls. The
    length penalty is kindest to the longest, or, where its power is below 0, to the shortest. The
    coverage penalty is at most 0. Hence no score can pass the best total of now under the kindest
    length, and a tie goes to what was found first.

    Args:
        found: what has ended.
        best: the greatest total of those that go on.
        length: how many tokens these have.
        options: how to look.

    Returns:
        The lead as a difference of totals; -inf where too few have ended.
    """
    if len(found) < options.num_return_sequences:
        return -math.inf
    worst = sorted(found, key=lambda text: text.score)[-options.num_return_sequences]
    longest = options.length_penalty > 0
    kindest = math.pow(options.max_new_tokens if longest else length + 1, options.length_penalty)
    # As a difference of totals it is the smaller, the less a score divides its total by.
    return (worst.score - best / kindest) * min(kindest, _divisor(worst, options))


def _margins(ranked: _Ranked, lead: NDArray[np.float64], options: Search) -> NDArray[np.float64]:
    """Return the difference by which the closest decision on each item fell as it did.

    That is, which candidates stand inside the beam, which of those that do not end are kept, and
    whether nothing can change the result.

    Shape:
        (A,).
    """
    width = options.num_beams
    whole = ranked.totals
    lasting = -np.sort(-np.where(ranked.words == options.eos_token_id, -np.inf, whole), axis=1)
    margins = np.where(lead >= 0, lead, np.inf)
    for totals in (whole, lasting):
        if totals.shape[1] > width:
            inside, outside = totals[:, width - 1], totals[:, width]
            there = outside > -np.inf
            gap = np.subtract(inside, outside, out=np.full(len(whole), np.inf), where=there)
            margins = np.minimum(margins, gap)
    return margins


def _best(found: Sequence[Hypothesis], margin: float, options: Search) -> list[Hypothesis]:
    """Return the best of what was found, best first, with the smallest margin there was."""
    ranked = sorted(found, key=lambda text: -text.score)
    wanted = options.num_return_sequences
    for better, worse in pairwise(ranked[: wanted + 1]):
        divisor = min(_divisor(better, options), _divisor(worse, options))
        margin = min(margin, (better.score - worse.score) * divisor)
    return [replace(text, margin=float(margin)) for text in ranked[:wanted]]


def _divisor(text: Hypothesis, options: Search) -> float:
    """Return what the total of a text is divided by; the ending token counts in its length."""
    return math.pow(max(len(text.tokens) + text.ended, 1), options.length_penalty)


def _hypothesis(
    tokens: NDArray[np.int64],
    *,
    total: float,
    log_probability: float,
    coverage: float,
    ended: bool,
    options: Search,
) -> Hypothesis:
    """Build what was found."""
    text = Hypothesis(
        tokens=tuple(tokens.tolist()),
        ended=ended,
        log_probability=float(log_probability),
        score=0.0,
    )
    return replace(text, score=float(total) / _divisor(text, options) + float(coverage))


def _coverage(state: object, count: int, options: Search) -> NDArray[np.float64]:
    """Return the coverage penalty of each hypothesis, whatever token comes next: 0 or below.

    Wu et al. 2016, equation 14; the attention with which the next token is chosen is in it.

    Shape:
        (N,).
    """
    if not options.coverage_penalty:
        return np.zeros(count)
    if not isinstance(state, Covering):
        raise UserError(
            "coverage_penalty needs a model that attends to a source; this one does not"
        )
    covered = state.coverage.double()  # (N, E)
    tiny = torch.finfo(torch.float32).tiny  # attention may have underflowed
    penalty = covered.clamp(tiny, 1).log().sum(1) * options.coverage_penalty
    values: NDArray[np.float64] = penalty.cpu().numpy()
    return values
