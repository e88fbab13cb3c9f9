"""Turn the arguments of a tokenizer call into a plan for truncating and padding rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Literal, SupportsIndex, TypeVar

from heedful.errors import UserError, did_you_mean
from heedful.tokens.layout import PairLayout
from heedful.tokens.rows import Rows, Truncation, windows

T = TypeVar("T")
Columns = tuple[
    Sequence[int], Sequence[int], Sequence[int], Sequence[int], Sequence[int], Sequence[bool]
]
"""Columns of rows: sample, start and stop in the first and in the second texts, and is_pair."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowPlan:
    """How to truncate and pad rows. Made by `plan_rows`."""

    padding: Literal["longest", "max_length"] | None
    truncation: Truncation | None
    max_length: int | None
    """Tokens of a row, including special tokens; None without truncation or padding to it."""
    stride: int | None
    """Number of pieces that adjacent windows share; None if truncated pieces get no windows."""
    multiple: int
    """The length of a padded row is a multiple of this."""
    layout: PairLayout
    """The special tokens of each row; empty if none are added."""

    def rows(
        self, first_bounds: list[int], second_bounds: list[int], is_pair: Sequence[bool]
    ) -> Rows:
        """Return the rows of all samples.

        Args:
            first_bounds: the start of each first text among the pieces of all first texts, and the
                end of the last one.
            second_bounds: like ``first_bounds`` for second texts. A sample without a second text
                has no pieces.
            is_pair: whether each sample has a second text.

        Raises:
            UserError: the special tokens of a row do not fit; or see `windows`.
        """
        columns: Columns = (
            range(len(is_pair)),
            first_bounds[:-1],
            first_bounds[1:],
            second_bounds[:-1],
            second_bounds[1:],
            is_pair,
        )
        lengths = self._lengths(columns)
        if self.truncation is not None and self.max_length is not None and lengths:
            special = self.layout.size(pair=any(is_pair))
            if self.max_length < special:
                raise UserError(
                    f"max_length {self.max_length}: the {special} special tokens of a row do not "
                    "fit"
                )
            if max(lengths) > self.max_length:
                columns = self._cut(columns, self.max_length, self.truncation)
                lengths = self._lengths(columns)
        samples, first_starts, first_stops, second_starts, second_stops, is_pair = columns
        return Rows(
            samples=samples,
            first_starts=first_starts,
            first_stops=first_stops,
            second_starts=second_starts,
            second_stops=second_stops,
            is_pair=is_pair,
            layout=self.layout,
            lengths=lengths,
            width=self.width(lengths),
        )

    def _lengths(self, columns: Columns) -> list[int]:
        """Return the length of each row, including special tokens."""
        _, *bounds, is_pair = columns
        single, pair = self.layout.size(pair=False), self.layout.size(pair=True)
        if not any(is_pair):
            return [stop - start + single for start, stop in zip(*bounds[:2], strict=True)]
        return [
            stop - start + second_stop - second_start + (pair if paired else single)
            for start, stop, second_start, second_stop, paired in zip(*bounds, is_pair, strict=True)
        ]

    def _cut(self, columns: Columns, max_length: int, truncation: Truncation) -> Columns:
        """Cut each row that is too long into one or more rows."""
        rows: list[tuple[int, int, int, int, int, bool]] = []
        single, pair = self.layout.size(pair=False), self.layout.size(pair=True)
        for sample, start, stop, second_start, second_stop, paired in zip(*columns, strict=True):
            room = max_length - (pair if paired else single)
            if stop - start + second_stop - second_start <= room:
                rows.append((sample, start, stop, second_start, second_stop, paired))
                continue
            size, second_size = stop - start, second_stop - second_start if paired else None
            for window in windows(
                size, second_size, room=room, truncation=truncation, stride=self.stride
            ):
                second = window.second or slice(0, 0)
                rows.append(
                    (
                        sample,
                        start + window.first.start,
                        start + window.first.stop,
                        second_start + second.start,
                        second_start + second.stop,
                        paired,
                    )
                )
        return tuple(map(list, zip(*rows, strict=True)))  # type: ignore[return-value]

    def width(self, lengths: Sequence[int]) -> int:
        """Return the padded length for rows of these lengths; 0 without padding."""
        if self.padding is None or not lengths:
            return 0
        longest = max(lengths)
        if self.padding == "max_length":
            assert self.max_length is not None  # ensured by `plan_rows`
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
    """Return the plan for the arguments of a call.

    Raises:
        UserError: a value is invalid, or ``max_length`` is missing or has no effect.
    """
    pad = _choice("padding", padding, _PADDINGS)
    cut = _choice("truncation", truncation, _TRUNCATIONS)
    for name, value, minimum in (
        ("max_length", max_length, 0),
        ("stride", stride, 0),
        ("pad_to_multiple_of", pad_to_multiple_of, 1),
    ):
        if value is not None and (
            isinstance(value, bool)
            or not isinstance(value, SupportsIndex)
            or index(value) < minimum
        ):
            raise UserError(f"{name} {value!r}: must be a whole number from {minimum}")
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
