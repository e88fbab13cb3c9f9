"""Assign the pieces of a text or a pair of texts to rows, and to positions within each row.

This module handles only lengths and positions, not text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from heedful.errors import UserError
from heedful.tokens.layout import PairLayout

Truncation = Literal["longest_first", "only_first", "only_second"]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """The slices of the first and the optional second sequence that one row holds."""

    first: slice
    second: slice | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row of a batch."""

    sample: int
    """Index of the text or pair in the batch."""
    window: Window
    layout: PairLayout
    """The special tokens of the row; empty if none are added."""
    padding: int
    """Number of padding tokens. The layout determines their side."""

    def ids(self, first: Sequence[int], second: Sequence[int], pad_id: int) -> list[int]:
        """Return the row's token ids, given the ids of all pieces of its texts."""
        ids = self.layout.ids(*self._parts(first, second))
        return self.layout.padded(ids, [pad_id] * self.padding)

    def values(self, first: Sequence[T], second: Sequence[T], *, special: T, padding: T) -> list[T]:
        """Return one value per token of the row, in order.

        Args:
            first: the values of all pieces of the first text.
            second: the values of all pieces of the second text, if any.
            special: value of each special token.
            padding: value of each padding token.
        """
        parts = self._parts(first, second)
        values = self.layout.values(*parts, special=special)
        return self.layout.padded(values, [padding] * self.padding)

    def _parts(self, first: Sequence[T], second: Sequence[T]) -> list[Sequence[T]]:
        """Return the values inside the row's window, given the values of all pieces."""
        window = self.window
        parts = [first[window.first]]
        if window.second is not None:
            parts.append(second[window.second])
        return parts


class Rows(NamedTuple):
    """All rows of a batch as columns: the range of pieces that each row contains."""

    samples: Sequence[int]
    """Index of the text or pair of each row."""
    first_starts: Sequence[int]
    """Start of each row's first text among the pieces of all first texts."""
    first_stops: Sequence[int]
    second_starts: Sequence[int]
    """Like ``first_starts`` for second texts. Start and stop are equal without a second text."""
    second_stops: Sequence[int]
    is_pair: Sequence[bool]
    layout: PairLayout
    """The special tokens of each row; empty if none are added."""
    lengths: Sequence[int]
    """Number of tokens of each row, including special tokens but not padding."""
    width: int
    """The padded length of rows; 0 without padding."""

    def row(self, index: int, before: int, second_before: int) -> Row:
        """Return one row.

        Args:
            index: index of the row.
            before: start of the sample's first text among the pieces of all first texts.
            second_before: start of the sample's second text among the pieces of all second texts.
        """
        first = slice(self.first_starts[index] - before, self.first_stops[index] - before)
        second = None
        if self.is_pair[index]:
            start, stop = self.second_starts[index], self.second_stops[index]
            second = slice(start - second_before, stop - second_before)
        return Row(
            sample=self.samples[index],
            window=Window(first=first, second=second),
            layout=self.layout,
            padding=max(0, self.width - self.lengths[index]),
        )


def whole(first: int, second: int | None) -> Window:
    """Return the window that covers a whole text or pair."""
    return Window(first=slice(0, first), second=None if second is None else slice(0, second))


def windows(
    first: int, second: int | None, *, room: int, truncation: Truncation, stride: int | None
) -> list[Window]:
    """Cut a text or a pair into windows; the first window is the result of plain truncation.

    Args:
        first: number of pieces of the first sequence.
        second: number of pieces of the second sequence; None for a single text.
        room: number of pieces that fit into a row.
        truncation: the sequence to cut. ``longest_first`` cuts the longer one until both are
            equally long, then both.
        stride: number of pieces shared by adjacent windows; None for only the first window.

    Returns:
        The windows. If both sequences are cut, every part of one is combined with every part of
        the other, in the reference's order.

    Raises:
        UserError: the sequence to cut is missing or too short to make the row fit, or ``stride``
            is so large that windows do not advance.
    """
    if first + (second or 0) <= room:
        return [whole(first, second)]
    if room == 0 and stride is None:
        return [whole(0, None if second is None else 0)]
    first_room, second_room = _shares(first, second, room, truncation)
    firsts = _parts(first, first_room, stride)
    if second is None:
        return [Window(first=part, second=None) for part in firsts]
    seconds = _parts(second, second_room, stride)
    other_pairs = [(a, b) for a in firsts[1:] for b in seconds] + [
        (firsts[0], b) for b in seconds[1:]
    ]
    return [Window(first=a, second=b) for a, b in [(firsts[0], seconds[0]), *other_pairs]]


def _shares(first: int, second: int | None, room: int, truncation: Truncation) -> tuple[int, int]:
    """Return the number of pieces of each sequence in a row."""
    if truncation == "only_second":
        if second is None:
            raise UserError("truncation 'only_second': there is no second text to cut")
        if room <= first:
            raise _too_long("first", first, room, "only_second")
        return first, room - first
    if second is None:
        return room, 0
    if truncation == "only_first":
        if room <= second:
            raise _too_long("second", second, room, "only_first")
        return room - second, second
    short = min(first, second)
    long = max(short, room - short)
    if short + long > room:
        short, long = room // 2, room - room // 2
    return (short, long) if first <= second else (long, short)


def _too_long(which: str, length: int, room: int, truncation: str) -> UserError:
    return UserError(
        f"truncation {truncation!r}: the {which} text alone has {length} tokens and a row has room "
        f"for {room} of both; give a larger max_length or truncation 'longest_first'"
    )


def _parts(length: int, width: int, stride: int | None) -> list[slice]:
    """Cut ``length`` pieces into parts of ``width`` pieces that overlap by ``stride``."""
    if length <= width:
        return [slice(0, length)]
    if stride is None:
        return [slice(0, width)]
    if stride >= width:
        raise UserError(
            f"stride {stride} is not below the {width} tokens of text a row has room for"
        )
    # The last part is the first one that reaches the end.
    starts = range(0, length - stride, width - stride)
    return [slice(start, min(start + width, length)) for start in starts]
