"""SentencePiece's tokenizers return what the reference's return, on what is hard for them."""

from pathlib import Path
from typing import Any

import pytest

from heedful.tokens import AlbertTokenizer

HARD = [
    *("", " ", "  ", "\t", "a ", "a  ", " a", "  a", "a\u200b", "a\r\nb", "x\u200db", "▁", "▁▁a"),
    *("a▁b", "a ▁b", "\x01", "a\x01b", "ab\x01c", "U.S. a", "a .", ". .", " .", ".  ", "''", "'''"),
    *("``a''  ''b", "[MASK]", "a [MASK] b", " [MASK]", "a \t[MASK].", "<unk>x", "[CLS]"),
    *(
        "＜unk＞x😀😁 😂",
        "＜mask＞ a<mask>b",
        "İstanbul Σ",
        "Ünï  ﬁne ﬁ\u0301x é e\u0301 1,000 10,000,",
    ),
    *(
        "北京 １２３　㍿、株式会社。",
        "각 각",
        "\u0301a \u0301 ",
        "👩🏽\u200d🚀 ☕\ufe0f",
        "a\u1b44b",
        "n\u0303o",
    ),
]


@pytest.fixture(scope="module")
def albert_folder(data_folder: Path) -> Path:
    return data_folder / "tokenizers/albert"


@pytest.fixture(scope="module")
def albert(albert_folder: Path) -> AlbertTokenizer:
    return AlbertTokenizer.from_pretrained(albert_folder)


@pytest.fixture(scope="module")
def albert_reference(albert_folder: Path) -> Any:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    transformers.logging.set_verbosity_error()
    return transformers.AlbertTokenizerFast(vocab_file=str(albert_folder / "spiece.model"))


@pytest.mark.parametrize("text", HARD, ids=ascii)
def test_hard_texts(albert: AlbertTokenizer, albert_reference: Any, text: str) -> None:
    theirs = albert_reference.backend_tokenizer.encode(text, add_special_tokens=False)
    ours = albert.pieces(text)
    assert (ours.ids, ours.offsets, ours.words) == (theirs.ids, theirs.offsets, theirs.word_ids)
    assert albert.encode_batch([text]) == [ours.ids]


def test_what_is_dropped_at_the_start_moves_no_offsets(
    albert: AlbertTokenizer, albert_reference: Any
) -> None:
    text = "\x01ab c"
    theirs = albert_reference.backend_tokenizer.encode(text, add_special_tokens=False)
    ours = albert.pieces(text)
    assert ours.ids == theirs.ids
    assert [text[start:end] for start, end in ours.offsets] == ["ab", " c"]
    assert [text[start:end] for start, end in theirs.offsets] == ["\x01a", "b "]
