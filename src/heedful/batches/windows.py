"""Texts longer than a model takes: windows that cover them, their head, or their head and tail.

Pure functions on token ids without special tokens. Nothing is cut in silence: each result says how
many tokens there were and how many are used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError
from heedful.settings import LongText

_HEAD_SHARE = 128 / 510
"""Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?", section 5.3.1: of 510 tokens
the first 128 and the last 382."""

Ids = Sequence[int]
Piece_co = TypeVar("Piece_co", covariant=True)


class NoRoomError(UserError):
    """A text may not be cut, and is too long or leaves no room for the other of its pair."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted(Generic[Piece_co]):
    """A text, or a pair, as pieces that each fit."""

    pieces: Sequence[Piece_co]
    tokens_total: int
    """Tokens there were."""
    tokens_used: int
    """Tokens that stand in at least one piece."""
    offsets: Sequence[NDArray[np.int32]] = ()
    """For tasks that point into the user's text: for each piece, shape (T, 2), where in the text
    each of its tokens starts and ends; (-1, -1) for one that is not of that text."""


def window_starts(total: int, limit: int, stride: int) -> list[int]:
    """Return where windows start that together hold every token; the last one ends at the end.

    Args:
        total: how many tokens there are.
        limit: the most tokens of a window.
        stride: tokens that neighbouring windows share, except that the last may share more.

    Raises:
        UserError: ``stride`` is not from 0 to ``limit - 1``, or ``limit`` is below 1.
    """
    _check(limit, stride)
    last = max(total - limit, 0)
    return [*range(0, last, limit - stride), last]


def windows(ids: Ids, limit: int, stride: int) -> list[Ids]:
    """Cut ids into windows; see `window_starts`."""
    return [ids[start : start + limit] for start in window_starts(len(ids), limit, stride)]


def apart(ids: Ids, limit: int) -> Fitted[Ids]:
    """Cut ids into pieces that share nothing, about equally long and of at most ``limit`` tokens.

    Raises:
        UserError: ``limit`` is below 1.
    """
    _check(limit, 0)
    total, count = len(ids), max(-(-len(ids) // limit), 1)
    ends = [total * number // count for number in range(count + 1)]
    pieces = [ids[start:end] for start, end in pairwise(ends)]
    return Fitted(pieces=pieces, tokens_total=total, tokens_used=total)


def fit_text(ids: Ids, *, limit: int, rule: LongText, stride: int = 0) -> Fitted[Ids]:
    """Fit one text into pieces of at most ``limit`` tokens.

    Raises:
        NoRoomError: it does not fit, and the rule is ``refuse``.
        UserError: see `windows`.
    """
    _check(limit, stride)
    _refuse(len(ids), limit, rule)
    if rule == "window":
        return Fitted(
            pieces=windows(ids, limit, stride), tokens_total=len(ids), tokens_used=len(ids)
        )
    piece = _shorten(ids, limit, rule)
    return Fitted(pieces=[piece], tokens_total=len(ids), tokens_used=len(piece))


def fit_pair(
    first: Ids,
    second: Ids,
    *,
    limit: int,
    rule: LongText,
    stride: int = 0,
    cut: Literal["longer", "first", "second"] = "longer",
) -> Fitted[tuple[Ids, Ids]]:
    """Fit a pair into pieces of at most ``limit`` tokens, both texts together.

    Args:
        first: tokens of the first text.
        second: tokens of the second text.
        limit: the most tokens of a piece.
        rule: what is done with a pair that is too long. ``window`` keeps one text whole beside
            every window of the other.
        stride: tokens that neighbouring windows share; where little room is left for windows, at
            most half of one.
        cut: the text that is cut. With ``longer``, ``head`` and ``head-tail`` shorten both texts
            once they are equally long, as the reference tokenizers do.

    Raises:
        NoRoomError: the text that is kept whole leaves no room for the other; or the pair does not
            fit, and the rule is ``refuse``.
        UserError: see `windows`.
    """
    _check(limit, stride)
    total = len(first) + len(second)
    if total <= limit:
        return Fitted(pieces=[(first, second)], tokens_total=total, tokens_used=total)
    _refuse(total, limit, rule)
    if cut == "longer" and rule != "window":
        first_room, second_room = _longest_first(len(first), len(second), limit)
        pair = (_shorten(first, first_room, rule), _shorten(second, second_room, rule))
        return Fitted(pieces=[pair], tokens_total=total, tokens_used=limit)
    cut_first = cut == "first" or (cut == "longer" and len(first) > len(second))
    text, kept = (first, second) if cut_first else (second, first)
    room = limit - len(kept)
    if room < 1:
        raise NoRoomError(
            f"the {'second' if cut_first else 'first'} text of a pair has {len(kept)} tokens and "
            f"would be kept whole, but a pair has room for {limit}: shorten both (head, head-tail)"
        )
    fitted = fit_text(text, limit=room, rule=rule, stride=min(stride, room // 2))
    return Fitted(
        pieces=[(piece, kept) if cut_first else (kept, piece) for piece in fitted.pieces],
        tokens_total=total,
        tokens_used=fitted.tokens_used + len(kept),
    )


def _check(limit: int, stride: int) -> None:
    if limit < 1:
        raise UserError(f"maximum length leaves room for {limit} tokens of text; at least 1 needed")
    if not 0 <= stride < limit:
        raise UserError(
            f"stride {stride}: neighbouring windows of {limit} tokens share 0 to {limit - 1}"
        )


def _refuse(total: int, limit: int, rule: LongText) -> None:
    if rule == "refuse" and total > limit:
        raise NoRoomError(
            f"the text has {total:,} tokens, where {limit} fit; --long-text says what else can be "
            "done with it"
        )


def _shorten(ids: Ids, limit: int, rule: LongText) -> Ids:
    if len(ids) <= limit:
        return ids
    head = limit if rule == "head" else round(limit * _HEAD_SHARE)
    return [*ids[:head], *ids[len(ids) - limit + head :]]


def _longest_first(first: int, second: int, limit: int) -> tuple[int, int]:
    """Share ``limit`` tokens between two lengths that exceed it, taking from the longer first."""
    shorter = min(first, second, limit // 2)  # an odd token stays with the longer, else the second
    return (limit - shorter, shorter) if first > second else (shorter, limit - shorter)
