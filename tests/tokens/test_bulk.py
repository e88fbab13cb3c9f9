"""Texts encoded in bulk have the same pieces as each text alone."""

import pickle
import random
import string
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiny import SPECIAL
from tests.tokens.reference import assert_as_alone
from tests.tokens.test_properties import TEXTS, TOKENS

from heedful.tokens import BertTokenizer, SpecialTokens, Vocabulary, bulk, encoder, lexicon
from heedful.tokens.word_keys import Keys, KeyTable, distinct, keys_at

NOTHING = {"do_lower_case": False, "tokenize_chinese_chars": False}


@pytest.fixture
def every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make arrays encode every batch, whatever it contains."""
    monkeypatch.setattr(encoder, "BULK", 0)
    monkeypatch.setattr(encoder, "MIN_BULK_CHARACTERS", 0)
    monkeypatch.setattr(bulk, "_HARD_SHARE", 0)


def _assert_same(tokenizer: BertTokenizer, texts: list[str]) -> None:
    alone = [tokenizer.pieces(text) for text in texts]
    assert_as_alone(tokenizer._encoder.batch(texts, located=True), alone)
    assert tokenizer.encode_batch(texts) == [pieces.ids for pieces in alone]


UNCASED = BertTokenizer(Vocabulary(TOKENS))
CASED = BertTokenizer(Vocabulary(TOKENS), do_lower_case=False, tokenize_chinese_chars=False)


@pytest.mark.usefixtures("every_batch")
@pytest.mark.parametrize("ours", [UNCASED, CASED], ids=["uncased", "cased"])
@settings(max_examples=50)
@given(texts=st.lists(TEXTS, max_size=12))
def test_any_texts(ours: BertTokenizer, texts: list[str]) -> None:
    _assert_same(ours, texts)


WORDS = st.text(st.sampled_from("abé中theing."), min_size=1, max_size=20)


@pytest.mark.usefixtures("every_batch")
@settings(max_examples=25)
@given(texts=st.lists(st.lists(WORDS, max_size=8).map(" ".join), max_size=12))
def test_what_is_remembered_changes_nothing(texts: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "BLOCK", 24)
        patch.setattr(lexicon, "MAX_CACHED", 26)
        patch.setattr(lexicon, "_REACH", 0)
        forgetful = BertTokenizer(Vocabulary(TOKENS))
        for _ in range(2):
            _assert_same(forgetful, texts)


# What arrays hand on to the encoder of chunks, and what stands right beside it.
HARD = [
    "[MASK]", "a[MASK]b", "中[SEP]中a", "x" * 17, "y" * 16, "z" * 101, "a" * 17 + "中b", "가",
    "e\u0301", "\u0301", "\0", "\ud800", "\U0001d165\u1b44", "a\U0001d165\u1b44 b", "İ", "�中",
    "", " ", "\n", "\u3000", "中", "a", "é", "ǅ", "the", "thething", "[mask]", "≠", "豈a", "𠀀",
]  # fmt: skip


@pytest.mark.usefixtures("every_batch")
@pytest.mark.parametrize("options", [{}, {"do_lower_case": False}, NOTHING])
def test_hard_chunks_stand_in_their_places(options: dict[str, bool]) -> None:
    ours = BertTokenizer(Vocabulary(TOKENS), **options)
    random_ = random.Random(0)
    texts = ["".join(random_.choices([*HARD, " "], k=random_.randrange(9))) for _ in range(400)]
    _assert_same(ours, [*HARD, *texts])


@pytest.mark.usefixtures("every_batch")
@pytest.mark.parametrize("chinese", [False, True])
def test_an_ideograph_beside_a_token_that_matches_as_a_whole_word(chinese: bool) -> None:
    special = SpecialTokens(ordinary=("foo",), single_word=frozenset({"foo"}))
    vocabulary = Vocabulary([*TOKENS, "foo"], special, added=1)
    tokenizer = BertTokenizer(vocabulary, tokenize_chinese_chars=chinese)
    _assert_same(tokenizer, ["a 中foo a", "foo中 a", "中 foo 中", "a中foofoo", "a b c d"])


def test_where_most_is_hard_arrays_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = BertTokenizer(Vocabulary(TOKENS))
    monkeypatch.setattr(bulk.BulkEncoder, "_with_chunks", None)
    text = "가나다 라마바사 " * 4000
    assert ours.encode_batch([text, "the"]) == [ours.pieces(text).ids, ours.pieces("the").ids]
    with pytest.raises(TypeError):  # here they are
        ours.encode_batch(["the " * 9000 + "가"])


def test_arrays_are_made_once_there_is_enough_to_do() -> None:
    ours = BertTokenizer(Vocabulary(TOKENS))
    for _ in range(100):
        ours.encode_batch(["the thing"] * 900)  # 8,100 characters
    assert ours._encoder._bulk.encoder is None
    for count in range(4):
        ours.encode_batch(["the thing"] * 1000)
        assert (ours._encoder._bulk.encoder is None) is (count < 3)


@pytest.mark.usefixtures("every_batch")
def test_letters_beyond_those_that_have_a_byte() -> None:
    letters = [chr(code) for code in range(0x400, 0x600)]
    ours = BertTokenizer(
        Vocabulary([*SPECIAL, *letters, *(f"##{letter}" for letter in letters)]),
        do_lower_case=False,
        strip_accents=False,
    )
    random_ = random.Random(0)
    letters += ["ა", "z"]  # of no token
    words = ["".join(random_.choices(letters, k=random_.randrange(1, 5))) for _ in range(2000)]
    _assert_same(ours, [" ".join(words[:1000]), *words[1000:]])


def _long_texts() -> Iterator[str]:
    random_ = random.Random(0)
    words = ["".join(random_.choices(string.ascii_lowercase, k=7)) for _ in range(5_000)]
    yield " ".join(words)
    yield "\n".join(words[::2])
    yield "x" * 5_000
    yield "short one"
    yield "x" * 3_000 + " the " + "中" * 3_000


@pytest.mark.usefixtures("every_batch")
def test_texts_longer_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BLOCK", 1024)
    _assert_same(BertTokenizer(Vocabulary(TOKENS)), list(_long_texts()))


@pytest.mark.usefixtures("every_batch")
def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BLOCK", 1024)
    monkeypatch.setattr(lexicon, "MAX_CACHED", 600)
    ours = BertTokenizer(Vocabulary(TOKENS))
    sizes = []
    for text in _long_texts():
        for start in range(0, len(text), 9_000):
            ours.encode_batch([text[start : start + 9_000]])
            assert ours._encoder._bulk.encoder is not None
            sizes.append(len(ours._encoder._bulk.encoder._lexicon.entries))
    assert max(sizes) <= len(TOKENS) + 1 + 600
    assert sizes != sorted(sizes)  # for words were forgotten


def test_what_arrays_made_does_not_go_to_another_process() -> None:
    ours = BertTokenizer(Vocabulary(TOKENS))
    small = len(pickle.dumps(ours))
    texts = ["the thing " * 4000]
    ids = ours.encode_batch(texts)
    packed = pickle.dumps(ours)
    assert len(packed) < small + 20_000
    assert pickle.loads(packed).encode_batch(texts) == ids


@pytest.mark.usefixtures("every_batch")
def test_several_threads_may_share_a_tokenizer() -> None:
    ours = BertTokenizer(Vocabulary(TOKENS))
    texts = list(_long_texts())
    expected = [BertTokenizer(Vocabulary(TOKENS)).encode_batch([text])[0] for text in texts]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda text: ours.encode_batch([text])[0], texts * 4))
    assert results == expected * 4


@pytest.mark.usefixtures("every_batch")
def test_what_arrays_cannot_tell_is_left_to_the_encoder() -> None:
    texts = ["a中[中]b U.N. [中", "u.n. 中"]
    special = SpecialTokens(additional_special_tokens=("[中]",))
    ideographs = BertTokenizer(Vocabulary([*TOKENS, "[中]"], special))
    kept = BertTokenizer(Vocabulary([*TOKENS, "U.N."]), never_split=["U.N."])
    for ours in (ideographs, kept):
        _assert_same(ours, texts)
        assert ours._encoder._bulk.encoder is None


# Keys.

SPELLED = st.lists(st.binary(min_size=1, max_size=16).filter(lambda word: 0 not in word))


def _keys(words: list[bytes]) -> Keys:
    symbols = np.frombuffer(b"\x07".join([*words, bytes(16)]), np.uint8)
    sizes = np.array([len(word) for word in words], np.int64)
    return keys_at(symbols, np.cumsum(sizes + 1) - sizes - 1, sizes)


def _spelt(keys: Keys) -> list[bytes]:
    return [
        b"".join(int(half).to_bytes(8, "little") for half in key).rstrip(b"\0")
        for key in zip(*keys, strict=True)
    ]


@given(words=SPELLED, data=st.data())
def test_keys_are_the_words(words: list[bytes], data: st.DataObject) -> None:
    keys = _keys(words)
    assert _spelt(keys) == words
    sizes = [data.draw(st.integers(1, len(word))) for word in words]
    every = np.arange(1, 17)
    assert _spelt(keys.prefixes(every)) == [word[:size] for word in words for size in every]
    rest = [word[size:] for word, size in zip(words, sizes, strict=True)]
    on = np.array([index for index, word in enumerate(rest) if word], np.int64)
    assert _spelt(keys.at(on).after(np.array(sizes, np.int64)[on])) == [
        word for word in rest if word
    ]


@given(words=SPELLED)
def test_kinds_of_keys(words: list[bytes]) -> None:
    one_of_each, kinds = distinct(_keys(words))
    each = [words[index] for index in one_of_each]
    assert len(set(each)) == len(each)
    assert [each[kind] for kind in kinds] == words


@given(words=SPELLED.map(set).map(list), others=SPELLED, shared=st.booleans())
def test_a_table_finds_what_is_in_it(words: list[bytes], others: list[bytes], shared: bool) -> None:
    table = KeyTable(max(len(words), 1))
    with pytest.MonkeyPatch.context() as patch:
        if shared:  # all are at the same slot
            patch.setattr(KeyTable, "_hashes", lambda self, keys: np.zeros(len(keys.low), np.int64))
        half = len(words) // 2
        for part in (slice(half), slice(half, None)):
            table.add(_keys(words[part]), np.arange(len(words))[part])
        assert table.find(_keys(words)).tolist() == list(range(len(words)))
        expected = [words.index(word) if word in words else -1 for word in others]
        assert table.find(_keys(others)).tolist() == expected


def test_words_made_for_one_slot_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyTable, "_hashes", lambda self, keys: np.zeros(len(keys.low), np.int64))
    words = [letter.encode() for letter in string.ascii_letters]
    table = KeyTable(len(words))
    table.add(_keys(words), np.arange(len(words)), reach=5)
    numbers = table.find(_keys(words))
    assert np.count_nonzero(numbers >= 0) == 6
    assert set(numbers[numbers >= 0]) <= set(range(len(words)))


def test_texts_given_as_words_are_encoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(0)
    texts = [random_.choices(["the", "thing", "", "中a", "é.", "[MASK]x"], k=9) for _ in range(50)]
    options: dict[str, Any] = {
        "is_split_into_words": True,
        "return_offsets_mapping": True,
        "padding": True,
    }
    expected = dict(UNCASED(texts, **options))
    monkeypatch.setattr(encoder, "BULK", 0)
    monkeypatch.setattr(encoder, "MIN_BULK_CHARACTERS", 0)
    ours = BertTokenizer(Vocabulary(TOKENS))
    assert dict(ours(texts, **options)) == expected
    assert ours._encoder._bulk.encoder is not None
