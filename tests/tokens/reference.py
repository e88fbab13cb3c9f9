"""Compare results with the reference's, and provide the real vocabularies for it."""

import gzip
import operator
import shutil
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heedful.tokens import Encoding, Pieces
from heedful.tokens.pieces import PieceBatch, PieceLists


def assert_same_call(ours: Encoding, theirs: Any) -> None:
    """Compare all items, and the results of each row's methods."""
    assert list(ours) == [name for name in ours if name in theirs]
    assert set(ours) == set(theirs)
    for name in theirs:
        expected = theirs[name]
        value = ours[name]
        if isinstance(expected, torch.Tensor | np.ndarray):
            assert type(value) is type(expected)
            assert value.dtype == expected.dtype
            assert value.shape == expected.shape
            expected, value = expected.tolist(), value.tolist()
        assert value == expected, name
    for row, encoding in enumerate(theirs.encodings):
        assert ours.word_ids(row) == encoding.word_ids
        assert ours.sequence_ids(row) == encoding.sequence_ids
        # The reference gives a special token together with the spaces that it took.
        assert ours.tokens(row) == [token.strip() for token in encoding.tokens]


def assert_same_pieces(text: str, ours: Pieces, theirs: Any) -> None:
    """Compare the pieces of a text with the reference's."""
    assert ours.ids == theirs.ids, ascii(text)
    assert ours.words == theirs.word_ids, ascii(text)
    assert ours.offsets == theirs.offsets, ascii(text)


def assert_same_batch(texts: Sequence[str], ours: PieceBatch, theirs: Sequence[Any]) -> None:
    """Compare the pieces of many texts, and which begin words, with the reference's."""
    pieces = ours.lists()
    if pieces.ids != [*chain.from_iterable(one.ids for one in theirs)] or pieces.offsets != [
        *chain.from_iterable(one.offsets for one in theirs)
    ]:
        for index, (text, one) in enumerate(zip(texts, theirs, strict=True)):
            where = slice(*pieces.bounds[index : index + 2])
            assert (pieces.ids[where], pieces.offsets[where]) == (one.ids, one.offsets), ascii(text)
    assert np.diff(pieces.bounds).tolist() == [len(one.ids) for one in theirs]
    begins_word = ours.arrays().begins_word.tolist()
    assert begins_word == [begins for one in theirs for begins in _begins_word(one.word_ids)]


def assert_as_alone(together: PieceBatch, alone: Sequence[Pieces]) -> None:
    """Compare the pieces of a batch, and which of them begin words, with those of single texts."""
    lists, expected = together.lists(), PieceLists.of_texts(alone)
    assert lists.ids == expected.ids
    assert lists.offsets == expected.offsets
    assert lists.bounds == expected.bounds
    begins_word = together.arrays().begins_word.tolist()
    assert begins_word == [begins for one in alone for begins in _begins_word(one.words)]


def _begins_word(words: Sequence[int]) -> Iterator[bool]:
    return map(operator.ne, words, (None, *words))


def unpacked(folder: Path, to: Path) -> Path:
    """Unpack the vocabulary of a byte-level tokenizer."""
    for name in ("vocab.json", "merges.txt"):
        with gzip.open(folder / f"{name}.gz") as packed, (to / name).open("wb") as file:
            shutil.copyfileobj(packed, file)
    return to
