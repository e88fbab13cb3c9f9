"""Drawing texts token by token.

Each token has a random number added to its log-probability, and the greatest sum comes: so tokens
come by their probability (Gumbel 1954; Maddison et al. 2014, section 2). What rounding does to the
log-probabilities then changes a draw only where the two greatest sums are as close as that.

Shapes: B items, N texts that go on, V vocabulary.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
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
    # One of each text, so that its draws do not depend on what else is in the batch.
    draws = [
        np.random.default_rng((options.seed, number, copy))
        for number in numbers
        for copy in range(each)
    ]
    owners = np.repeat(np.arange(len(first)), each)
    written = np.full((len(owners), most), -1)  # of all texts, those that have ended too
    totals, margins = np.zeros(len(owners)), np.full(len(owners), np.inf)
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
        here = [draws[text] for text in active]
        words, values, clear = _next(scores, written[active, : length - 1], must, here, options)
        margins[active] = np.minimum(margins[active], clear)
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
            margin=float(margins[number]),
        )
        for number in range(len(owners))
    ]
    return [drawn[start : start + each] for start in range(0, len(drawn), each)]


def _next(
    scores: Tensor,
    written: NDArray[np.int64],
    forced: NDArray[np.int64],
    draws: Sequence[np.random.Generator],
    options: Search,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Draw the next token of each text.

    Args:
        scores: of each next token, before or after the softmax. Shape (N, V).
        written: the tokens so far. Shape (N, T).
        forced: the token that must come, or -1. Shape (N,).
        draws: of each text.
        options: how to look.

    Returns:
        The tokens; their log-probabilities, -inf where there is none; and by which difference of
        log-probabilities it was drawn and not another. Each of shape (N,).
    """
    plain, ranked = candidates.weighed(scores, written, options)
    noise = np.stack([draw.standard_exponential(scores.shape[1]) for draw in draws])  # (N, V)
    chosen, clear = _draw(ranked, torch.from_numpy(noise).to(scores.device), options)
    chosen = chosen[:, None]  # (N, 1)
    values = plain.gather(1, chosen).masked_fill(ranked.gather(1, chosen) == -math.inf, -math.inf)
    words = chosen.squeeze(1).cpu().numpy()
    log_probabilities = values.squeeze(1).double().cpu().numpy()
    margins = clear.cpu().numpy()
    rows = np.flatnonzero(forced >= 0)
    if len(rows):
        words[rows], margins[rows] = forced[rows], np.inf
        log_probabilities[rows] = candidates.forced_log_probabilities(scores, rows, forced)
    candidates.check_scores(log_probabilities)
    return words, log_probabilities, margins


def _draw(scores: Tensor, noise: Tensor, options: Search) -> tuple[Tensor, Tensor]:
    """Draw a token each among those that are likely enough.

    Args:
        scores: log-probabilities. Shape (N, V).
        noise: drawn from the exponential distribution; the negative of its logarithm is Gumbel's.
            Shape (N, V).
        options: how to look.

    Returns:
        The tokens, and by which difference of log-probabilities each was drawn and not another.
        Shapes (N,), int64, and (N,).
    """
    scores, clear = _likeliest(scores.double() / options.temperature, options)
    values, words = (scores - noise.log()).topk(min(2, scores.shape[1]))
    first = words[:, 0]
    return first, clear.minimum(_lead(values, torch.zeros_like(first))) * options.temperature


def _likeliest(scores: Tensor, options: Search) -> tuple[Tensor, Tensor]:
    """Rule out all tokens but the likeliest that are to be drawn among.

    Args:
        scores: log-probabilities divided by the temperature. Shape (N, V).
        options: how many, and how probable together.

    Returns:
        The scores, -inf for the others, and by which difference of scores those are in and the
        others out. Shapes (N, V) and (N,).
    """
    kept = min(options.top_k or scores.shape[1], scores.shape[1])
    if kept == scores.shape[1] and options.top_p == 1:
        return scores, torch.full_like(scores[:, 0], math.inf)
    values, words = scores.topk(min(kept + 1, scores.shape[1]))  # falling
    shares = values[:, :kept].softmax(-1)
    before = (shares.cumsum(-1) - shares).clamp(max=1)  # (N, top_k)
    inside = before < options.top_p  # the first ones; none where every token is ruled out
    clear = _lead(values, inside.sum(-1).clamp(min=1) - 1)
    if options.top_p < 1:
        # How near the bound is to the share of what stands before a token, as the difference of
        # scores between all that does and all that does not.
        bound = math.log(options.top_p / (1 - options.top_p))
        clear = clear.minimum((before.logit() - bound).abs().amin(-1))
    likeliest = values[:, :kept].masked_fill(~inside, -math.inf)
    return torch.full_like(scores, -math.inf).scatter(1, words[:, :kept], likeliest), clear


def _lead(values: Tensor, places: Tensor) -> Tensor:
    """Return by how much the value at a place is above the next one; inf where none may come.

    Args:
        values: falling. Shape (N, M).
        places: shape (N,).
    """
    values = F.pad(values, (0, 1), value=-math.inf)
    first, second = (values.gather(1, place[:, None])[:, 0] for place in (places, places + 1))
    return torch.where(second > -math.inf, first - second, math.inf)
