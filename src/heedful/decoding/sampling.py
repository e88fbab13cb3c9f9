"""Sampling of text, token by token.

Uses the Gumbel-max trick (Gumbel 1954; Maddison et al. 2014, section 2): add Gumbel noise to the
log-probability of each token and take the token with the highest sum. This samples tokens by their
probability. So rounding changes a sample only if the two highest sums are almost equal.

Shapes: B items, N active texts, V vocabulary.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from heedful.cancellation import check_cancelled
from heedful.decoding import candidates
from heedful.decoding.options import (
    Hypothesis,
    ScoreFunction,
    Search,
    State,
    check_whole,
    length_divisor,
)
from heedful.errors import UserError


def checked_seeds(item_seeds: Sequence[int] | None, num_items: int) -> Sequence[int]:
    """Return the seed of each item: 0, 1, 2, ... by default.

    Raises:
        UserError: there are more or fewer seeds than items, or one is no whole number from 0.
    """
    if item_seeds is None:
        return range(num_items)
    if len(item_seeds) != num_items:
        raise UserError(f"there are {len(item_seeds)} item_seeds for {num_items} items")
    for seed in item_seeds:
        check_whole("a seed in item_seeds", seed)
        if seed < 0:
            raise UserError(f"a seed in item_seeds is {seed}; it must be 0 or above")
    return item_seeds


def sample(
    step: ScoreFunction[State],
    state: State,
    first: Tensor,
    options: Search,
    forced: NDArray[np.int64],
    item_seeds: Sequence[int],
    prompts: NDArray[np.int64] | None,
) -> list[list[Hypothesis]]:
    """Sample ``num_return_sequences`` texts for each item.

    Args:
        step: returns the scores of the next tokens.
        state: the model state of each item before its first token.
        first: the start token of each item. Shape (B,).
        options: the search options.
        forced: see ``candidates.forced_tokens``.
        item_seeds: see ``search``.
        prompts: see ``candidates.penalise``. Shape (B, P).
    """
    num_samples, max_length = options.num_return_sequences, options.max_new_tokens
    # One generator per text, so that its samples do not depend on the rest of the batch.
    generators = [
        np.random.default_rng((options.seed, item_seed, copy))
        for item_seed in item_seeds
        for copy in range(num_samples)
    ]
    item_of_text = np.repeat(np.arange(len(first)), num_samples)
    texts = np.full((len(item_of_text), max_length), -1)  # all texts, including finished ones
    totals, margins = np.zeros(len(item_of_text)), np.full(len(item_of_text), np.inf)
    lengths = np.zeros(len(item_of_text), dtype=np.int64)
    ended = np.zeros(len(item_of_text), dtype=bool)
    active = np.arange(len(item_of_text))
    rows, tokens = item_of_text, first
    for length in range(1, max_length + 1):
        check_cancelled()
        if not np.array_equal(rows, np.arange(len(tokens))):
            selected = torch.from_numpy(rows).to(first.device)
            state, tokens = state.select(selected), tokens[selected]
        scores, state = step(tokens, state)
        token_ids, log_probabilities, gaps = _sample_next(
            scores,
            texts[active, : length - 1],
            forced[item_of_text[active], min(length, forced.shape[1]) - 1],
            [generators[text] for text in active],
            options,
            None if prompts is None else prompts[item_of_text[active]],
        )
        margins[active] = np.minimum(margins[active], gaps)
        allowed = log_probabilities > -np.inf  # if every token is forbidden, the text ends
        totals[active] += np.where(allowed, log_probabilities, 0)
        ended[active] = allowed & (token_ids == options.eos_token_id)
        continues = allowed & ~ended[active]
        texts[active[continues], length - 1] = token_ids[continues]
        lengths[active[continues]] = length
        rows, active = np.flatnonzero(continues), active[continues]
        tokens = torch.from_numpy(token_ids).to(first.device)
        if not len(active):
            break
    drawn = [
        Hypothesis(
            tokens=tuple(texts[text, : lengths[text]].tolist()),
            ended=bool(ended[text]),
            log_probability=float(totals[text]),
            score=float(totals[text]) / length_divisor(lengths[text], ended[text], options),
            margin=float(margins[text]),
        )
        for text in range(len(item_of_text))
    ]
    return [drawn[start : start + num_samples] for start in range(0, len(drawn), num_samples)]


def _sample_next(
    scores: Tensor,
    past: NDArray[np.int64],
    forced: NDArray[np.int64],
    generators: "Sequence[np.random.Generator]",
    options: Search,
    prompts: NDArray[np.int64] | None,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Sample the next token of each text.

    Args:
        scores: scores of the next tokens, logits or log-probabilities. Shape (N, V).
        past: the tokens so far. Shape (N, T).
        forced: the forced next token, or -1. Shape (N,).
        generators: one generator per text.
        options: the search options.
        prompts: see ``candidates.penalise``. Shape (N, P).

    Returns:
        The tokens; their log-probabilities, -inf if every token is forbidden; and their margins
        over the runner-up, as differences of log-probabilities. Each of shape (N,).
    """
    plain, penalised = candidates.penalise(scores, past, options, prompts)
    noise = np.stack(
        [generator.standard_exponential(scores.shape[1]) for generator in generators]
    )  # (N, V)
    drawn, gaps = _gumbel_max(penalised, torch.from_numpy(noise).to(scores.device), options)
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


