"""Which pieces of a text, or of a pair of texts, go into which rows, and where in the row.

Lengths and places only: no texts.
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
    """The pieces of a first and perhaps a second sequence that one row holds."""

    first: slice
    second: slice | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row of a batch."""

    sample: int
    """Index of the text, or pair, in the batch."""
    window: Window
    layout: PairLayout
    """The special tokens that stand in it; none where they are not wanted."""
    padding: int
    """Number of padding tokens, on the side that the layout says."""

    def ids(self, first: Sequence[int], second: Sequence[int], pad_id: int) -> list[int]:
        """Return the row's token ids, given those of all pieces of its texts."""
        ids = self.layout.ids(*self._parts(first, second))
        return self.layout.padded(ids, [pad_id] * self.padding)

    def values(self, first: Sequence[T], second: Sequence[T], *, special: T, padding: T) -> list[T]:
        """Put one value for each token of the row in its order.

        Args:
            first: the values of all pieces of the first text.
            second: those of the second, where there is one.
            special: value of each special token.
            padding: value of each token of the padding.
        """
        parts = self._parts(first, second)
        values = self.layout.values(*parts, special=special)
        return self.layout.padded(values, [padding] * self.padding)

    def _parts(self, first: Sequence[T], second: Sequence[T]) -> list[Sequence[T]]:
        """Cut what stands in the row's window out of what there is for all pieces."""
        window = self.window
        parts = [first[window.first]]
        if window.second is not None:
            parts.append(second[window.second])
        return parts


class Rows(NamedTuple):
    """All rows of a batch as columns: which of the pieces of the batch each has."""

    samples: Sequence[int]
    """Index of the text, or pair, of each row."""
    first_starts: Sequence[int]
    """Where the row's part of its first text starts among the pieces of all first texts."""
    first_stops: Sequence[int]
    second_starts: Sequence[int]
    """The same for second texts; both 0 where there is none."""
    second_stops: Sequence[int]
    is_pair: Sequence[bool]
    layout: PairLayout
    """The special tokens of each row; none where they are not wanted."""
    lengths: Sequence[int]
    """The tokens of each row, special ones among them, padding not."""
    width: int
    """What rows are padded to; 0 where nothing is padded."""

    def row(self, index: int, before: int, second_before: int) -> Row:
        """Return one row.

        Args:
            index: its index.
            before: where the pieces of its sample's first text start among those of all.
            second_before: the same for the second text.
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
    """Return the window that holds all of a text, or of a pair."""
    return Window(first=slice(0, first), second=None if second is None else slice(0, second))


def windows(
    first: int, second: int | None, *, room: int, truncation: Truncation, stride: int | None
) -> list[Window]:
    """Cut a text, or a pair, into windows; the first is what plain truncation keeps.

    Args:
        first: number of pieces of the first sequence.
        second: number of pieces of the second, None where there is none.
        room: how many pieces a row holds.
        truncation: which sequence is cut. ``longest_first`` takes from the longer one until both
            are equally long, then from both.
        stride: how many pieces neighbouring windows share; None for the first window alone.

    Returns:
        The windows. Where both sequences are cut, each part of one meets each part of the other,
        in the reference's order.

    Raises:
        UserError: the sequence to cut is not there or is too short to make the row fit, or
            ``stride`` leaves no way forward.
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
    rest = [(a, b) for a in firsts[1:] for b in seconds] + [(firsts[0], b) for b in seconds[1:]]
    return [Window(first=a, second=b) for a, b in [(firsts[0], seconds[0]), *rest]]


def _shares(first: int, second: int | None, room: int, truncation: Truncation) -> tuple[int, int]:
    """Return how many pieces of each sequence a row takes."""
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
    """Cut ``length`` pieces into parts of ``width`` that share ``stride``."""
    if length <= width:
        return [slice(0, length)]
    if stride is None:
        return [slice(0, width)]
    if stride >= width:
        raise UserError(
            f"stride {stride} is not below the {width} tokens of text a row has room for"
        )
    # The last part is the first that reaches the end.
    starts = range(0, length - stride, width - stride)
    return [slice(start, min(start + width, length)) for start in starts]
