"""The best next tokens, after penalties and without forbidden tokens.

Shapes: B items, N active hypotheses of all items, T tokens generated so far, P longest prompt,
V vocabulary, M best candidates per hypothesis.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.decoding.options import Search
from heedful.errors import UserError

# Scores in one chunk: they fit into the cache of a core.
_CACHED_SCORES = 2**18
# Group size for a two-stage top-k, and the smallest vocabulary for which that is faster.
_GROUP, _LARGE_VOCABULARY = 64, 2048


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NextTokens:
    """The best next tokens of each hypothesis, best first."""

    token_ids: NDArray[np.int64]
    """(N, M)."""
    penalised: NDArray[np.float64]
    """(N, M) log-probabilities after the repetition penalty, which rank the hypotheses; -inf for no
    candidate."""
    log_probabilities: NDArray[np.float64]
    """(N, M) log-probabilities without the penalty."""


def forced_tokens(
    prefixes: Sequence[Sequence[int]] | None, items: int, options: Search
) -> NDArray[np.int64]:
    """Return the forced first tokens of each item, padded with -1.

    Args:
        prefixes: one prefix per item, or None for no prefixes.
        items: B.
        options: the search options.

    Returns:
        Shape (B, length of the longest prefix + 1).

    Raises:
        UserError: the number of prefixes differs from the number of items, or a prefix is too long
            or contains the end token.
    """
    prefixes = [()] * items if prefixes is None else prefixes
    if len(prefixes) != items:
        raise UserError(f"there are {len(prefixes)} prefixes for {items} items; give one for each")
    forced = np.full((items, max(map(len, prefixes), default=0) + 1), -1)
    for item, prefix in enumerate(prefixes):
        if len(prefix) >= options.max_new_tokens:
            raise UserError(
                f"prefix {item} has {len(prefix)} tokens; max_new_tokens, "
                f"{options.max_new_tokens}, must be larger"
            )
        if options.eos_token_id in prefix or min(prefix, default=0) < 0:
            raise UserError(
                f"prefix {item} is {list(prefix)}; it must have "
                "neither the end token nor ids below 0"
            )
        forced[item, : len(prefix)] = prefix
    return forced


def best_next_tokens(
    scores: Tensor,
    past: NDArray[np.int64],
    forced: NDArray[np.int64],
    options: Search,
    count: int,
    prompts: NDArray[np.int64] | None = None,
) -> NextTokens:
    """Return the best next tokens of each hypothesis.

    Works on chunks of rows, so that scores are read from memory only once. The result of a row does
    not depend on the other rows.

    Args:
        scores: scores of the next tokens, logits or log-probabilities. Shape (N, V).
        past: the tokens so far. Shape (N, T).
        forced: the forced next token, or -1. Shape (N,).
        options: the search options.
        count: M, or less if the vocabulary is smaller.
        prompts: see ``penalise``. Shape (N, P).

    Raises:
        UserError: a score is not a number.
    """
    count = min(count, scores.shape[1])
    size = len(scores) if scores.is_cuda else max(1, _CACHED_SCORES // scores.shape[1])
    chunks: list[tuple[Tensor, Tensor, Tensor]] = []
    for start in range(0, len(scores), size):
        rows = slice(start, start + size)
        chunk_prompts = None if prompts is None else prompts[rows]
        plain, penalised = penalise(scores[rows], past[rows], options, chunk_prompts)
        top_scores, indices = _top(penalised, count)
        chunks.append((indices, top_scores, plain.gather(1, indices)))
    token_ids, ranked, unpenalised = (
        torch.cat(part).cpu().numpy() for part in zip(*chunks, strict=True)
    )
    top = NextTokens(
        token_ids=token_ids,
        penalised=ranked.astype(np.float64),
        log_probabilities=unpenalised.astype(np.float64),
    )
    _force(top, scores, forced)
    check_scores(top.penalised)
    return top


def check_scores(scores: NDArray[np.float64]) -> None:
    """Reject scores that are not numbers.

    Raises:
        UserError: one of them is NaN.
    """
    if np.isnan(scores).any():
        raise nan_score_error()


def nan_score_error() -> UserError:
    """Return the error for a score that is not a number."""
    return UserError("the score of a next token is not a number; the model is damaged")


def check_prefixes(token_ids: NDArray[np.int64], vocabulary: int) -> None:
    """Reject prefix tokens that are not in the vocabulary.

    Raises:
        UserError: a token is not in the vocabulary.
    """
    if token_ids.max(initial=-1) >= vocabulary:
        raise UserError(
            f"a prefix has token {token_ids.max()}; the vocabulary has {vocabulary} tokens"
        )


def check_forbidden(token_ids: Sequence[int], vocabulary: int) -> None:
    """Reject forbidden tokens that are not in the vocabulary.

    Raises:
        UserError: a token is not in the vocabulary.
    """
    if token_ids and not 0 <= min(token_ids) <= max(token_ids) < vocabulary:
        raise UserError(
            f"tokens {sorted(token_ids)} must not be generated; the vocabulary has "
            f"{vocabulary} tokens"
        )


def _force(top: NextTokens, scores: Tensor, forced: NDArray[np.int64]) -> None:
    """Replace all candidates with the forced token and its log-probability."""
    rows = np.flatnonzero(forced >= 0)
    if len(rows):
        plain = forced_log_probabilities(scores, rows, forced)
        for columns in (top.penalised, top.log_probabilities):
            columns[rows] = -np.inf
            columns[rows, 0] = plain
        top.token_ids[rows, 0] = forced[rows]


def forced_log_probabilities(
    scores: Tensor, rows: NDArray[np.int64], forced: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the log-probability of the forced token of each given row.

    Args:
        scores: scores of the next tokens, logits or log-probabilities. Shape (N, V).
        rows: indices of the rows with a forced token. Shape (R,).
        forced: the forced tokens of all rows. Shape (N,).

    Returns:
        Shape (R,).

    Raises:
        UserError: a token is not in the vocabulary.
    """
    token_ids = forced[rows]
    check_prefixes(token_ids, scores.shape[1])
    plain = _log_softmax(scores[torch.from_numpy(rows).to(scores.device)])
    chosen = plain.gather(1, torch.from_numpy(token_ids).to(scores.device)[:, None])
    log_probabilities: NDArray[np.float64] = chosen.squeeze(1).double().cpu().numpy()
    return log_probabilities


