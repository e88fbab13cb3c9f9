"""Drawing texts token by token.

A random number is added to the log-probability of each token, and the token with the highest sum is
drawn: this draws tokens by their probability (Gumbel 1954; Maddison et al. 2014, section 2). So
rounding changes a draw only if the two highest sums are that close.

Shapes: B items, N active texts, V vocabulary.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from heedful.decoding import candidates
from heedful.decoding.options import Hypothesis, NextScores, Search, State, length_divisor


def sample(
    step: NextScores[State],
    state: State,
    first: Tensor,
    options: Search,
    forced: NDArray[np.int64],
    numbers: Sequence[int],
) -> list[list[Hypothesis]]:
    """Draw ``num_return_sequences`` texts for each item.

    Args:
        step: scores the next tokens.
        state: the model's state for each item before its first token.
        first: the token that each item starts with. Shape (B,).
        options: how to search.
        forced: see ``candidates.forced_tokens``.
        numbers: the number of each item in the user's data.
    """
    each, most = options.num_return_sequences, options.max_new_tokens
    # One for each text, so that its draws do not depend on the rest of the batch.
    generators = [
        np.random.default_rng((options.seed, number, copy))
        for number in numbers
        for copy in range(each)
    ]
    owners = np.repeat(np.arange(len(first)), each)
    texts = np.full((len(owners), most), -1)  # all texts, also those that have ended
    totals, margins = np.zeros(len(owners)), np.full(len(owners), np.inf)
    sizes, ended = np.zeros(len(owners), dtype=np.int64), np.zeros(len(owners), dtype=bool)
    active = np.arange(len(owners))
    rows = owners
    tokens = first
    for length in range(1, most + 1):
        if not np.array_equal(rows, np.arange(len(tokens))):
            selected = torch.from_numpy(rows).to(first.device)
            state, tokens = state.select(selected), tokens[selected]
        scores, state = step(tokens, state)
        token_ids, log_probabilities, gaps = _next(
            scores,
            texts[active, : length - 1],
            forced[owners[active], min(length, forced.shape[1]) - 1],
            [generators[text] for text in active],
            options,
        )
        margins[active] = np.minimum(margins[active], gaps)
        possible = log_probabilities > -np.inf  # else every token is forbidden, and the text ends
        totals[active] += np.where(possible, log_probabilities, 0)
        ended[active] = possible & (token_ids == options.eos_token_id)
        goes_on = possible & ~ended[active]
        texts[active[goes_on], length - 1] = token_ids[goes_on]
        sizes[active[goes_on]] = length
        rows, active = np.flatnonzero(goes_on), active[goes_on]
        tokens = torch.from_numpy(token_ids).to(first.device)
        if not len(active):
            break
    drawn = [
        Hypothesis(
            tokens=tuple(texts[text, : sizes[text]].tolist()),
            ended=bool(ended[text]),
            log_probability=float(totals[text]),
            score=float(totals[text]) / length_divisor(sizes[text], ended[text], options),
            margin=float(margins[text]),
        )
        for text in range(len(owners))
    ]
    return [drawn[start : start + each] for start in range(0, len(drawn), each)]


def _next(
    scores: Tensor,
    past: NDArray[np.int64],
    forced: NDArray[np.int64],
    generators: "Sequence[np.random.Generator]",
    options: Search,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Draw the next token of each text.

    Args:
        scores: of each next token, before or after the softmax. Shape (N, V).
        past: the tokens so far. Shape (N, T).
        forced: the token that must come, or -1. Shape (N,).
        generators: one for each text.
        options: how to search.

    Returns:
        The tokens; their log-probabilities, -inf if every token is forbidden; and the difference of
        log-probabilities by which each was drawn rather than another. Each of shape (N,).
    """
    plain, penalised = candidates.penalise(scores, past, options)
    noise = np.stack([each.standard_exponential(scores.shape[1]) for each in generators])  # (N, V)
    drawn, gaps = _draw(penalised, torch.from_numpy(noise).to(scores.device), options)
    column = drawn[:, None]  # (N, 1)
    forbidden = penalised.gather(1, column) == -math.inf
    chosen = plain.gather(1, column).masked_fill(forbidden, -math.inf)
    token_ids, margins = drawn.cpu().numpy(), gaps.cpu().numpy()
    log_probabilities = chosen.squeeze(1).double().cpu().numpy()
    rows = np.flatnonzero(forced >= 0)
    if len(rows):
        token_ids[rows], margins[rows] = forced[rows], np.inf
        log_probabilities[rows] = candidates.forced_log_probabilities(scores, rows, forced)
    candidates.check_scores(log_probabilities)
    return token_ids, log_probabilities, margins


def _draw(scores: Tensor, noise: Tensor, options: Search) -> tuple[Tensor, Tensor]:
    """Draw a token for each row among those that are likely enough.

    Args:
        scores: log-probabilities. Shape (N, V).
        noise: from the exponential distribution; the negative of its logarithm is Gumbel's. Shape
            (N, V).
        options: how to search.

    Returns:
        The tokens, and the difference of log-probabilities by which each was drawn rather than
        another. Shapes (N,), int64, and (N,).
    """
    scores, gaps = _likeliest(scores.double() / options.temperature, options)
    sums, token_ids = (scores - noise.log()).topk(min(2, scores.shape[1]))
    first = token_ids[:, 0]
    return first, gaps.minimum(_lead(sums, torch.zeros_like(first))) * options.temperature


def _likeliest(scores: Tensor, options: Search) -> tuple[Tensor, Tensor]:
    """Keep only the likeliest tokens.

    Args:
        scores: log-probabilities divided by the temperature. Shape (N, V).
        options: how many tokens to keep, or how probable they must be together.

    Returns:
        The scores, -inf for the other tokens, and the difference of scores between those that are
        kept and the others. Shapes (N, V) and (N,).
    """
    kept = min(options.top_k or scores.shape[1], scores.shape[1])
    if kept == scores.shape[1] and options.top_p == 1:
        return scores, torch.full_like(scores[:, 0], math.inf)
    top, token_ids = scores.topk(min(kept + 1, scores.shape[1]))  # descending
    shares = top[:, :kept].softmax(-1)
    before = (shares.cumsum(-1) - shares).clamp(max=1)  # (N, top_k)
    inside = before < options.top_p  # the first ones; none if every token is forbidden
    gaps = _lead(top, inside.sum(-1).clamp(min=1) - 1)
    if options.top_p < 1:
        # How near top_p is to the total share before a token, as a difference of scores between the
        # tokens before it and the rest.
        bound = math.log(options.top_p / (1 - options.top_p))
        gaps = gaps.minimum((before.logit() - bound).abs().amin(-1))
    likeliest = top[:, :kept].masked_fill(~inside, -math.inf)
    return torch.full_like(scores, -math.inf).scatter(1, token_ids[:, :kept], likeliest), gaps


def _lead(scores: Tensor, ranks: Tensor) -> Tensor:
    """Return by how much the score of a rank exceeds the next one; inf if the next is forbidden.

    Args:
        scores: descending. Shape (N, M).
        ranks: from 0. Shape (N,).
    """
    scores = F.pad(scores, (0, 1), value=-math.inf)
    first, second = (scores.gather(1, rank[:, None])[:, 0] for rank in (ranks, ranks + 1))
    return torch.where(second > -math.inf, first - second, math.inf)
