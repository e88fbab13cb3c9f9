"""Which pieces of a text, or of a pair of texts, go into which rows, and where in the row.

Lengths and places only: no texts. What the arguments of a tokenizer's call mean is decided here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Literal, SupportsIndex, TypeVar

from heedful.errors import UserError, did_you_mean
from heedful.tokens.layout import PairLayout

Truncation = Literal["longest_first", "only_first", "only_second"]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """The pieces of a first and perhaps a second sequence that one row holds."""

    first: slice
    second: slice | None

    def __len__(self) -> int:
        length: int = self.first.stop - self.first.start
        if self.second is not None:
            length += self.second.stop - self.second.start
        return length


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row of a batch: the pieces of its text or pair, special tokens, and padding."""

    sample: int
    """Index of the text, or pair, in the batch."""
    window: Window
    layout: PairLayout
    """The special tokens that stand in it; none where they are not wanted."""
    padding: int = 0
    """Number of padding tokens at the end."""

    def __len__(self) -> int:
        special = self.layout.size(pair=self.window.second is not None)
        return len(self.window) + special + self.padding

    def ids(self, first: Sequence[int], second: Sequence[int] | None, *, pad_id: int) -> list[int]:
        """Return the row's token ids, given those of all pieces of its texts."""
        return self.layout.ids(*self._parts(first, second)) + [pad_id] * self.padding

    def values(
        self, first: Sequence[T], second: Sequence[T] | None, *, special: T, padding: T
    ) -> list[T]:
        """Put one value for each token of the row in its order.

        Args:
            first: the values of all pieces of the first text.
            second: those of the second; None where there is none.
            special: value of each special token.
            padding: value of each token of the padding.
        """
        parts = self._parts(first, second)
        return self.layout.values(*parts, special=special) + [padding] * self.padding

    def _parts(
        self, first: Sequence[T], second: Sequence[T] | None
    ) -> tuple[Sequence[T], Sequence[T] | None]:
        """Cut what stands in the row's window out of what there is for all pieces."""
        window = self.window
        if window.second is None or second is None:
            return first[window.first], None
        return first[window.first], second[window.second]

    def type_ids(self) -> list[int]:
        """Return the token types; padding has type 0."""
        first, second = self.window.first, self.window.second
        lengths = first.stop - first.start, None if second is None else second.stop - second.start
        return self.layout.types(*lengths) + [0] * self.padding

    def attention_mask(self) -> list[int]:
        """Return 0 for padding, else 1."""
        return [1] * (len(self) - self.padding) + [0] * self.padding

    def special_tokens_mask(self) -> list[int]:
        """Return 1 for special tokens and padding, else 0."""
        first, second = self.window.first, self.window.second
        texts = [0] * first.stop, None if second is None else [0] * second.stop
        return self.values(*texts, special=1, padding=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class RowPlan:
    """How rows are cut and padded. Made by `plan_rows`."""

    padding: Literal["longest", "max_length"] | None
    truncation: Truncation | None
    max_length: int | None
    """Tokens of a row, special ones counted; None where nothing is cut or padded to it."""
    stride: int | None
    """Pieces that neighbouring windows share; None where what does not fit gets no windows."""
    multiple: int
    """What the length of a padded row is a multiple of."""
    layout: PairLayout
    """The special tokens of each row; none where they are not wanted."""

    def rows(self, sample: int, first: int, second: int | None) -> list[Row]:
        """Return the rows of one sample.

        Args:
            sample: index of the sample in the batch.
            first: number of pieces of its first text.
            second: number of pieces of its second, None where there is none.
        """
        if self.truncation is None or self.max_length is None:
            parts = [whole(first, second)]
        else:
            special = self.layout.size(pair=second is not None)
            if self.max_length < special:
                raise UserError(
                    f"max_length {self.max_length}: the {special} special tokens of a row do not "
                    "fit"
                )
            parts = windows(
                first,
                second,
                room=self.max_length - special,
                truncation=self.truncation,
                stride=self.stride,
            )
        return [Row(sample=sample, window=part, layout=self.layout) for part in parts]

    def padded(self, rows: list[Row]) -> list[Row]:
        """Return the rows with padding."""
        width = self.width([len(row) for row in rows])
        return [replace(row, padding=max(0, width - len(row))) for row in rows]

    def width(self, lengths: Sequence[int]) -> int:
        """Return the length that rows of these lengths are padded to; 0 where nothing is padded."""
        if self.padding is None or not lengths:
            return 0
        longest = max(lengths)
        if self.padding == "max_length":
            assert self.max_length is not None  # `plan_rows` has seen to it
            longest = self.max_length
        return -(-longest // self.multiple) * self.multiple


def plan_rows(
    *,
    padding: bool | str,
    truncation: bool | str | None,
    max_length: int | None,
    stride: int,
    overflow: bool,
    pad_to_multiple_of: int | None,
    layout: PairLayout,
    model_max_length: int | None,
) -> RowPlan:
    """Make sense of the arguments of a call.

    Raises:
        UserError: a value is not allowed, or ``max_length`` is missing or would mean nothing.
    """
    pad = _choice("padding", padding, _PADDINGS)
    cut = _choice("truncation", truncation, _TRUNCATIONS)
    for name, value, least in (
        ("max_length", max_length, 0),
        ("stride", stride, 0),
        ("pad_to_multiple_of", pad_to_multiple_of, 1),
    ):
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, SupportsIndex) or index(value) < least
        ):
            raise UserError(f"{name} {value!r}: must be a whole number from {least}")
    if cut is None and pad != "max_length":
        if max_length is not None:
            raise UserError(
                f"max_length {max_length} alone changes nothing: give truncation=True to cut, "
                "or padding='max_length' to pad"
            )
    elif max_length is None:
        max_length = model_max_length
        if max_length is None:
            raise UserError(
                "give max_length: this tokenizer does not know its model's largest length"
            )
    multiple = pad_to_multiple_of or 1
    if cut and pad and max_length is not None and max_length % multiple:
        raise UserError(
            f"max_length {max_length} is not a multiple of pad_to_multiple_of {multiple}"
        )
    return RowPlan(
        padding=pad,
        truncation=cut,
        max_length=max_length,
        stride=stride if overflow else None,
        multiple=multiple,
        layout=layout,
    )


_PADDINGS: dict[bool | str | None, Literal["longest", "max_length"] | None] = {
    True: "longest",
    False: None,
    "longest": "longest",
    "max_length": "max_length",
    "do_not_pad": None,
}
_TRUNCATIONS: dict[bool | str | None, Truncation | None] = {
    True: "longest_first",
    False: None,
    None: None,
    "longest_first": "longest_first",
    "only_first": "only_first",
    "only_second": "only_second",
    "do_not_truncate": None,
}


def _choice(name: str, value: bool | str | None, choices: Mapping[bool | str | None, T]) -> T:
    try:
        return choices[value]
    except (KeyError, TypeError):
        near = did_you_mean(str(value), [choice for choice in choices if isinstance(choice, str)])
        allowed = ", ".join(map(repr, choices))
        raise UserError(f"{name} {value!r}{near}; allowed: {allowed}") from None


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
