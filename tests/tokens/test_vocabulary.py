"""A vocabulary is read as in the reference, and a broken one is reported."""

from pathlib import Path
from typing import Any

import pytest
from tests.tiny import SPECIAL

from heedful.errors import UserError
from heedful.tokens import BertTokenizer, SpecialTokens, Vocabulary, vocabulary
from heedful.tokens.vocabulary import read_tokens, write_tokens

HEAD = "".join(f"{token}\n" for token in SPECIAL)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a\nb\n", ["a", "b"]),
        ("a\nb", ["a", "b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("a\rb\r", ["a", "b"]),
        ("a\n\nb\n\n", ["a", "", "b", ""]),
        ("a \n\u2028\n\x85\n\x1c\n\u00a0b\n", ["a ", "\u2028", "\x85", "\x1c", "\u00a0b"]),
        ("\ufeffa\n", ["a"]),
    ],
)
def test_lines(tmp_path: Path, text: str, tokens: list[str], reference: Any) -> None:
    from transformers.models.bert.tokenization_bert import load_vocab

    path = tmp_path / "vocab.txt"
    path.write_bytes(text.encode())
    assert read_tokens(path) == tokens
    ids = {token: at for at, token in enumerate(tokens)}
    if not text.startswith("\ufeff"):  # the reference takes the mark for part of a token
        assert load_vocab(path) == ids  # type: ignore[no-untyped-call]


def test_written_tokens_are_read_again(tmp_path: Path) -> None:
    tokens = [*SPECIAL, "a ", "", "\u2028", "é", "##b"]
    write_tokens(tmp_path / "vocab.txt", tokens)
    assert read_tokens(tmp_path / "vocab.txt") == tokens


def test_empty_lines_take_a_place_and_match_nothing(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text(HEAD + "\na\n\nb\n\n")
    ours = BertTokenizer(path)
    assert ours.vocab_size == 10
    assert ours.encode_batch(["a b", ""]) == [[6, 8], []]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "a\nb\na\n", "'a' is on lines 6 and 8"),
        (HEAD.replace("[UNK]", "[unk]"), r"the unk_token '\[UNK\]' is not in it"),
        (HEAD.replace("[SEP]", "SEP"), r"the sep_token '\[SEP\]' is not in it .did you mean 'SEP'"),
        ("a\n", "is not in it"),
        ("", "no tokens in it"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        BertTokenizer(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_no_vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "vocab.txt"
    with pytest.raises(UserError, match="no such file"):
        BertTokenizer(path)
    with pytest.raises(UserError, match="no such file"):
        BertTokenizer(tmp_path)
    path.write_bytes(HEAD.encode() + b"\xff")
    with pytest.raises(UserError, match=f"not UTF-8 at byte {len(HEAD)}"):
        BertTokenizer(path)
    monkeypatch.setattr(vocabulary, "MAX_VOCABULARY_BYTES", 10)
    with pytest.raises(UserError, match="at most 10 are read"):
        BertTokenizer(path)


def test_the_mask_alone_may_be_missing() -> None:
    ours = BertTokenizer(Vocabulary([*SPECIAL[:4], "a", "[", "mask", "]"]))
    assert ours.mask_token_id is None
    assert ours.all_special_ids == [1, 3, 0, 2]
    assert ours.encode_batch(["a[MASK]"]) == [[4, 5, 6, 7]]


def test_other_special_tokens() -> None:
    special = SpecialTokens(
        unk_token="<unk>",
        sep_token="</s>",
        pad_token="<pad>",
        cls_token="<s>",
        mask_token="<mask>",
        additional_special_tokens=("<s><s>", "<e1>"),
    )
    tokens = ["<pad>", "<unk>", "<s>", "</s>", "<mask>", "<s><s>", "<e1>", "a", "<", "e"]
    ours = BertTokenizer(Vocabulary(tokens, special))
    # Of special tokens that begin at one place the longest is taken.
    assert ours.encode("<s><s><s>a<e1>b<e") == [2, 5, 2, 7, 6, 1, 8, 9, 3]
    assert ours.decode([2, 7, 6, 3], skip_special_tokens=True) == "a"
    with pytest.raises(UserError, match="additional special token '<e2>' is not in it"):
        Vocabulary(SPECIAL, SpecialTokens(additional_special_tokens=("<e2>",)))


@pytest.mark.parametrize("token", ["", " [MASK]", "[MASK]\n", "a\x85"])
def test_special_tokens_have_no_spaces_around_them(token: str) -> None:
    with pytest.raises(UserError, match="must be text that neither begins nor ends with a space"):
        SpecialTokens(mask_token=token)
    with pytest.raises(UserError, match="must be text that neither begins nor ends with a space"):
        SpecialTokens(additional_special_tokens=(token,))
