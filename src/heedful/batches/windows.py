"""Texts that are too long for a model: windows that cover them, their head, or their head and tail.

Pure functions on token ids without special tokens. Nothing is cut silently: each result has the
number of tokens and how many of them are used.
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
"""Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?", section 5.3.1: of 510 tokens
the first 128 and the last 382."""

WINDOW_SHARE = 4
"""Neighbouring windows share a quarter of their tokens, so that each word has context in one."""

_NARROW = 16
"""One in so many tokens is the least that a window has beside the text that is not cut: there would
be thousands of narrower ones, each with nothing to go by."""

Ids = Sequence[int]
Piece_co = TypeVar("Piece_co", covariant=True)


class NoRoomError(UserError):
    """A text may not be cut, and is too long."""


class Placed(Protocol):
    """A record that stands somewhere."""

    @property
    def where(self) -> str:
        """What messages call it."""


@contextmanager
def naming(record: Placed) -> Iterator[None]:
    """Say where the record stands of which a text does not fit.

    Raises:
        UserError: in place of a `NoRoomError`.
    """
    try:
        yield
    except NoRoomError as error:
        raise UserError(f"{record.where}: {error}") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted(Generic[Piece_co]):
    """A text, or a pair, as pieces that fit."""

    pieces: Sequence[Piece_co]
    tokens_total: int
    """All tokens of the text."""
    tokens_used: int
    """Tokens that are in at least one piece."""
    offsets: Sequence[NDArray[np.int32]] = ()
    """For tasks that point into the user's text: for each piece, shape (T, 2), the start and end of
    each token in the text; (-1, -1) for other tokens."""
    kept: Sequence[tuple[Sequence[int], ...]] = ()
    """For each piece, and each text that it has tokens of, the numbers of these tokens in their
    text."""


def window_starts(total: int, limit: int, stride: int) -> list[int]:
    """Return the starts of windows that together cover all tokens; the last window ends at the end.

    Args:
        total: the number of tokens.
        limit: the most tokens of a window.
        stride: tokens that neighbouring windows share; the last one may share more.

    Raises:
        UserError: ``stride`` is not from 0 to ``limit - 1``, or ``limit`` is below 1.
    """
    _check(limit, stride)
    last = max(total - limit, 0)
    return [*range(0, last, limit - stride), last]


def windows(ids: Ids, limit: int, stride: int) -> list[Ids]:
    """Cut ids into windows; see `window_starts`."""
    return [ids[start : start + limit] for start in window_starts(len(ids), limit, stride)]


def nearest_windows(starts: Sequence[int], limit: int) -> list[slice]:
    """Return the part of each window to take tokens from, so that each token is taken once.

    Each is taken from the window where it has most context: neighbours meet in the middle of what
    they share.

    Args:
        starts: as `window_starts` gives them.
        limit: the tokens of each window.

    Returns:
        Slices of the windows, not of the text; one may be empty.
    """
    firsts = [0, *((before + limit + after + 1) // 2 for before, after in pairwise(starts))]
    ends = [*firsts[1:], starts[-1] + limit]
    return [
        slice(first - start, end - start)
        for start, first, end in zip(starts, firsts, ends, strict=True)
    ]


def apart(ids: Ids, limit: int) -> Fitted[Ids]:
    """Cut ids into pieces of about equal length, at most ``limit`` tokens, without overlap.

    Raises:
        UserError: ``limit`` is below 1.
    """
    _check(limit, 0)
    total, count = len(ids), max(-(-len(ids) // limit), 1)
    ends = [total * number // count for number in range(count + 1)]
    return _fitted(ids, [range(start, end) for start, end in pairwise(ends)], used=total)


def fit_text(ids: Ids, *, limit: int, rule: LongText, stride: int = 0) -> Fitted[Ids]:
    """Fit one text into pieces of at most ``limit`` tokens.

    Raises:
        NoRoomError: it does not fit, and the rule is ``refuse``.
        UserError: see `windows`.
    """
    _check(limit, stride)
    if len(ids) <= limit:
        return _whole(ids)
    refuse(len(ids), limit, rule)
    if rule == "window":
        return _fitted(ids, windows(range(len(ids)), limit, stride), used=len(ids))
    return _short(ids, limit, rule)


def fit_pair(
    first: Ids,
    second: Ids,
    *,
    limit: int,
    rule: LongText,
    stride: int = 0,
) -> Fitted[tuple[Ids, Ids]]:
    """Fit a pair into pieces of at most ``limit`` tokens, both texts together.

    Args:
        first: tokens of the first text.
        second: tokens of the second text.
        limit: the most tokens of a piece.
        rule: what to do with a pair that is too long. ``window`` puts the shorter text, uncut,
            beside every window of the other; where that leaves windows less than a sixteenth of
            the room, it is ``head``. ``head`` and ``head-tail`` shorten both texts once they are
            equally long, as the reference tokenizers do.
        stride: tokens that neighbouring windows share, at most half of a short window.

    Raises:
        NoRoomError: the pair does not fit, and the rule is ``refuse``.
        UserError: see `windows`.
    """
    _check(limit, stride)
    total = len(first) + len(second)
    if total <= limit:
        return _paired(_whole(first), _whole(second))
    refuse(total, limit, rule)
    room = limit - min(len(first), len(second))
    if rule == "window" and room * _NARROW < limit:
        rule = "head"
    if rule != "window":
        first_room, second_room = _longest_first(len(first), len(second), limit)
        return _paired(_short(first, first_room, rule), _short(second, second_room, rule))
    fit = partial(fit_text, limit=room, rule=rule, stride=min(stride, room // 2))
    if len(first) > len(second):
        return _paired(fit(first), _whole(second))
    return _paired(_whole(first), fit(second))


def refuse(total: int, limit: int, rule: LongText) -> None:
    """Refuse a text that is too long, where the rule is ``refuse``.

    Raises:
        NoRoomError: it does not fit.
    """
    if rule == "refuse" and total > limit:
        raise NoRoomError(f"the text has {total:,} tokens, but only {limit} fit; see --long-text")


def _fitted(ids: Ids, kept: Sequence[Sequence[int]], *, used: int) -> Fitted[Ids]:
    """Return parts of a text, each given by the numbers of its tokens."""
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
    """Put each part of one text beside each of the other; one of the two has one part alone."""
    return Fitted(
        pieces=[*product(first.pieces, second.pieces)],
        tokens_total=first.tokens_total + second.tokens_total,
        tokens_used=first.tokens_used + second.tokens_used,
        kept=[(*one, *other) for one, other in product(first.kept, second.kept)],
    )


def _check(limit: int, stride: int) -> None:
    if limit < 1:
        raise UserError(f"maximum length leaves room for {limit} tokens of text, not at least 1")
    if not 0 <= stride < limit:
        raise UserError(
            f"stride {stride}: neighbouring windows of {limit} tokens can share 0 to {limit - 1}"
        )


def _short(ids: Ids, limit: int, rule: LongText) -> Fitted[Ids]:
    every = range(len(ids))
    if len(ids) <= limit:
        return _whole(ids)
    head = limit if rule == "head" else round(limit * _HEAD_SHARE)
    tail = every[len(ids) - limit + head :]
    return _fitted(ids, [[*every[:head], *tail] if tail else every[:head]], used=limit)


def _longest_first(first: int, second: int, limit: int) -> tuple[int, int]:
    """Divide ``limit`` tokens between two texts that exceed it, cutting the longer one first."""
    shorter = min(first, second, limit // 2)  # an odd token stays with the longer, else the second
    return (limit - shorter, shorter) if first > second else (shorter, limit - shorter)
