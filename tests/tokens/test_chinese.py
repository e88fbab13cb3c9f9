"""How Chinese BERTs treat full-width letters and compatibility characters.

BERT's normalisation decomposes canonically (NFD, where accents are stripped), and never by
compatibility (NFKC): see docs/chinese.md.
"""

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heedful.tokens import BertTokenizer, Vocabulary
from heedful.tokens.vocabulary import read_tokens

CASES = [
    # What is given, its tokens, and their slices.
    ("ＢＥ１", ["ｂ", "##ｅ", "##１"], [(0, 1), (1, 2), (2, 3)]),
    ("BE1", ["be", "##1"], [(0, 2), (2, 3)]),
    ("\uf900\uf901", ["豈", "更"], [(0, 1), (1, 2)]),
    ("\U0002f800", ["丽"], [(0, 1)]),
    ("\u3000全，Ａ", ["全", "，", "ａ"], [(1, 2), (2, 3), (3, 4)]),
    ("\u30ac", ["カ"], [(0, 1)]),
    ("\u2163", ["ⅳ"], [(0, 1)]),
    ("\u3231", ["[UNK]"], [(0, 1)]),
    ("臺灣", ["臺", "灣"], [(0, 1), (1, 2)]),
    ("\u5929\ufe00\u6c23", None, None),  # a variation selector
    ("\U00020000好\u200b吗", None, None),
]


@pytest.mark.parametrize(("text", "tokens", "offsets"), CASES)
def test_wide_and_compatible_characters(
    data_folder: Path,
    compiled: Callable[..., Any],
    text: str,
    tokens: list[str] | None,
    offsets: list[tuple[int, int]] | None,
) -> None:
    vocabulary = Vocabulary(read_tokens(data_folder / "zh/vocab.txt"))
    for lower_case in (True, False):
        ours = BertTokenizer(vocabulary, do_lower_case=lower_case)
        theirs = compiled(vocabulary.tokens, do_lower_case=lower_case)
        for given in (text, unicodedata.normalize("NFKC", text), f"x{text}y"):
            pieces, expected = ours.pieces(given), theirs.encode(given, add_special_tokens=False)
            assert (pieces.ids, pieces.offsets) == (expected.ids, expected.offsets)
        if lower_case and tokens is not None:
            pieces = ours.pieces(text)
            assert [vocabulary.token(token_id) for token_id in pieces.ids] == tokens
            assert pieces.offsets == offsets
