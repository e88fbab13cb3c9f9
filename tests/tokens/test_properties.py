"""Properties of every text, tested by searching for counterexamples."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiny import SPECIAL

from heedful.tokens import BertTokenizer, Vocabulary, encoder, wordpiece
from heedful.tokens.characters import MOVABLE

LETTERS = [chr(code) for code in range(0x21, 0x180)] + list("中北οσς\u0307\u0301")
TOKENS = [*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS), "the", "##ing", "(c)"]
UNCASED = BertTokenizer(Vocabulary(TOKENS))
CASED = BertTokenizer(Vocabulary(TOKENS), do_lower_case=False)
BOTH = pytest.mark.parametrize("ours", [UNCASED, CASED], ids=["uncased", "cased"])

PARTS = st.one_of(
    st.characters(),
    st.sampled_from(
        ["[MASK]", "[SEP]", " ", "\n", "\x85", "the", "The", "ing", "a", "Ä", "İ", "Σ"]
    ),
    st.text(st.sampled_from([*map(chr, sorted(MOVABLE)[::7]), *"\u0301\u0323\u034fa"])),
)
TEXTS = st.lists(PARTS, max_size=20).map("".join)


@BOTH
@given(text=TEXTS)
def test_both_ways_to_ids_agree(ours: BertTokenizer, text: str) -> None:
    pieces = ours.pieces(text)
    assert ours.encode_batch([text]) == [pieces.ids]
    assert len(pieces.ids) == len(pieces.offsets) == len(pieces.words)


@BOTH
@given(text=TEXTS)
def test_offsets_are_slices_in_order(ours: BertTokenizer, text: str) -> None:
    offsets = ours.pieces(text).offsets
    assert all(0 <= start < end <= len(text) for start, end in offsets)
    if not any(ord(char) in MOVABLE for char in text):
        assert offsets == sorted(offsets)


@BOTH
@given(text=TEXTS)
def test_a_slice_normalises_to_its_piece(ours: BertTokenizer, text: str) -> None:
    pieces = ours.pieces(text)
    for at, (start, end) in zip(pieces.ids, pieces.offsets, strict=True):
        token = ours.vocabulary.tokens[at]
        again = ours.decode(ours.encode_batch([text[start:end]])[0]).replace(" ", "")
        if token in SPECIAL:
            assert token in again or "[UNK]" in again
        elif not any(ord(char) in MOVABLE for char in text[start:end]) and "[UNK]" not in again:
            assert token.removeprefix("##") in again


@BOTH
@given(text=TEXTS)
def test_word_numbers_count_up(ours: BertTokenizer, text: str) -> None:
    words = ours.pieces(text).words
    assert words == sorted(words)
    assert set(words) == set(range(len(set(words))))


@given(text=TEXTS)
def test_ids_of_what_ids_say_are_the_same_ids(text: str) -> None:
    # Spaces between words are lost and made, but words stay: decoding and encoding once more
    # gives the same ids where no word was unknown.
    ids = UNCASED.encode_batch([text])[0]
    if UNCASED.unk_token_id not in ids:
        assert UNCASED.encode_batch([UNCASED.decode(ids)]) == [ids]


@BOTH
@given(texts=st.lists(TEXTS, max_size=5), data=st.data())
def test_neighbours_and_order_change_nothing(
    ours: BertTokenizer, texts: list[str], data: st.DataObject
) -> None:
    alone = [ours.encode_batch([text])[0] for text in texts]
    assert ours.encode_batch(texts) == alone
    order = data.draw(st.permutations(range(len(texts))))
    assert ours.encode_batch([texts[at] for at in order]) == [alone[at] for at in order]


@given(first=TEXTS, second=TEXTS)
def test_a_space_parts_texts(first: str, second: str) -> None:
    ids, more = UNCASED.encode_batch([first, second])
    for space in (" ", "\n", "\t", "\u2003", " \u2028 "):
        assert UNCASED.encode_batch([first + space + second]) == [ids + more]


@settings(max_examples=50)
@given(texts=st.lists(TEXTS, min_size=1, max_size=30))
def test_what_is_remembered_changes_nothing(texts: list[str]) -> None:
    expected = [UNCASED.encode_batch([text])[0] for text in texts]
    places = [UNCASED.pieces(text) for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wordpiece, "MAX_CHUNKS", 2)
        patch.setattr(wordpiece, "MAX_LOCATED_CHUNKS", 2)
        patch.setattr(encoder, "MAX_CHUNK", 3)
        patch.setattr(wordpiece, "MAX_WORDS", 2)
        forgetful = BertTokenizer(Vocabulary(TOKENS))
        for _ in range(2):
            assert forgetful.encode_batch(texts) == expected
            assert [forgetful.pieces(text) for text in texts] == places
