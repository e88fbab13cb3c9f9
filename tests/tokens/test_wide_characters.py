"""WordPiece removes only accents from full-width letters, compatibility forms and the like.

No form is put in place of another (NFKC) but where accents are stripped, which decomposes what is
canonically the same. The table says what that means; every such character equals the reference's.
"""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heedful.tokens import BertTokenizer, Vocabulary, encoder
from heedful.tokens.vocabulary import read_tokens

BLOCKS = [(0x2460, 0x24FF), (0x3000, 0x33FF), (0xF900, 0xFAFF), (0xFE10, 0xFE6F), (0xFF00, 0xFFEF)]
BLOCKS += [(0x2F800, 0x2FA1F), (0x20000, 0x2000F), (0xFB00, 0xFB06)]


@pytest.fixture(scope="module")
def vocabularies(data_folder: Path) -> dict[str, Vocabulary]:
    """Provide the Chinese and the multilingual vocabulary."""
    packed = (data_folder / "tokenizers/multilingual-cased/vocab.txt.gz").read_bytes()
    many = gzip.decompress(packed).decode("utf-8").split("\n")[:-1]
    return {
        "zh": Vocabulary(read_tokens(data_folder / "zh/vocab.txt")),
        "many": Vocabulary(many),
    }


KINDS = [("zh", True), ("zh", False), ("many", False)]
"""Vocabulary, and whether text is put in lower case, which strips accents, too."""


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        # Full-width letters become small ones of full width, and are words like other letters.
        ("\uff21\uff22", ["\uff41 ##\uff42", "[UNK]", "\uff21 ##\uff22"]),
        ("\uff11\uff12", ["\uff11\uff12", "\uff11\uff12", "\uff11 ##\uff12"]),
        # A compatibility ideograph is canonically another one, which stands for it where accents
        # are stripped.
        ("\uf900", ["\u8c48", "[UNK]", "[UNK]"]),
        # A voiced kana loses its mark there.
        ("\u30ac", ["\u30ab", "[UNK]", "\u30ac"]),
        ("\u304b\u3099", ["\u304b", "[UNK]", "[UNK]"]),
        # Ligatures and squared words are not taken apart.
        ("\ufb01", ["[UNK]", "[UNK]", "[UNK]"]),
        ("\u337f", ["[UNK]", "[UNK]", "[UNK]"]),
        # The ideographic space is a space, and the full-width comma a word.
        ("\u4e2d\u3000\uff0c", ["\u4e2d \uff0c", "\u4e2d \uff0c", "\u4e2d \uff0c"]),
    ],
)
def test_what_becomes_of_them(
    vocabularies: dict[str, Vocabulary], text: str, pieces: list[str]
) -> None:
    made = [
        BertTokenizer(vocabularies[name], do_lower_case=lower).tokenize(text)
        for name, lower in KINDS
    ]
    assert [" ".join(tokens) for tokens in made] == pieces


@pytest.mark.parametrize(("name", "lower"), KINDS)
def test_each_is_as_in_the_reference(
    vocabularies: dict[str, Vocabulary],
    compiled: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    lower: bool,
) -> None:
    monkeypatch.setattr(encoder, "BULK", 0)
    monkeypatch.setattr(encoder, "MIN_BULK_CHARACTERS", 0)
    ours = BertTokenizer(vocabularies[name], do_lower_case=lower)
    theirs = compiled(ours.vocabulary.tokens, do_lower_case=lower)
    every = [chr(code) for low, high in BLOCKS for code in range(low, high + 1)]
    texts = [f"{one}\u4e2da{one}b {one}{one}" for one in every] + [" ".join(every)]
    together = ours._encoder.batch(texts, located=True).lists()
    expected = theirs.encode_batch(texts, add_special_tokens=False)
    for index, (text, one) in enumerate(zip(texts, expected, strict=True)):
        where = slice(*together.bounds[index : index + 2])
        alone = ours.pieces(text)
        assert (alone.ids, alone.offsets) == (one.ids, one.offsets), ascii(text)
        assert (together.ids[where], together.offsets[where]) == (one.ids, one.offsets), ascii(text)