def _gumbel_max(scores: Tensor, noise: Tensor, options: Search) -> tuple[Tensor, Tensor]:
    """Sample a token for each row after top-k and top-p filtering.

    Args:
        scores: log-probabilities. Shape (N, V).
        noise: exponentially distributed. The negative of its logarithm is Gumbel noise. Shape
            (N, V).
        options: the search options.

    Returns:
        The tokens, and the margin of each over the runner-up, as a difference of log-probabilities.
        Shapes (N,), int64, and (N,).
    """
    scores, gaps = _filter(scores.double() / options.temperature, options)
    sums, token_ids = (scores - noise.log()).topk(min(2, scores.shape[1]))
    first = token_ids[:, 0]
    return first, gaps.minimum(_lead(sums, torch.zeros_like(first))) * options.temperature


def _filter(scores: Tensor, options: Search) -> tuple[Tensor, Tensor]:
    """Apply top-k and top-p filtering.

    Args:
        scores: log-probabilities divided by the temperature. Shape (N, V).
        options: the search options, with ``top_k`` and ``top_p``.

    Returns:
        The scores, -inf for the filtered tokens, and the margin of the filter: the difference of
        scores between kept and filtered tokens. Shapes (N, V) and (N,).
    """
    num_kept = min(options.top_k or scores.shape[1], scores.shape[1])
    if num_kept == scores.shape[1] and options.top_p == 1:
        return scores, torch.full_like(scores[:, 0], math.inf)
    top, token_ids = scores.topk(min(num_kept + 1, scores.shape[1]))  # descending
    probabilities = top[:, :num_kept].softmax(-1)
    cumulative = (probabilities.cumsum(-1) - probabilities).clamp(max=1)  # (N, top_k)
    inside = cumulative < options.top_p  # the first tokens; none if every token is forbidden
    gaps = _lead(top, inside.sum(-1).clamp(min=1) - 1)
    if options.top_p < 1:
        # Distance of top_p from the cumulative probability before each token, as a difference of
        # scores between the tokens before it and the others.
        bound = math.log(options.top_p / (1 - options.top_p))
        gaps = gaps.minimum((cumulative.logit() - bound).abs().amin(-1))
    likeliest = top[:, :num_kept].masked_fill(~inside, -math.inf)
    return torch.full_like(scores, -math.inf).scatter(1, token_ids[:, :num_kept], likeliest), gaps


def _lead(scores: Tensor, ranks: Tensor) -> Tensor:
    """Return the lead of the score at a rank over the next one; inf if the next is forbidden.

    Args:
        scores: in descending order. Shape (N, M).
        ranks: ranks, from 0. Shape (N,).
    """
    scores = F.pad(scores, (0, 1), value=-math.inf)
    first, second = (scores.gather(1, rank[:, None])[:, 0] for rank in (ranks, ranks + 1))
    return torch.where(second > -math.inf, first - second, math.inf)
