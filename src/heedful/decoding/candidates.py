"""The best next tokens, after penalties and without those that the options forbid.

Shapes: B items, N active hypotheses of all items, T tokens of each so far, V vocabulary, M best
candidates of a hypothesis.
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

# Scores that are worked on at once: they fit into a core's own cache.
_CACHED_SCORES = 2**18
# Tokens in a group that is compared by its best one, and the vocabulary from which that pays off.
_GROUP, _LARGE_VOCABULARY = 64, 2048


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NextTokens:
    """The best next tokens of each hypothesis, best first."""

    token_ids: NDArray[np.int64]
    """(N, M)."""
    penalised: NDArray[np.float64]
    """(N, M) their log-probabilities after the repetition penalty, by which hypotheses are ranked;
    -inf for no candidate."""
    log_probabilities: NDArray[np.float64]
    """(N, M) the same without the penalty."""


def forced_tokens(
    prefixes: Sequence[Sequence[int]] | None, items: int, options: Search
) -> NDArray[np.int64]:
    """Return the tokens that each item must start with, then -1.

    Args:
        prefixes: one for each item; None if there are none.
        items: B.
        options: how to search.

    Returns:
        Shape (B, the longest prefix + 1).

    Raises:
        UserError: the number of prefixes is not that of items, or one is too long or has the end
            token.
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
                f"prefix {item} is {list(prefix)}; it may not have the end token or ids below 0"
            )
        forced[item, : len(prefix)] = prefix
    return forced


def best(
    scores: Tensor,
    past: NDArray[np.int64],
    forced: NDArray[np.int64],
    options: Search,
    count: int,
) -> NextTokens:
    """Return the best next tokens of each hypothesis.

    A few rows at a time, so that scores are read from memory once, and each row by itself, so that
    its result does not depend on the others.

    Args:
        scores: of each next token, before or after the softmax. Shape (N, V).
        past: the tokens so far. Shape (N, T).
        forced: the token that must come next, or -1. Shape (N,).
        options: how to search.
        count: M, or less if the vocabulary is smaller.

    Raises:
        UserError: a score is not a number.
    """
    count = min(count, scores.shape[1])
    size = len(scores) if scores.is_cuda else max(1, _CACHED_SCORES // scores.shape[1])
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for start in range(0, len(scores), size):
        rows = slice(start, start + size)
        plain, penalised = penalise(scores[rows], past[rows], options)
        top_scores, indices = _top(penalised, count)
        parts.append((indices, top_scores, plain.gather(1, indices)))
    token_ids, ranked, unpenalised = (
        torch.cat(part).cpu().numpy() for part in zip(*parts, strict=True)
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
    """Refuse to search with scores that are not numbers.

    Raises:
        UserError: one of them is NaN.
    """
    if np.isnan(scores).any():
        raise damaged()


def damaged() -> UserError:
    """Return what is said of a score that is not a number."""
    return UserError("the score of a next token is not a number; the model is damaged")


def check_prefixes(token_ids: NDArray[np.int64], vocabulary: int) -> None:
    """Refuse tokens of prefixes that a vocabulary does not have.

    Raises:
        UserError: there are some.
    """
    if token_ids.max(initial=-1) >= vocabulary:
        raise UserError(
            f"a prefix has token {token_ids.max()}; the vocabulary has {vocabulary} tokens"
        )


def check_forbidden(token_ids: Sequence[int], vocabulary: int) -> None:
    """Refuse forbidden tokens that a vocabulary does not have.

    Raises:
        UserError: there are some.
    """
    if token_ids and not 0 <= min(token_ids) <= max(token_ids) < vocabulary:
        raise UserError(
            f"tokens {sorted(token_ids)} must not be generated; the vocabulary has "
            f"{vocabulary} tokens"
        )


def _force(top: NextTokens, scores: Tensor, forced: NDArray[np.int64]) -> None:
    """Replace all candidates by the forced token, with its log-probability."""
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
    """Return the log-probability of the forced token of some rows.

    Args:
        scores: of each next token, before or after the softmax. Shape (N, V).
        rows: indices of the rows whose token is forced. Shape (R,).
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


def penalise(scores: Tensor, past: NDArray[np.int64], options: Search) -> tuple[Tensor, Tensor]:
    """Return log-probabilities, and the same after penalties, -inf for forbidden tokens.

    Without a repetition penalty both are one tensor, so the first is not valid for a forbidden
    token.

    Args:
        scores: of each next token, before or after the softmax. Shape (N, V).
        past: the tokens so far. Shape (N, T).
        options: how to search.

    Returns:
        Shapes (N, V) and (N, V).

    Raises:
        UserError: a forbidden token is not in the vocabulary.
    """
    plain = _log_softmax(scores)
    penalised = plain
    if options.repetition_penalty != 1 and past.shape[1]:
        repeated = torch.from_numpy(past).to(scores.device)
        # The paper divides logits, whose zero means nothing; this multiplies log-probabilities.
        lowered = options.repetition_penalty * plain.gather(1, repeated)
        penalised = plain.scatter(1, repeated, lowered)
    forbidden = list(options.never)
    if past.shape[1] < options.min_new_tokens:
        forbidden.append(options.eos_token_id)
    if forbidden:
        check_forbidden(forbidden, scores.shape[1])
        penalised.index_fill_(1, torch.tensor(forbidden, device=scores.device), -math.inf)
    if options.no_repeat_ngram:
        indices = repeating(past, options.no_repeat_ngram)
        cells = tuple(torch.from_numpy(axis).to(scores.device) for axis in indices)
        penalised.index_put_(cells, penalised.new_tensor(-math.inf))
    return plain, penalised


def repeating(past: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each next token, as row and token id, that would repeat ``size`` tokens.

    Args:
        past: the tokens so far. Shape (N, T).
        size: at least 1.
    """
    length = past.shape[1]
    if length < size:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    runs = np.lib.stride_tricks.sliding_window_view(past, size, axis=1)  # (N, T - size + 1, s.)
    newest = past[:, None, length - size + 1 :]  # (N, 1, size - 1)
    rows, starts = np.nonzero((runs[..., :-1] == newest).all(-1))
    return rows, runs[rows, starts, -1]


def _log_softmax(scores: Tensor) -> Tensor:
    return scores.log_softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def _top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the highest scores of each row and their token ids, highest first.

    The vocabulary is divided into groups. The highest scores are in the groups with the highest
    maximum, so only those groups are searched.

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
    # Those of a group side by side, which is how a CPU compares fast.
    grouped = scores[:, : groups * _GROUP].view(rows, groups, _GROUP)
    chosen = grouped.amax(2).topk(count).indices  # (N, M)
    members = torch.arange(_GROUP, device=scores.device)
    token_ids = (chosen[..., None] * _GROUP + members).flatten(1)  # (N, M * _GROUP)
    if groups * _GROUP < vocabulary:
        rest = torch.arange(groups * _GROUP, vocabulary, device=scores.device)
        token_ids = torch.cat([token_ids, rest.expand(rows, -1)], 1)
    top = scores.gather(1, token_ids).topk(count)
    return top.values, token_ids.gather(1, top.indices)
