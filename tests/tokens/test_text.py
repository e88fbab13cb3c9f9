import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.errors import UserError
from heedful.tokens import TextTokenizer, text
from heedful.tokens.text import BYTES, EOS, MAX_PIECE, PAD, SPACE, UNKNOWN

PIECES = [
    "▁",
    *"abcté.,'\u00a0<",
    "▁a",
    "▁b",
    "▁t",
    "▁.",
    "ab",
    "aba",
    "bab",
    "▁ab",
    "▁abab",
    "the",
]
PIECES += ["▁the", "...", "</s", "0x", "cab", "▁\u00a0", "日本", "日本語", "tbabtbab"]
TOKENS = [EOS, UNKNOWN, *BYTES, *PIECES, PAD]
OURS = TextTokenizer(TOKENS)

PARTS = st.one_of(
    st.characters(exclude_categories=["Cs"]),
    st.sampled_from([*PIECES, " ", "  ", "\n", "\t", "\0", EOS, PAD, "<0x41>", "😀", "\U0010ffff"]),
    st.text("ab ", max_size=8),
)
TEXTS = st.lists(PARTS, max_size=20).map("".join)


def ids_of(text: str) -> list[int]:
    return OURS.encode_batch([text])[0]


def pieces_of(text: str) -> list[str]:
    return OURS.pieces(ids_of(text))


@given(text=TEXTS)
def test_every_text_comes_back_as_it_was(text: str) -> None:
    assert OURS.decode(ids_of(text)) == text


@given(text=TEXTS)
def test_pieces_are_the_longest_from_left_to_right(text: str) -> None:
    # The same said in another way: one pattern over the whole text. What stands for the mark itself
    # is in no piece.
    marked = (SPACE + text.replace(SPACE, "\ufdd0").replace(" ", SPACE)) if text else ""
    longest_first = sorted(PIECES, key=len, reverse=True)
    found = re.findall("|".join([*map(re.escape, longest_first), r"[\s\S]"]), marked)
    expected = [
        part
        for piece in found
        for part in (
            [piece]
            if piece in PIECES
            else [BYTES[byte] for byte in piece.replace("\ufdd0", SPACE).encode()]
        )
    ]
    if "\ufdd0" not in text:
        assert pieces_of(text) == expected


def test_pieces_of_a_sentence() -> None:
    assert pieces_of("the  ababab, ") == ["▁the", "▁", "▁abab", "ab", ",", "▁"]
    assert pieces_of("") == []
    assert pieces_of(" ") == ["▁", "▁"]
    assert pieces_of("日本語の") == ["▁", "日本語", "<0xE3>", "<0x81>", "<0xAE>"]


def test_no_text_becomes_a_special_token_or_a_byte_by_its_spelling() -> None:
    assert pieces_of("</s>") == ["▁", "</s", "<0x3E>"]
    assert pieces_of("<pad>") == ["▁", "<", "<0x70>", "a", "<0x64>", "<0x3E>"]
    assert pieces_of("<0x41>")[1:3] == ["<", "0x"]


def test_the_mark_of_a_space_is_a_character_too() -> None:
    assert pieces_of("▁a") == ["▁", "<0xE2>", "<0x96>", "<0x81>", "a"]
    assert OURS.decode(ids_of("a▁ ▁a")) == "a▁ ▁a"


@given(text=TEXTS, more=TEXTS)
def test_words_do_not_depend_on_their_neighbours(text: str, more: str) -> None:
    if text and more:
        assert ids_of(f"{text} {more}") == ids_of(text) + ids_of(more)


def test_what_is_remembered_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["the abab cab", "a" * 200, "b.a", "the the"] * 3
    monkeypatch.setattr(text, "MAX_CHUNKS", 1)
    assert TextTokenizer(TOKENS).encode_batch(texts) == OURS.encode_batch(texts)


def test_special_tokens_say_nothing_and_broken_bytes_are_replaced() -> None:
    ids = [OURS.ids[token] for token in ("▁the", "<0xE2>", "<0x96>", "a", "<0xFF>", UNKNOWN, EOS)]
    assert OURS.decode([OURS.pad_token_id, *ids]) == "the\ufffd\ufffda\ufffd"
    assert OURS.decode([OURS.ids["the"], OURS.ids["▁the"]]) == "the the"
    assert OURS.decode([]) == ""


@given(text=TEXTS)
def test_offsets_of_a_text_are_its_slices(text: str) -> None:
    ids = ids_of(text)
    offsets = OURS.offsets(ids)
    assert len(offsets) == len(ids)
    covered = set()
    for at, (begin, end) in zip(ids, offsets, strict=True):
        assert 0 <= begin <= end <= len(text)
        piece = OURS.tokens[at]
        if piece not in BYTES and piece != SPACE:
            assert text[begin:end] == piece.removeprefix(SPACE)
        covered |= {*range(begin, end)}
    assert all(character == " " for at, character in enumerate(text) if at not in covered)


@given(ids=st.lists(st.integers(0, len(TOKENS) - 1), max_size=12))
def test_offsets_of_any_ids_are_slices_in_order(ids: list[int]) -> None:
    said = OURS.decode(ids)
    offsets = OURS.offsets(ids)
    assert [begin for begin, _ in offsets] == sorted(begin for begin, _ in offsets)
    for at, (begin, end) in zip(ids, offsets, strict=True):
        assert begin <= end <= len(said)
        piece = OURS.tokens[at]
        if piece in (EOS, UNKNOWN, PAD):
            assert begin == end
        elif piece in BYTES:
            assert end - begin <= 1
        elif piece != SPACE:
            assert said[begin:end] == piece.removeprefix(SPACE)


def test_the_bytes_of_one_character_have_its_slice() -> None:
    assert OURS.offsets(ids_of("a é\u0142b")) == [(0, 1), (1, 2), (2, 3), (3, 4), (3, 4), (4, 5)]


def test_ids_and_sizes() -> None:
    assert (OURS.eos_token_id, OURS.unk_token_id, OURS.pad_token_id) == (0, 1, len(TOKENS) - 1)
    assert OURS.vocab_size == len(TOKENS)


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(UserError, match=r"^'b\\ud83d': contains U\+D83D, a lone surrogate"):
        OURS.encode_batch(["a b\ud83d"])


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([*TOKENS, "ab"], r"^v: 'ab' has the ids 273 and 289"),
        (TOKENS[1:], "^v: '</s>' is missing"),
        (TOKENS[:-1], "^v: '<pad>' is missing"),
        ([token for token in TOKENS if token != "<0x7F>"], "'<0x7F>' is missing"),
        ([token for token in TOKENS if token != "▁"], "'▁' is missing"),
        ([*TOKENS, "a▁b"], "'a▁b' is not a piece of text"),
        ([*TOKENS, "▁▁"], "'▁▁' is not a piece of text"),
        ([*TOKENS, "a b"], "'a b' is not a piece of text"),
        ([*TOKENS, ""], "'' is not a piece of text"),
        ([*TOKENS, "\ud800"], "is not a piece of text"),
        ([*TOKENS, "x" * (MAX_PIECE + 1)], "expected 1 to 64 characters"),
    ],
)
def test_what_no_text_is_cut_into_is_refused(tokens: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        TextTokenizer(tokens, source="v")
