"""The shortcuts of a unigram tokenizer give the same results as the full computation."""

import pickle
import random
from itertools import product
from typing import cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heedful.tokens.encoder import MAX_CHUNK, ChunkCache
from heedful.tokens.metaspace import UnigramEncoder
from heedful.tokens.plain_splitting import WORD_START
from heedful.tokens.rewriting import LOWERCASE, NMT, JoinSpaces, NormalForm, Replace, Step, Strip
from heedful.tokens.splitting import Item, Prefix, Rules, Splitter
from heedful.tokens.unigram import MIN_BATCH_WORDS, Unigram
from heedful.tokens.unigram_bulk import Trie
from heedful.tokens.vocabulary import SpecialTokens, Vocabulary

JOIN = JoinSpaces(new=" ")
QUOTES = (Replace(old="``", new='"'), Replace(old="''", new='"'))
STEPS: dict[str, tuple[Step, ...]] = {
    "none": (),
    "joined": (NMT, JOIN),
    "stripped": (NMT, Strip(left=False, right=True), JOIN),
    "trimmed": (LOWERCASE, Strip(left=True, right=True), JOIN),
    "quotes": (*QUOTES, NormalForm(compatible=True, composed=False), LOWERCASE, JOIN),
    "spaces replaced": (Replace(old=" ", new="x"),),
}
SPECIAL = ("[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]")
LETTERS = (".", "(", "▁")
"""Added tokens of one character."""
PARTS = ["a", "b", " ", "Aa", "é", ".", "(", "''", "`", "▁", "\n", "\u200b", "\u3000", "[MASK]"]
RARE = ["e\u0301", "\x01", "\ud800", "｀", "aa", "İ"]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=7).map("".join)
TEXTS |= st.lists(st.sampled_from(PARTS + RARE), max_size=7).map("".join) | st.text(max_size=9)


ORDER = [*SPECIAL, *LETTERS, "aa", "a", "b", '"', "▁a", "▁b", "'", "é", "e"]


def _vocabulary(*, letters: bool, late: bool) -> Vocabulary:
    special = SpecialTokens(
        ordinary=(*(LETTERS if letters else ()), "aa"),
        normalized=frozenset({"aa"} if late else ()),
        lstrip=frozenset({"[MASK]"}),
    )
    return Vocabulary(ORDER, special)


def _rules(steps: str, prefix: str, at_white_space: bool) -> Rules:
    return Rules(steps=STEPS[steps], prefix=cast("Prefix", prefix), at_white_space=at_white_space)


def _plain(item: Item) -> tuple[str | None, list[int], int | None]:
    """Return the relevant parts of an item; the text of an added token is not."""
    return (item.text if item.token_id is None else None), [*item.sources], item.token_id


RULES = st.tuples(st.sampled_from(["always", "first", "never"]), st.booleans())


@pytest.mark.parametrize("steps", STEPS)
@given(text=TEXTS, before=st.sampled_from(["", " "]), rules=RULES, letters=..., late=...)
@example(text="a\n.", before=" ", rules=("always", False), letters=True, late=False)
@settings(max_examples=100, deadline=None)
def test_the_words_of_a_chunk_are_those_of_the_long_way(
    steps: str, text: str, before: str, rules: tuple[str, bool], letters: bool, late: bool
) -> None:
    splitter = Splitter(_rules(steps, *rules), _vocabulary(letters=letters, late=late))
    plain, chunk = splitter.plain, text.replace(" ", "")
    words = plain.words(before + chunk)
    if words is not None:
        told = [plain.token_ids.get(word, plain.spelled(word)) for word in words]
        items = splitter.chunk_items(before, chunk, closed=False)
        assert told == [item.text if item.token_id is None else item.token_id for item in items]
    even = plain.words(f" {chunk}", even=True)
    if even:
        expected = list(map(_plain, splitter.chunk_items(" ", chunk, closed=False)))
        assert list(map(_plain, splitter.plain_items(even, spaced=True))) == expected
        if plain.same_at_start(even):
            items = splitter.plain_items(even, spaced=False)
            expected = list(map(_plain, splitter.chunk_items("", chunk, closed=False)))
            assert list(map(_plain, items)) == expected


