"""Offsets are the slice of the text that a piece came from, even where the reference is wrong."""

import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from tests.tiny import SPECIAL

from heedful.tokens import BertTokenizer, Vocabulary

LETTERS = [
    *"abcdefghi中한",
    "\u1112",
    "\u1161",
    "\u11ab",
    "\u1b44",
    "\U0001d157",
    "\U0001d165",
    "\u08e1",
    "\u302e",
]
TOKENS = [*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS), "cafe", "##\u0307"]


def _slices(ours: BertTokenizer, text: str) -> list[tuple[str, str]]:
    """Return each piece and the text at its offsets."""
    pieces = ours.pieces(text)
    return [
        (token, text[start:end])
        for token, (start, end) in zip(
            ours.convert_ids_to_tokens(pieces.ids), pieces.offsets, strict=True
        )
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # What was dropped or changed inside a word is within its slice; what was dropped after
        # its last letter, or before its first, is not.
        ("caf\u00e9", [("cafe", "caf\u00e9")]),
        ("cafe\u0301 a", [("cafe", "cafe"), ("a", "a")]),
        ("c\u0327a\u200bfe", [("cafe", "c\u0327a\u200bfe")]),
        ("\u0301\ufeffcafe\0", [("cafe", "cafe")]),
        ("  \t\u3000CAFE\x85", [("cafe", "CAFE")]),
        # One character may make many pieces, which then share its slice.
        ("\ud55c", [("\u1112", "\ud55c"), ("##\u1161", "\ud55c"), ("##\u11ab", "\ud55c")]),
        # Words side by side.
        ("a中b,", [("a", "a"), ("中", "中"), ("b", "b"), ("[UNK]", ",")]),
        ("a[MASK]b", [("a", "a"), ("[MASK]", "[MASK]"), ("b", "b")]),
        ("[mask]", [("[UNK]", "["), ("[UNK]", "mask"), ("[UNK]", "]")]),
        # Characters beyond the basic plane count once, in whatever way they are stored.
        ("👨\u200d👩 a", [("[UNK]", "👨\u200d👩"), ("a", "a")]),
        # An unknown word is one piece, however long, and whatever canonical order did to its ends.
        ("z" * 5 + " " + "a" * 101, [("[UNK]", "zzzzz"), ("[UNK]", "a" * 101)]),
        ("\U0001d165\u1b44z", [("[UNK]", "\U0001d165\u1b44z")]),
        ("z\U0001d165\u1b44 a", [("[UNK]", "z\U0001d165\u1b44"), ("a", "a")]),
    ],
)
def test_slices(text: str, expected: list[tuple[str, str]]) -> None:
    assert _slices(BertTokenizer(Vocabulary(TOKENS)), text) == expected


def test_a_capital_that_becomes_two_letters() -> None:
    # U+0130 is "i" and U+0307 in lower case; with accents kept both are there.
    ours = BertTokenizer(Vocabulary(TOKENS), strip_accents=False)
    assert _slices(ours, "a İ") == [("a", "a"), ("i", "İ"), ("##\u0307", "İ")]


@pytest.mark.parametrize(
    ("text", "ours", "theirs"),
    [
        # U+1B44 (class 9) goes before U+1D165 (class 216), and both stay, being no nonspacing
        # marks of Unicode 8. The reference hands out the places in the order that results.
        ("a\U0001d165\u1b44", [(0, 1), (2, 3), (1, 2)], [(0, 1), (1, 2), (2, 3)]),
        ("a\u08e1\u302e b", [(0, 1), (2, 3), (1, 2), (4, 5)], [(0, 1), (1, 2), (2, 3), (4, 5)]),
        # U+0301 (class 230) changes places with U+302E (class 224) and is then dropped; the
        # reference gives its place to the other.
        ("a\u0301\u302e", [(0, 1), (2, 3)], [(0, 1), (1, 2)]),
        # U+1D15E is U+1D157 and U+1D165; the latter goes behind U+0ECA (class 122).
        ("\U0001d15e\u0eca", [(0, 1), (0, 1)], [(0, 1), (1, 2)]),
    ],
)
def test_where_canonical_order_moves_marks_ours_are_the_exact_slices(
    text: str,
    ours: list[tuple[int, int]],
    theirs: list[tuple[int, int]],
    compiled: Callable[..., Any],
) -> None:
    tokenizer = BertTokenizer(Vocabulary(TOKENS))
    reference = compiled(TOKENS, do_lower_case=True).encode(text, add_special_tokens=False)
    pieces = tokenizer.pieces(text)
    assert pieces.ids == reference.ids
    assert pieces.offsets == ours
    assert reference.offsets == theirs
    for token, piece in _slices(tokenizer, text):
        assert token.removeprefix("##") in unicodedata.normalize("NFD", piece)


def test_words_keep_their_own_offsets_and_numbers() -> None:
    ours = BertTokenizer(Vocabulary(TOKENS))
    encoding = ours(
        ["cafe,", "", "\u0301", "a中"], is_split_into_words=True, return_offsets_mapping=True
    )
    assert encoding.offset_mapping == [(0, 0), (0, 4), (4, 5), (0, 1), (1, 2), (0, 0)]
    assert encoding.word_ids() == [None, 0, 0, 3, 3, None]
