"""The results of a tokenizer call as lists, one list per row."""

from collections.abc import Sequence
from typing import TypeVar

from heedful.tokens.pieces import PieceLists
from heedful.tokens.rows import Rows

T = TypeVar("T")
Around = tuple[Sequence[T], Sequence[T], Sequence[T]]
"""The values of the special tokens before a text, between the texts of a pair, and after."""


def id_rows(rows: Rows, firsts: PieceLists, seconds: PieceLists, pad_id: int) -> list[list[int]]:
    """Return the token ids of each row."""
    layout = rows.layout
    around = layout.begin, layout.middle, layout.end
    return _laid_out(rows, firsts.ids, seconds.ids, around, padding=pad_id)


def offset_rows(rows: Rows, firsts: PieceLists, seconds: PieceLists) -> list[list[tuple[int, int]]]:
    """Return the offsets of each row; (0, 0) for special tokens and padding."""
    layout, nowhere = rows.layout, ((0, 0),)
    around = (
        nowhere * len(layout.begin),
        nowhere * len(layout.middle),
        nowhere * len(layout.end),
    )
    return _laid_out(rows, firsts.offsets, seconds.offsets, around, padding=(0, 0))


def type_rows(rows: Rows) -> list[list[int]]:
    """Return the token types of each row."""
    layout = rows.layout
    types = [[0] * length for length in rows.lengths]
    if layout.second_type and any(rows.is_pair):
        for row, start, stop, length, paired in zip(
            types, rows.first_starts, rows.first_stops, rows.lengths, rows.is_pair, strict=True
        ):
            if paired:
                split = layout.second_start(stop - start)
                row[split:] = [layout.second_type] * (length - split)
    if layout.closing_type is not None:
        for row in types:
            row[-1] = layout.closing_type
    return _filled_up(rows, types, layout.padding_type)


def mask_rows(rows: Rows) -> list[list[int]]:
    """Return 1 for each token of each row, 0 for padding."""
    return _filled_up(rows, [[1] * length for length in rows.lengths], 0)


def special_rows(rows: Rows) -> list[list[int]]:
    """Return 1 for special tokens and padding, 0 for other tokens."""
    layout, special = rows.layout, (1,)
    around = (
        special * len(layout.begin),
        special * len(layout.middle),
        special * len(layout.end),
    )
    no_first = [0] * max(rows.first_stops, default=0)
    no_second = [0] * max(rows.second_stops, default=0)
    return _laid_out(rows, no_first, no_second, around, padding=1)


def padded_lengths(rows: Rows) -> Sequence[int]:
    """Return the length of each row, including padding."""
    return [max(length, rows.width) for length in rows.lengths] if rows.width else rows.lengths


def _laid_out(
    rows: Rows, first: list[T], second: list[T], around: Around[T], *, padding: T
) -> list[list[T]]:
    """Return one value per token of each row, in order.

    Args:
        rows: the rows.
        first: the values of all pieces of the first texts.
        second: the values of all pieces of the second texts.
        around: the values of special tokens.
        padding: the value of padding.
    """
    begin, middle, end = around
    if any(rows.is_pair):
        values = [
            [*begin, *first[start:stop], *middle, *second[second_start:second_stop], *end]
            if paired
            else [*begin, *first[start:stop], *end]
            for start, stop, second_start, second_stop, paired in zip(
                rows.first_starts,
                rows.first_stops,
                rows.second_starts,
                rows.second_stops,
                rows.is_pair,
                strict=True,
            )
        ]
    else:
        values = [
            [*begin, *first[start:stop], *end]
            for start, stop in zip(rows.first_starts, rows.first_stops, strict=True)
        ]
    return _filled_up(rows, values, padding)


def _filled_up(rows: Rows, values: list[list[T]], padding: T) -> list[list[T]]:
    """Pad rows to their width, if any."""
    if not rows.width:
        return values
    return [rows.layout.padded(row, [padding] * (rows.width - len(row))) for row in values]