@pytest.mark.parametrize("steps", STEPS)
@given(text=TEXTS, rules=RULES, letters=..., late=...)
@settings(max_examples=60, deadline=None)
def test_the_ids_of_a_text_are_those_of_the_long_way(
    steps: str, text: str, rules: tuple[str, bool], letters: bool, late: bool
) -> None:
    vocabulary = _vocabulary(letters=letters, late=late)
    unigram = Unigram(ORDER, [-float(len(one)) for one in ORDER], 0, byte_fallback=False)
    encoder = UnigramEncoder(unigram, _rules(steps, *rules), vocabulary)
    expected = encoder._item_ids(encoder._splitter.items(text))
    assert encoder.ids([text]) == [expected]
    encoder._learn_ids([*map(encoder._chunks, [text, "a b", text])])
    assert encoder.ids([text]) == [expected]
    pieces = encoder.pieces(text)
    assert pieces.ids == expected
    learnt = UnigramEncoder(unigram, _rules(steps, *rules), vocabulary)
    learnt._learn_pieces([*map(learnt._chunks, [text, "a b", text])])
    assert learnt.pieces(text) == pieces


@pytest.mark.parametrize("steps", STEPS)
@given(chunks=st.lists(TEXTS, max_size=4), rules=RULES, letters=..., late=...)
@settings(max_examples=60, deadline=None)
def test_many_chunks_have_the_words_of_each_alone(
    steps: str, chunks: list[str], rules: tuple[str, bool], letters: bool, late: bool
) -> None:
    plain = Splitter(_rules(steps, *rules), _vocabulary(letters=letters, late=late)).plain
    chunks = [*(chunk.replace(" ", "") for chunk in chunks), *map(str, range(50))]
    for even in (False, True):
        expected = [plain.words(f" {chunk}", even=even) for chunk in chunks]
        assert list(plain.words_of(chunks, even=even)) == expected


@pytest.mark.parametrize("steps", ["none", "joined", "quotes", "trimmed"])
def test_ordinary_chunks_take_the_short_way(steps: str) -> None:
    for prefix, at_white_space in product(("always", "first", "never"), (False, True)):
        rules = _rules(steps, prefix, at_white_space)
        plain = Splitter(rules, _vocabulary(letters=steps != "trimmed", late=False)).plain
        for chunk in (" It's", " Ox,", " «x»!"):
            assert (plain.words(chunk) is None) == (prefix == "first" and at_white_space)


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        (" (Ox).", ["▁", 6, "▁Ox)", 5]),
        ("U.S", ["▁U", 5, "▁S"]),
        (" ..", ["▁", 5, 5]),
        (" a\nb", ["▁a", "▁b"]),
    ],
)
def test_a_chunk_is_cut_at_added_tokens_of_one_character(
    chunk: str, expected: list[object]
) -> None:
    rules = Rules(steps=(NMT, JOIN))
    plain = Splitter(rules, _vocabulary(letters=True, late=False)).plain
    words = plain.words(chunk)
    assert words is not None
    assert [plain.token_ids.get(word, plain.spelled(word)) for word in words] == expected


TOKENS = st.dictionaries(
    st.text("ab▁", min_size=1, max_size=4), st.integers(-4, -1), min_size=1, max_size=14
)
WORDS = st.lists(
    st.text("ab▁", min_size=1, max_size=9)
    | st.lists(st.sampled_from(["a", "▁", "x", "😀", "<unk>", "b"]), min_size=1).map("".join),
    min_size=1,
    max_size=12,
    unique=True,
)


@given(scores=TOKENS, words=WORDS)
@settings(max_examples=120, deadline=None)
def test_words_cut_together_are_cut_as_each_alone(scores: dict[str, int], words: list[str]) -> None:
    tokens = ["<unk>", *scores, ""]
    numbers = [-9.0, *map(float, scores.values()), 0.0]
    unigram = Unigram(tokens, numbers, 0, byte_fallback=False)
    trie = Trie(tokens, numbers, unknown_id=0, unknown_score=-19.0)
    alone = {word: unigram.segment(word) for word in words}
    known = {word: cut for word, cut in alone.items() if all(token_id for token_id, _ in cut)}
    assert trie.cuts(words) == known
    assert trie.ids(words) == {
        word: tuple(token_id for token_id, _ in cut) for word, cut in known.items()
    }


