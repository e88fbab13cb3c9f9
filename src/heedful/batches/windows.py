"""Fit texts that are too long for a model: windows, only the head, or the head and tail.

Pure functions on token ids without special tokens. Truncation is never silent: each result has the
total number of tokens and the number of tokens used.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError
from heedful.settings import LongText

_HEAD_SHARE = 128 / 510
"""Share of the head in ``head-tail``. Sun et al. 2019, "How to Fine-Tune BERT for Text
Classification?", section 5.3.1: the first 128 and the last 382 of 510 tokens."""

WINDOW_SHARE = 4
"""Neighbouring windows overlap by a quarter, so that each word has context in one of them."""

_MIN_WINDOW_RATIO = 16
"""A window beside an uncut text needs at least 1 / 16 of the tokens. Narrower windows would number
thousands, each without useful context."""

Ids = Sequence[int]
Piece_co = TypeVar("Piece_co", covariant=True)


class NoRoomError(UserError):
    """A text is too long and may not be truncated."""


class Located(Protocol):
    """A record with a known location."""

    @property
    def where(self) -> str:
        """The location, for messages."""


@contextmanager
def locating_errors(record: Located) -> Iterator[None]:
    """Add the record's location to the error for a text that does not fit.

    Raises:
        UserError: replaces a `NoRoomError`.
    """
    try:
        yield
    except NoRoomError as error:
        raise UserError(f"{record.where}: {error}") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted(Generic[Piece_co]):
    """A text or pair, split into pieces that fit."""

    pieces: Sequence[Piece_co]
    tokens_total: int
    """Total number of tokens of the text."""
    tokens_used: int
    """Number of tokens in at least one piece."""
    offsets: Sequence[NDArray[np.int32]] = ()
    """For tasks with spans in the user's text: start and end of each token in the text, per piece.
    (-1, -1) for other tokens. Each of shape (T, 2)."""
    kept: Sequence[tuple[Sequence[int], ...]] = ()
    """For each piece and each of its texts, the indices of the kept tokens within that text."""


def window_starts(total: int, limit: int, stride: int) -> list[int]:
    """Return the starts of windows that cover all tokens; the last ends at the last token.

    Args:
        total: the number of tokens.
        limit: maximum tokens per window.
        stride: overlap of neighbouring windows, in tokens. The last window may overlap more.

    Raises:
        UserError: ``stride`` is not from 0 to ``limit - 1``, or ``limit`` is below 1.
    """
    _check(limit, stride)
    last = max(total - limit, 0)
    return [*range(0, last, limit - stride), last]


def windows(ids: Ids, limit: int, stride: int) -> list[Ids]:
    """Split ids into windows; see `window_starts`."""
    return [ids[start : start + limit] for start in window_starts(len(ids), limit, stride)]


