"""The origin of an encoding: its rows, their pieces, and the texts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heedful.tokens.batch import Words
from heedful.tokens.columns import (
    id_rows,
    mask_rows,
    offset_rows,
    padded_lengths,
    special_rows,
    type_rows,
)
from heedful.tokens.pieces import Offsets, PieceBatch, Pieces
from heedful.tokens.rows import Row, Rows
from heedful.tokens.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Origin:
    """The rows, texts and pieces that an encoding is made from."""

    rows: Rows
    texts: Sequence[Words]
    """The first text of each sample."""
    second_texts: Sequence[Words | None]
    """The second text of each sample, or None."""
    pieces: PieceBatch
    """The pieces of the first texts."""
    second_pieces: PieceBatch
    """The pieces of the second texts; empty for a sample without a second text."""
    locate: Callable[[Words], Pieces]
    """Computes the pieces of a text, with offsets and word indices."""
    spell: Callable[[Words], list[str]]
    """Computes the tokens of a text; see `PieceEncoder.spelled`."""
    vocabulary: Vocabulary
    _located: dict[int, tuple[Pieces, Pieces]] = field(default_factory=dict)

    def lists(self, wanted: Mapping[str, bool]) -> dict[str, list[Any]]:
        """Return the wanted items, each with one list or number per row."""
        rows, pieces, second_pieces = self.rows, self.pieces.lists(), self.second_pieces.lists()
        items: dict[str, Callable[[], list[Any]]] = {
            "input_ids": lambda: id_rows(rows, pieces, second_pieces, self._pad_id),
            "token_type_ids": lambda: type_rows(rows),
            "attention_mask": lambda: mask_rows(rows),
            "special_tokens_mask": lambda: special_rows(rows),
            "offset_mapping": lambda: offset_rows(rows, pieces, second_pieces),
            "length": lambda: list(padded_lengths(rows)),
            "overflow_to_sample_mapping": lambda: list(rows.samples),
        }
        return {name: items[name]() for name in wanted if wanted[name]}

    def arrays(self, wanted: Mapping[str, bool]) -> dict[str, Any]:
        """Return the wanted items as arrays. All rows must have the same length."""
        from heedful.tokens.tensors import Grid

        rows = self.rows
        grid = Grid(rows, self.pieces.arrays(), self.second_pieces.arrays())
        items: dict[str, Callable[[], Any]] = {
            "input_ids": lambda: grid.ids(self._pad_id),
            "token_type_ids": grid.types,
            "attention_mask": grid.mask,
            "special_tokens_mask": grid.special,
            "offset_mapping": grid.offsets,
            "length": lambda: padded_lengths(rows),
            "overflow_to_sample_mapping": lambda: rows.samples,
        }
        return {name: items[name]() for name in wanted if wanted[name]}

    def tokens(self, index: int) -> list[str]:
        """Return the tokens of a row, including special tokens and padding."""
        row = self._row(index)
        first, second = (pieces.ids_of(row.sample) for pieces in (self.pieces, self.second_pieces))
        tokens = [
            self.vocabulary.tokens[token_id] for token_id in row.ids(first, second, self._pad_id)
        ]
        if self.vocabulary.special.unk_token not in tokens:
            return tokens
        other = self.second_texts[row.sample]
        texts = self.spell(self.texts[row.sample]), [] if other is None else self.spell(other)
        spelled: list[str | None] = row.values(*texts, special=None, padding=None)
        return [token if own is None else own for token, own in zip(tokens, spelled, strict=True)]

    def word_ids(self, index: int) -> list[int | None]:
        """Return the index of each token's word in its text; None for special tokens."""
        row = self._row(index)
        first, second = self._located_pieces(row.sample)
        return row.values(first.words, second.words, special=None, padding=None)

    def offsets(self, index: int) -> list[Offsets | None]:
        """Return the start and end of each token in its text; None for special tokens."""
        row = self._row(index)
        first, second = self._located_pieces(row.sample)
        return row.values(first.offsets, second.offsets, special=None, padding=None)

    def sequence_ids(self, index: int) -> list[int | None]:
        """Return 0 for tokens of the first text, 1 for the second, None for special tokens."""
        row = self._row(index)
        first, second = row.window.first, row.window.second
        ones = [] if second is None else [1] * second.stop
        return row.values([0] * first.stop, ones, special=None, padding=None)

    def _located_pieces(self, sample: int) -> tuple[Pieces, Pieces]:
        if sample not in self._located:
            second = self.second_texts[sample]
            self._located[sample] = (
                self.locate(self.texts[sample]),
                Pieces() if second is None else self.locate(second),
            )
        return self._located[sample]

    @property
    def _pad_id(self) -> int:
        return self.vocabulary.ids[self.vocabulary.special.pad_token]

    def _row(self, index: int) -> Row:
        sample = self.rows.samples[index]
        return self.rows.row(index, self.pieces.start(sample), self.second_pieces.start(sample))
