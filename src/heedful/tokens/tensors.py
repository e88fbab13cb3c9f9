"""The results of a tokenizer call as arrays, built from arrays of pieces without lists.

Shapes: R rows of W tokens each, including padding.
"""

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices, PieceArrays, ranges
from heedful.tokens.rows import Rows


class Grid:
    """All rows as one array of R rows with W cells each.

    Args:
        rows: at least one row. All have the same length, including padding.
        firsts: the pieces of the first texts.
        seconds: the pieces of the second texts.
    """

    def __init__(self, rows: Rows, firsts: PieceArrays, seconds: PieceArrays) -> None:
        self._layout = layout = rows.layout
        self._firsts, self._seconds = firsts, seconds
        self._lengths = np.array(rows.lengths)
        self._width = max(rows.width, rows.lengths[0])
        padding = self._width - self._lengths if layout.pads_left else 0
        self._row_starts = np.arange(len(rows.samples)) * self._width + padding
        self._is_pair = np.array(rows.is_pair)
        starts, second_starts = np.array(rows.first_starts), np.array(rows.second_starts)
        sizes = np.array(rows.first_stops) - starts
        second_sizes = np.array(rows.second_stops) - second_starts
        # The start of each second text in its row, then the cell of each piece.
        self._splits = len(layout.begin) + sizes + len(layout.middle)
        self._cells = ranges(self._row_starts + len(layout.begin), sizes)
        self._pieces = ranges(starts, sizes)
        self._second_cells = ranges(self._row_starts + self._splits, second_sizes)
        self._second_pieces = ranges(second_starts, second_sizes)

    def ids(self, pad_id: int) -> Indices:
        """Return the token ids. Shape (R, W)."""
        ids = self._filled(self._firsts.ids, self._seconds.ids, pad_id)
        layout, pairs = self._layout, self._is_pair
        for cells, special in (
            (self._row_starts, layout.begin),
            ((self._row_starts + self._splits - len(layout.middle))[pairs], layout.middle),
            (self._row_starts + self._lengths - len(layout.end), layout.end),
        ):
            for index, token_id in enumerate(special):
                ids[cells + index] = token_id
        return self._shaped(ids)

    def types(self) -> Indices:
        """Return the token types. Shape (R, W)."""
        layout, columns = self._layout, self._columns()
        splits = np.where(self._is_pair, self._splits, self._width)[:, None]
        types = (columns >= splits).astype(np.int64) * layout.second_type
        if layout.closing_type is not None:
            types[columns == self._lengths[:, None] - 1] = layout.closing_type
        types[~self._is_token(columns)] = layout.padding_type
        return types

    def mask(self) -> Indices:
        """Return 1 for each token, 0 for padding. Shape (R, W)."""
        return self._is_token(self._columns()).astype(np.int64)

    def special(self) -> Indices:
        """Return 1 for special tokens and padding, 0 for other tokens. Shape (R, W)."""
        special = np.ones(len(self._lengths) * self._width, np.int64)
        special[self._cells] = 0
        special[self._second_cells] = 0
        return self._shaped(special)

    def offsets(self) -> Indices:
        """Return start and end offsets of each token; 0 elsewhere. Shape (R, W, 2)."""
        begins = self._filled(self._firsts.begins, self._seconds.begins, 0)
        ends = self._filled(self._firsts.ends, self._seconds.ends, 0)
        return np.stack([self._shaped(begins), self._shaped(ends)], axis=-1)

    def _columns(self) -> Indices:
        """Return the index of each cell in its row, from 0 at the first token. Shape (R, W)."""
        first_columns = self._row_starts - np.arange(len(self._lengths)) * self._width
        return np.arange(self._width) - first_columns[:, None]

    def _is_token(self, columns: Indices) -> NDArray[np.bool_]:
        return (columns >= 0) & (columns < self._lengths[:, None])

    def _filled(self, first: Indices, second: Indices, filler: int) -> Indices:
        """Return all cells, with the value of each piece in its cell."""
        cells = np.full(len(self._lengths) * self._width, filler, np.int64)
        cells[self._cells] = first[self._pieces]
        cells[self._second_cells] = second[self._second_pieces]
        return cells

    def _shaped(self, cells: Indices) -> Indices:
        return cells.reshape(-1, self._width)