def nearest_windows(starts: Sequence[int], limit: int) -> list[slice]:
    """Return the slice of each window to use, so that each token is used exactly once.

    Each token comes from the window where it has the most context. Neighbouring slices meet in the
    middle of the overlap.

    Args:
        starts: window starts from `window_starts`.
        limit: tokens per window.

    Returns:
        Slices of the windows, not of the text. A slice may be empty.
    """
    firsts = [0, *((before + limit + after + 1) // 2 for before, after in pairwise(starts))]
    ends = [*firsts[1:], starts[-1] + limit]
    return [
        slice(first - start, end - start)
        for start, first, end in zip(starts, firsts, ends, strict=True)
    ]


def split_evenly(ids: Ids, limit: int) -> Fitted[Ids]:
    """Split ids into pieces of about equal length, at most ``limit`` tokens, without overlap.

    Raises:
        UserError: ``limit`` is below 1.
    """
    _check(limit, 0)
    total, count = len(ids), max(-(-len(ids) // limit), 1)
    ends = [total * index // count for index in range(count + 1)]
    return _fitted(ids, [range(start, end) for start, end in pairwise(ends)], used=total)


def fit_text(ids: Ids, *, limit: int, rule: LongText, stride: int = 0) -> Fitted[Ids]:
    """Fit one text into pieces of at most ``limit`` tokens.

    Raises:
        NoRoomError: the text does not fit and the rule is ``refuse``.
        UserError: see `windows`.
    """
    _check(limit, stride)
    if len(ids) <= limit:
        return _whole(ids)
    refuse(len(ids), limit, rule)
    if rule == "window":
        return _fitted(ids, windows(range(len(ids)), limit, stride), used=len(ids))
    return _truncated(ids, limit, rule)


def fit_pair(
    first: Ids,
    second: Ids,
    *,
    limit: int,
    rule: LongText,
    stride: int = 0,
) -> Fitted[tuple[Ids, Ids]]:
    """Fit a pair into pieces of at most ``limit`` tokens in total.

    Args:
        first: tokens of the first text.
        second: tokens of the second text.
        limit: maximum tokens per piece.
        rule: how to handle a pair that is too long. ``window`` combines the whole shorter text with
            each window of the longer text. If windows would get less than a sixteenth of the
            limit, ``head`` applies instead. ``head`` and ``head-tail`` cut the longer text first,
            then both equally, as the reference tokenizers do.
        stride: overlap of neighbouring windows, in tokens; at most half of a short window.

    Raises:
        NoRoomError: the pair does not fit and the rule is ``refuse``.
        UserError: see `windows`.
    """
    _check(limit, stride)
    total = len(first) + len(second)
    if total <= limit:
        return _paired(_whole(first), _whole(second))
    refuse(total, limit, rule)
    room = limit - min(len(first), len(second))
    if rule == "window" and room * _MIN_WINDOW_RATIO < limit:
        rule = "head"
    if rule != "window":
        first_room, second_room = _longest_first(len(first), len(second), limit)
        return _paired(_truncated(first, first_room, rule), _truncated(second, second_room, rule))
    fit = partial(fit_text, limit=room, rule=rule, stride=min(stride, room // 2))
    if len(first) > len(second):
        return _paired(fit(first), _whole(second))
    return _paired(_whole(first), fit(second))


def refuse(total: int, limit: int, rule: LongText) -> None:
    """Refuse a text that is too long if the rule is ``refuse``.

    Raises:
        NoRoomError: the text does not fit.
    """
    if rule == "refuse" and total > limit:
        raise NoRoomError(f"the text has {total:,} tokens, but only {limit} fit; see --long-text")


def _fitted(ids: Ids, kept: Sequence[Sequence[int]], *, used: int) -> Fitted[Ids]:
    """Return the pieces of a text, from the token indices of each piece."""
    return Fitted(
        pieces=[
            ids[part.start : part.stop] if isinstance(part, range) else [ids[at] for at in part]
            for part in kept
        ],
        tokens_total=len(ids),
        tokens_used=used,
        kept=[(part,) for part in kept],
    )


def _whole(ids: Ids) -> Fitted[Ids]:
    return _fitted(ids, [range(len(ids))], used=len(ids))


def _paired(first: Fitted[Ids], second: Fitted[Ids]) -> Fitted[tuple[Ids, Ids]]:
    """Combine each piece of one text with each piece of the other. One text has a single piece."""
    return Fitted(
        pieces=[*product(first.pieces, second.pieces)],
        tokens_total=first.tokens_total + second.tokens_total,
        tokens_used=first.tokens_used + second.tokens_used,
        kept=[(*a, *b) for a, b in product(first.kept, second.kept)],
    )


def _check(limit: int, stride: int) -> None:
    if limit < 1:
        raise UserError(f"maximum length leaves room for {limit} tokens of text, not at least 1")
    if not 0 <= stride < limit:
        raise UserError(
            f"stride {stride}: neighbouring windows of {limit} tokens can share 0 to {limit - 1}"
        )


def _truncated(ids: Ids, limit: int, rule: LongText) -> Fitted[Ids]:
    indices = range(len(ids))
    if len(ids) <= limit:
        return _whole(ids)
    head = limit if rule == "head" else round(limit * _HEAD_SHARE)
    tail = indices[len(ids) - limit + head :]
    return _fitted(ids, [[*indices[:head], *tail] if tail else indices[:head]], used=limit)


def _longest_first(first: int, second: int, limit: int) -> tuple[int, int]:
    """Divide ``limit`` tokens between two texts that exceed it, cutting the longer text first."""
    shorter = min(first, second, limit // 2)  # an odd token goes to the longer text, else the 2nd
    return (limit - shorter, shorter) if first > second else (shorter, limit - shorter)
