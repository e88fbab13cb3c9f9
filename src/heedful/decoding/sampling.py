"""Drawing texts token by token.

Shapes: B items, N texts that go on, V vocabulary.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.decoding import candidates
from heedful.decoding.options import Hypothesis, Search, State, Step


def sample(
    step: Step[State],
    state: State,
    first: Tensor,
    options: Search,
    forced: NDArray[np.int64],
    numbers: Sequence[int],
) -> list[list[Hypothesis]]:
    """Draw ``num_return_sequences`` texts for each item.

    Args:
        step: scores the next tokens.
        state: what is kept of each item before its first token.
        first: the token that each item starts with. Shape (B,).
        options: how to look.
        forced: see ``candidates.forced_words``.
        numbers: of each item among all of the user's.
    """
    each, most = options.num_return_sequences, options.max_new_tokens
    # Drawn up front, so that they do not depend on what else is in the batch.
    draws = np.concatenate(
        [np.random.default_rng((options.seed, number)).random((each, most)) for number in numbers]
    )
    owners = np.repeat(np.arange(len(first)), each)
    written = np.full((len(owners), most), -1)  # of all texts, those that have ended too
    totals = np.zeros(len(owners))
    sizes, ended = np.zeros(len(owners), dtype=np.int64), np.zeros(len(owners), dtype=bool)
    active = np.arange(len(owners))
    rows = owners
    tokens = first
    for length in range(1, most + 1):
        if not np.array_equal(rows, np.arange(len(tokens))):
            places = torch.from_numpy(rows).to(first.device)
            state, tokens = state.select(places), tokens[places]
        scores, state = step(tokens, state)
        must = forced[owners[active], min(length, forced.shape[1]) - 1]
        words, values = _next(
            scores, written[active, : length - 1], must, draws[active, length - 1], options
        )
        possible = values > -np.inf  # else every token is ruled out, and what there is must do
        totals[active] += np.where(possible, values, 0)
        ended[active] = possible & (words == options.eos_token_id)
        goes = possible & ~ended[active]
        written[active[goes], length - 1] = words[goes]
        sizes[active[goes]] = length
        rows, active = np.flatnonzero(goes), active[goes]
        tokens = torch.from_numpy(words).to(first.device)
        if not len(active):
            break
    drawn = [
        Hypothesis(
            tokens=tuple(written[number, : sizes[number]].tolist()),
            ended=bool(ended[number]),
            log_probability=float(totals[number]),
            score=float(totals[number])
            / math.pow(max(sizes[number] + ended[number], 1), options.length_penalty),
        )
        for number in range(len(owners))
    ]
    return [drawn[start : start + each] for start in range(0, len(drawn), each)]


def _next(
    scores: Tensor,
    written: NDArray[np.int64],
    forced: NDArray[np.int64],
    draws: NDArray[np.float64],
    options: Search,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Draw the next token of each text; return it and its log-probability, -inf if there is none.

    Args:
        scores: of each next token, before or after the softmax. Shape (N, V).
        written: the tokens so far. Shape (N, T).
        forced: the token that must come, or -1. Shape (N,).
        draws: numbers from 0 to below 1. Shape (N,).
        options: how to look.

    Returns:
        Shapes (N,) and (N,).
    """
    plain, ranked = candidates.weighed(scores, written, options)
    chosen = _draw(ranked, torch.from_numpy(draws), options)[:, None]  # (N, 1)
    values = plain.gather(1, chosen).masked_fill(ranked.gather(1, chosen) == -math.inf, -math.inf)
    words = chosen.squeeze(1).cpu().numpy()
    log_probabilities = values.squeeze(1).double().cpu().numpy()
    rows = np.flatnonzero(forced >= 0)
    if len(rows):
        words[rows] = forced[rows]
        log_probabilities[rows] = candidates.forced_log_probabilities(scores, rows, forced)
    return words, log_probabilities


def _draw(scores: Tensor, draws: Tensor, options: Search) -> Tensor:
    """Draw a token each: the one in whose share of the likeliest tokens' probability a draw falls.

    Args:
        scores: log-probabilities. Shape (N, V).
        draws: numbers from 0 to below 1. Shape (N,), on the CPU.
        options: how to look.

    Returns:
        Shape (N,), int64.
    """
    kept = min(options.top_k or scores.shape[1], scores.shape[1])
    values, words = (scores.double() / options.temperature).topk(kept)  # (N, top_k), falling
    shares = values.softmax(-1)
    before = shares.cumsum(-1) - shares  # (N, top_k)
    shares = shares * (before < options.top_p)
    ends = shares.cumsum(-1)
    wanted = draws.to(ends)[:, None] * ends[:, -1:]
    place = (ends <= wanted).sum(-1, keepdim=True)  # (N, 1)
    # Rounding must not reach past the last token that has a share. If none has, any will do.
    last = (shares > 0).sum(-1, keepdim=True).clamp(min=1) - 1
    return words.gather(1, place.minimum(last)).squeeze(1)
