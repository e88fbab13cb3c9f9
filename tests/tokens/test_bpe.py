"""Words are merged from their bytes as in the reference, for any learnt merges."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heedful.errors import UserError
from heedful.tokens import bpe
from heedful.tokens.bpe import ALPHABET, BytePairs, Pair, spelled

LETTERS = "ab"
PIECES = st.text(LETTERS, min_size=1, max_size=3)
# Also merges of tokens that come to be later, or never: the reference takes them, too.
MERGES = st.lists(st.tuples(PIECES, PIECES), max_size=12, unique=True)
WORDS = st.text([*LETTERS, "é"], max_size=40)


def _ids(merges: Sequence[Pair]) -> dict[str, int]:
    tokens = [*ALPHABET, *(token for pair in merges for token in (*pair, "".join(pair)))]
    return {token: at for at, token in enumerate(dict.fromkeys(tokens))}


@example(merges=[("b", "a"), ("a", "ba")], words=["aba", "aaba", "abab"])
@given(merges=MERGES, words=st.lists(WORDS, min_size=1, max_size=5))
def test_words_are_joined_as_by_the_reference(merges: list[Pair], words: list[str]) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="needs the reference tokenizer")
    ids = _ids(merges)
    ours = BytePairs(ids, merges, source="here")
    theirs = tokenizers.models.BPE(ids, merges)
    for word in words:
        data = word.encode()
        expected = tuple(one.id for one in theirs.tokenize("".join(ALPHABET[at] for at in data)))
        assert ours.ids(data) == expected


@given(merges=MERGES, word=st.text(LETTERS, max_size=300))
def test_long_words_are_joined_as_short_ones(merges: list[Pair], word: str) -> None:
    pairs = BytePairs(_ids(merges), merges, source="here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bpe, "_MAX_SCANNED_BYTES", 1_000)
        expected = pairs.ids(word.encode())
        patch.setattr(bpe, "_MAX_SCANNED_BYTES", -1)
        assert pairs.ids(word.encode()) == expected


def test_a_word_may_be_very_long() -> None:
    # Looked through anew after each merge, it would take minutes.
    merges = [("a", "b"), ("ab", "ab"), ("abab", "abab")]
    ids = _ids(merges)
    pairs = BytePairs(ids, merges, source="here")
    assert pairs.ids(b"ab" * 40_000) == (ids["abababab"],) * 10_000


def test_the_alphabet_is_the_reference_s() -> None:
    gpt2 = pytest.importorskip("transformers.models.gpt2.tokenization_gpt2")
    assert dict(enumerate(ALPHABET)) == gpt2.bytes_to_unicode()


@given(data=st.binary())
def test_tokens_spell_bytes(data: bytes) -> None:
    assert spelled([ALPHABET[at] for at in data]) == data
    assert spelled(["".join(ALPHABET[at] for at in data)]) == data


def test_a_token_of_other_characters_spells_itself() -> None:
    assert spelled(["<北>", "Ġa", "\ud800"]) == b"<\xe5\x8c\x97> a"


def test_what_is_refused() -> None:
    ids = _ids([])
    del ids["Ġ"]
    with pytest.raises(UserError, match="here: no token 'Ġ' for the byte 0x20"):
        BytePairs(ids, [], source="here")
    for merge, missing in ((("x", "yz"), "yz"), (("yz", "x"), "yz"), (("x", "y"), "xy")):
        with pytest.raises(UserError, match=f"merge 2 is of .* but '{missing}' is not in the voc"):
            BytePairs(_ids([("a", "b")]), [("a", "b"), merge], source="here")
