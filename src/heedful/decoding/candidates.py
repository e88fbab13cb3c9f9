"""The tokens that may come next, with what makes some of them less likely or rules them out.

Shapes: B items, N hypotheses of all items that go on, T tokens of each so far, V vocabulary, M best
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

# Scores that are looked at at once: what a core's own cache holds.
_CACHED_SCORES = 2**18
# Tokens of which the best stands for all, and the vocabulary from which on that is worth it.
_GROUP, _LARGE_VOCABULARY = 32, 2048


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Candidates:
    """The best next tokens of each hypothesis, best first."""

    words: NDArray[np.int64]
    """(N, M) the tokens."""
    values: NDArray[np.float64]
    """(N, M) what they add to the sum that hypotheses are ranked by; -inf for no candidate."""
    log_probabilities: NDArray[np.float64]
    """(N, M) the same without the repetition penalty."""


def forced_words(
    prefixes: Sequence[Sequence[int]] | None, items: int, options: Search
) -> NDArray[np.int64]:
    """Return the tokens each item must start with, -1 where it is free, and a column of -1.

    Args:
        prefixes: one of each item, or None where all are free.
        items: B.
        options: how to look.

    Returns:
        Shape (B, the longest prefix + 1).

    Raises:
        UserError: there are not as many prefixes as items, or one is too long or ends the text.
    """
    prefixes = [()] * items if prefixes is None else prefixes
    if len(prefixes) != items:
        raise UserError(f"there are {len(prefixes)} prefixes for {items} items; give one for each")
    forced = np.full((items, max(map(len, prefixes), default=0) + 1), -1)
    for item, prefix in enumerate(prefixes):
        if len(prefix) >= options.max_new_tokens:
            raise UserError(
                f"prefix {item} has {len(prefix)} tokens; max_new_tokens, "
                f"{options.max_new_tokens}, must be more than that"
            )
        if options.eos_token_id in prefix or min(prefix, default=0) < 0:
            raise UserError(f"prefix {item} is {list(prefix)}; it must be tokens before the ending")
        forced[item, : len(prefix)] = prefix
    return forced


def best(
    scores: Tensor,
    written: NDArray[np.int64],
    forced: NDArray[np.int64],
    options: Search,
    count: int,
) -> Candidates:
    """Return the best next tokens of each hypothesis.

    A few rows at a time, so that scores are read from memory once, and each row by itself, so that
    its numbers do not depend on the others.

    Args:
        scores: of each next token, before or after the softmax. Shape (N, V).
        written: the tokens so far. Shape (N, T).
        forced: the token that must come next, or -1. Shape (N,).
        options: how to look.
        count: M, or less where the vocabulary is smaller.

    Raises:
        UserError: a score is not a number.
    """
    count = min(count, scores.shape[1])
    rows = len(scores) if scores.is_cuda else max(1, _CACHED_SCORES // scores.shape[1])
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for start in range(0, len(scores), rows):
        here = slice(start, start + rows)
        plain, ranked = weighed(scores[here], written[here], options)
        best_values, places = _top(ranked, count)
        parts.append((places, best_values, plain.gather(1, places)))
    words, values, plainly = (torch.cat(part).cpu().numpy() for part in zip(*parts, strict=True))
    found = Candidates(
        words=words,
        values=values.astype(np.float64),
        log_probabilities=plainly.astype(np.float64),
    )
    _force(found, scores, forced)
    check_scores(found.values)
    return found


def check_scores(values: NDArray[np.float64]) -> None:
    """Refuse what no number is, rather than search with it.

    Raises:
        UserError: one of the values is NaN.
    """
    if np.isnan(values).any():
        raise UserError("the score of a next token is not a number; the model is damaged")


def _force(found: Candidates, scores: Tensor, forced: NDArray[np.int64]) -> None:
    """Put the forced token in the place of all candidates, at its plain log-probability."""
    rows = np.flatnonzero(forced >= 0)
    if len(rows):
        plain = forced_log_probabilities(scores, rows, forced)
        for values in (found.values, found.log_probabilities):
            values[rows] = -np.inf
            values[rows, 0] = plain
        found.words[rows, 0] = forced[rows]


def forced_log_probabilities(
    scores: Tensor, rows: NDArray[np.int64], forced: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the log-probability of the forced token of some rows.

    Args:
        scores: of each next token, before or after the softmax. Shape (N, V).
        rows: those whose token is forced. Shape (R,).
        forced: the tokens of all. Shape (N,).

    Returns:
        Shape (R,).

    Raises:
        UserError: a token is not in the vocabulary.
    """
    words = forced[rows]
    if words.max() >= scores.shape[1]:
        raise UserError(
            f"a prefix has token {words.max()}; the vocabulary has {scores.shape[1]} tokens"
        )
    plain = _log_softmax(scores[torch.from_numpy(rows).to(scores.device)])
    chosen = plain.gather(1, torch.from_numpy(words).to(scores.device)[:, None])
    values: NDArray[np.float64] = chosen.squeeze(1).double().cpu().numpy()
    return values


