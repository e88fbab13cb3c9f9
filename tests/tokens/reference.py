"""How results are compared with the reference's, and the real vocabularies for it."""

import gzip
import shutil
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heedful.tokens import Encoding, Pieces
from heedful.tokens.pieces import PieceBatch


def assert_same_call(ours: Encoding, theirs: Any) -> None:
    """Compare all items, and what can be asked of each row."""
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


def assert_same_pieces(text: str, ours: Pieces, theirs: Any, tokens: list[str]) -> None:
    """Compare pieces with the reference's, which gives spaces alone an empty slice."""
    assert ours.ids == theirs.ids, ascii(text)
    assert ours.words == theirs.word_ids, ascii(text)
    if ours.offsets != theirs.offsets:
        for at, (start, end), (first, last) in zip(
            ours.ids, ours.offsets, theirs.offsets, strict=True
        ):
            if not tokens[at].strip("Ġ"):
                assert (end, end) == (first, last), ascii(text)
                assert text[start:end] == " " * len(tokens[at]), ascii(text)
            else:
                assert (start, end) == (first, last), ascii(text)


def assert_same_batch(texts: Sequence[str], ours: PieceBatch, theirs: Any, blank: Any) -> int:
    """Compare the pieces of many texts, as `assert_same_pieces` does for one.

    Args:
        texts: the texts.
        ours: their pieces, with offsets.
        theirs: the reference's encodings.
        blank: for each id, whether its token is spaces alone.

    Returns:
        How many pieces are spaces alone: their slices are the reference's but for its beginning.
    """
    pieces = ours.arrays()
    ids = np.array([*chain.from_iterable(one.ids for one in theirs)], np.int64)
    offsets = np.array([*chain.from_iterable(one.offsets for one in theirs)], np.int64)
    begins, ends = offsets.reshape(-1, 2).T
    is_blank = np.array(blank)[ids]
    sizes = np.diff(pieces.bounds)
    if not (
        (sizes == [len(one.ids) for one in theirs]).all()
        and (ids == pieces.ids).all()
        and (np.where(is_blank, pieces.ends, pieces.begins) == begins).all()
        and (pieces.ends == ends).all()
    ):
        for index, (text, one) in enumerate(zip(texts, theirs, strict=True)):
            assert pieces.ids_of(index) == one.ids, ascii(text)
            where = slice(*pieces.bounds[index : index + 2])
            slices = [*zip(pieces.begins[where], pieces.ends[where], strict=True)]
            expected = [
                own if blank[at] else other
                for at, own, other in zip(one.ids, slices, one.offsets, strict=True)
            ]
            assert slices == expected, ascii(text)
        raise AssertionError("spaces alone end somewhere else")
    return int(is_blank.sum())


def blank_tokens(tokens: Iterable[str]) -> list[bool]:
    """Tell for each token whether it is spaces alone."""
    return [bool(token) and not token.strip("Ġ") for token in tokens]


def unpacked(folder: Path, to: Path) -> Path:
    """Unpack the vocabulary of a byte-level tokenizer."""
    for name in ("vocab.json", "merges.txt"):
        with gzip.open(folder / f"{name}.gz") as packed, (to / name).open("wb") as file:
            shutil.copyfileobj(packed, file)
    return to
