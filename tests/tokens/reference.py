"""How results are compared with the reference's, and the real vocabularies for it."""

import gzip
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heedful.tokens import Encoding, Pieces


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


def unpacked(folder: Path, to: Path) -> Path:
    """Unpack the vocabulary of a byte-level tokenizer."""
    for name in ("vocab.json", "merges.txt"):
        with gzip.open(folder / f"{name}.gz") as packed, (to / name).open("wb") as file:
            shutil.copyfileobj(packed, file)
    return to