def weighed(scores: Tensor, written: NDArray[np.int64], options: Search) -> tuple[Tensor, Tensor]:
    """Return log-probabilities, and what they are ranked by, -inf for tokens that may not come.

    Without a repetition penalty both are one tensor; where a token may not come, the first is not
    to be read.

    Args:
        scores: of each next token, before or after the softmax. Shape (N, V).
        written: the tokens so far. Shape (N, T).
        options: how to look.

    Returns:
        Shapes (N, V) and (N, V).
    """
    plain = _log_softmax(scores)
    ranked = plain
    if options.repetition_penalty != 1 and written.shape[1]:
        before = torch.from_numpy(written).to(scores.device)
        # Of log-probabilities, not of the logits of the paper, whose zero means nothing.
        penalised = options.repetition_penalty * plain.gather(1, before)
        ranked = plain.scatter(1, before, penalised)
    forbidden = list(options.never)
    if written.shape[1] < options.min_new_tokens:
        forbidden.append(options.eos_token_id)
    if forbidden:
        ranked.index_fill_(1, torch.tensor(forbidden, device=scores.device), -math.inf)
    if options.no_repeat_ngram:
        rows, words = repeating(written, options.no_repeat_ngram)
        places = tuple(torch.from_numpy(axis).to(scores.device) for axis in (rows, words))
        ranked.index_put_(places, ranked.new_tensor(-math.inf))
    return plain, ranked


def repeating(written: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows and the tokens that would repeat ``size`` tokens in a row.

    Args:
        written: the tokens so far. Shape (N, T).
        size: at least 1.
    """
    length = written.shape[1]
    if length < size:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    runs = np.lib.stride_tricks.sliding_window_view(written, size, axis=1)  # (N, T - size + 1, s.)
    newest = written[:, None, length - size + 1 :]  # (N, 1, size - 1)
    places, starts = np.nonzero((runs[..., :-1] == newest).all(-1))
    return places, runs[places, starts, -1]


def _log_softmax(scores: Tensor) -> Tensor:
    return scores.log_softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def _top(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the greatest values of each row and their places, greatest first.

    The places are dealt out to groups. The greatest values lie in the groups with the greatest
    greatest value, so that only those are searched.

    Args:
        values: shape (N, V).
        count: M, at most V.

    Returns:
        Shapes (N, M) and (N, M).
    """
    groups = values.shape[1] // _GROUP
    if values.shape[1] < _LARGE_VOCABULARY or count >= groups:
        top = values.topk(count)
        return top.values, top.indices
    dealt = values[:, : groups * _GROUP].view(len(values), _GROUP, groups)
    chosen = dealt.amax(1).topk(count).indices  # (N, M)
    members = torch.arange(_GROUP, device=values.device)[:, None] * groups
    places = (chosen[:, None] + members).flatten(1)  # (N, M * _GROUP)
    rest = torch.arange(groups * _GROUP, values.shape[1], device=values.device)
    places = torch.cat([places, rest.expand(len(values), -1)], 1)
    top = values.gather(1, places).topk(count)
    return top.values, places.gather(1, top.indices)