def _encoder() -> UnigramEncoder:
    """Return an encoder of small letters, in which all others are unknown."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    marks = ["\x01", "▁\x01"]  # what stands for the added token meanwhile
    tokens = [*SPECIAL, WORD_START, *letters, "th", "he", "the", "▁the", ".", *marks]
    scores = [-30.0] * len(SPECIAL) + [-3.0 - index / 8 for index in range(len(tokens) - 5)]
    special = SpecialTokens(ordinary=(".",))
    unigram = Unigram(tokens, scores, 0, byte_fallback=False)
    return UnigramEncoder(unigram, Rules(steps=(JOIN,)), Vocabulary(tokens, special))


def _texts() -> list[str]:
    letters = "abcdefghijklmnopqrst"
    words = ["the" + "".join(word) for word in product(letters, repeat=3)]
    texts = [" ".join(words[start : start + 9]) + ". Ünknown  x" for start in range(0, 8000, 9)]
    return [*texts, "the" * 40, "", " ", "e\u0301 [MASK] the"]


def test_many_texts_have_the_ids_of_each_alone() -> None:
    texts = _texts()
    alone = _encoder()
    expected = [alone.ids([text])[0] for text in texts]
    assert alone._unigram._trie is None
    together = _encoder()
    assert together.ids(texts) == expected
    assert together._unigram._trie is not None
    assert len(together._plain_ids) > MIN_BATCH_WORDS
    assert together.ids(texts[::-1]) == expected[::-1]


def test_many_texts_have_the_pieces_of_each_alone() -> None:
    texts = _texts()
    alone, together = _encoder(), _encoder()
    pieces = [alone.pieces(text) for text in texts]
    batch = together.batch(texts, located=True)
    assert together._unigram._trie is not None
    assert batch.ids == [token_id for one in pieces for token_id in one.ids]
    assert batch.offsets == [span for one in pieces for span in one.offsets]
    assert len(together._words) > MIN_BATCH_WORDS


def test_what_arrays_need_does_not_go_to_other_processes() -> None:
    encoder = _encoder()
    encoder.ids(_texts())
    copy = pickle.loads(pickle.dumps(encoder._unigram))
    assert copy._trie is None
    assert copy.segment("▁thelo") == encoder._unigram.segment("▁thelo")


def test_of_too_many_words_the_first_are_remembered() -> None:
    memory = ChunkCache(len, 3)
    memory.store({"a": 1})
    memory.store(dict.fromkeys("bcdef", 1))
    assert list(memory) == ["b", "c", "d"]


def test_words_are_forgotten_before_they_are_too_many() -> None:
    encoder = _encoder()
    encoder._plain_ids._limit = 3000
    texts = _texts()
    assert encoder.ids(texts) == _encoder().ids(texts)
    assert len(encoder._plain_ids) <= 3000


LONG = st.lists(st.sampled_from([*"abthe", ".", "Ü", "ａ", "the", "\u3000", " "]), max_size=9)


@given(parts=st.lists(LONG.map("".join), min_size=1, max_size=9), seed=st.integers(0, 9))
@settings(max_examples=5, deadline=None)
def test_long_chunks_are_cut_together_and_forgotten(parts: list[str], seed: int) -> None:
    draw = random.Random(seed)
    texts = ["".join(draw.choices([*parts, "x"], k=40)) for _ in range(2 * MIN_BATCH_WORDS)]
    alone, together = _encoder(), _encoder()
    assert together.ids(texts) == [alone.ids([text])[0] for text in texts]
    batch, pieces = together.batch(texts, located=True), [alone.pieces(text) for text in texts]
    assert batch.ids == [token_id for one in pieces for token_id in one.ids]
    assert batch.offsets == [span for one in pieces for span in one.offsets]
    memories = (together._first_ids, together._spaced_ids, together._plain_ids, together._words)
    for memory in (*memories, together._first_pieces, together._spaced_pieces):
        assert max(map(len, memory), default=0) <= MAX_CHUNK


def test_words_of_any_length_are_cut_together() -> None:
    unigram = Unigram(["<unk>", "a", "aa", "b"], [-9.0, -2.0, -3.0, -1.0], 0, byte_fallback=False)
    trie = Trie(
        ["<unk>", "a", "aa", "b"], [-9.0, -2.0, -3.0, -1.0], unknown_id=0, unknown_score=-19.0
    )
    words = ["ab" * 2**14, "a" * 2**15 + "b", "b"]
    assert trie.cuts(words) == {word: unigram.segment(word) for word in words}