def penalise(
    scores: Tensor,
    past: NDArray[np.int64],
    options: Search,
    prompts: NDArray[np.int64] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities without and with penalties; the latter are -inf if forbidden.

    Without a repetition penalty both are the same tensor, so the first is not valid for forbidden
    tokens.

    Args:
        scores: scores of the next tokens, logits or log-probabilities. Shape (N, V).
        past: the tokens so far. Shape (N, T).
        options: the search options.
        prompts: tokens before these that count as repeated, too, after padding of -1. Shape (N, P).

    Returns:
        Shapes (N, V) and (N, V).

    Raises:
        UserError: a forbidden token is not in the vocabulary.
    """
    plain = _log_softmax(scores)
    penalised = plain
    counted = past if prompts is None else np.concatenate([prompts, past], 1)
    if options.repetition_penalty != 1 and counted.shape[1]:
        # Padding stands for the last token, which counts anyway.
        ids = np.where(counted < 0, counted[:, -1:], counted)
        repeated = torch.from_numpy(ids).to(scores.device)
        penalty = options.repetition_penalty
        if options.penalise_logits:
            logits = scores.gather(1, repeated)
            lower = torch.where(logits > 0, logits / penalty, logits * penalty)
            penalised = _log_softmax(scores.scatter(1, repeated, lower))
        else:
            penalised = plain.scatter(1, repeated, penalty * plain.gather(1, repeated))
    forbidden = list(options.never)
    if past.shape[1] < options.min_new_tokens:
        forbidden.append(options.eos_token_id)
    if forbidden:
        check_forbidden(forbidden, scores.shape[1])
        penalised.index_fill_(1, torch.tensor(forbidden, device=scores.device), -math.inf)
    if options.no_repeat_ngram:
        indices = repeated_ngram_tokens(counted, options.no_repeat_ngram)
        cells = tuple(torch.from_numpy(axis).to(scores.device) for axis in indices)
        penalised.index_put_(cells, penalised.new_tensor(-math.inf))
    return plain, penalised


def repeated_ngram_tokens(
    past: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the next tokens that would repeat an n-gram of ``size`` tokens.

    Args:
        past: the tokens so far, after padding of -1. Shape (N, T).
        size: n, at least 1.

    Returns:
        The rows and the token ids.
    """
    length = past.shape[1]
    if length < size:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    ngrams = np.lib.stride_tricks.sliding_window_view(past, size, axis=1)  # (N, T - size + 1, s.)
    newest = past[:, None, length - size + 1 :]  # (N, 1, size - 1)
    rows, starts = np.nonzero((ngrams[..., :-1] == newest).all(-1))
    token_ids = ngrams[rows, starts, -1]
    is_token = token_ids >= 0
    return rows[is_token], token_ids[is_token]


def _log_softmax(scores: Tensor) -> Tensor:
    return scores.log_softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def _top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the highest scores of each row and their token ids, highest first.

    Splits the vocabulary into groups. The highest scores are in the groups with the highest
    maxima, so only those groups are searched.

    Args:
        scores: shape (N, V).
        count: M, at most V.

    Returns:
        Shapes (N, M) and (N, M).
    """
    rows, vocabulary = scores.shape
    groups = vocabulary // _GROUP
    if vocabulary < _LARGE_VOCABULARY or count >= groups:
        top = scores.topk(count)
        return top.values, top.indices
    # The tokens of a group are adjacent in memory, which is fastest on a CPU.
    grouped = scores[:, : groups * _GROUP].view(rows, groups, _GROUP)
    chosen = grouped.amax(2).topk(count).indices  # (N, M)
    members = torch.arange(_GROUP, device=scores.device)
    token_ids = (chosen[..., None] * _GROUP + members).flatten(1)  # (N, M * _GROUP)
    if groups * _GROUP < vocabulary:
        remainder = torch.arange(groups * _GROUP, vocabulary, device=scores.device)
        token_ids = torch.cat([token_ids, remainder.expand(rows, -1)], 1)
    top = scores.gather(1, token_ids).topk(count)
    return top.values, token_ids.gather(1, top.indices)
