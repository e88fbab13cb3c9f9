"""Byte-level: texts encoded in bulk have the same pieces as each text alone."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tokens.reference import assert_as_alone

from heedful.tokens import RobertaTokenizer, Vocabulary, bulk, encoder, lexicon
from heedful.tokens.bpe import ALPHABET
from heedful.tokens.bytelevel_folder import ROBERTA
from heedful.tokens.pieces import PieceLists

# What words are told by, what arrays hand on, and what is matched whole.
HARD = [
    *" \t\n\v\x1c\x85\u00a0\u2003'sdmtrelvnabAZ09.,!-", "  ", "é", "北京", "😀", "\u200d", "²", "ٱ",
    "'s", "'re", "'ll", "'ve", "'d", "'", "''", "don't", "'S", "'rex", "\0", "\ud800", "low",
    "lower", "x" * 15, "x" * 16, "y" * 17, " " * 20, "<mask>", "<s>", "</s>", "<pad>", "<mas", "k>",
    " <mask> ",
]  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(HARD), st.characters()), max_size=20).map("".join)


@pytest.fixture
def every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make arrays encode every batch, whatever it contains."""
    monkeypatch.setattr(encoder, "BULK", 0)
    monkeypatch.setattr(encoder, "MIN_BULK_CHARACTERS", 0)
    monkeypatch.setattr(bulk, "_HARD_SHARE", 0)


def _assert_same(tokenizer: RobertaTokenizer, texts: list[str]) -> None:
    pieces = [tokenizer.pieces(text) for text in texts]
    together = tokenizer._encoder.batch(texts, located=True)
    assert type(together) is not PieceLists
    assert_as_alone(together, pieces)
    assert tokenizer.encode_batch(texts) == [one.ids for one in pieces]


def _prefixed(tokenizer: RobertaTokenizer) -> RobertaTokenizer:
    return RobertaTokenizer(tokenizer.vocabulary, tokenizer.merges, add_prefix_space=True)


@pytest.fixture(scope="module")
def prefixed(roberta: RobertaTokenizer) -> RobertaTokenizer:
    return _prefixed(roberta)


@pytest.mark.usefixtures("every_batch")
@settings(max_examples=60)
@given(texts=st.lists(TEXTS, max_size=12))
def test_any_texts(roberta: RobertaTokenizer, prefixed: RobertaTokenizer, texts: list[str]) -> None:
    _assert_same(roberta, texts)
    _assert_same(prefixed, texts)


@pytest.mark.usefixtures("every_batch")
def test_what_is_hard_stands_in_its_place(toy_roberta: RobertaTokenizer) -> None:
    random_ = random.Random(0)
    texts = ["".join(random_.choices(HARD, k=random_.randrange(9))) for _ in range(800)]
    for ours in (toy_roberta, _prefixed(toy_roberta)):
        _assert_same(ours, [*HARD, *texts])
        _assert_same(ours, ["!\0", ".\ud800"])  # with which no other words are to be confused
        _assert_same(ours, ["!", "."])


@pytest.mark.usefixtures("every_batch")
def test_pairs_are_merged_in_the_order_they_were_learnt() -> None:
    random_ = random.Random(1)
    for _ in range(30):
        tokens, merges = ["<s>", "<pad>", "</s>", "<unk>", *ALPHABET], []
        pieces = list("abc")
        for _ in range(random_.randrange(1, 40)):
            pair = random_.choice(pieces), random_.choice(pieces)
            if "".join(pair) not in pieces and len("".join(pair)) < 9:
                pieces.append("".join(pair))
                merges.append(pair)
        random_.shuffle(merges)
        special = replace(ROBERTA, lstrip=frozenset())
        tokens += pieces[3:]
        ours = RobertaTokenizer(Vocabulary(tokens, special), merges)
        words = ["".join(random_.choices("abc", k=random_.randrange(1, 16))) for _ in range(300)]
        _assert_same(ours, words)


WORDS = st.text(st.sampled_from("abélow '."), min_size=1, max_size=20)


@pytest.mark.usefixtures("every_batch")
@settings(max_examples=25)
@given(texts=st.lists(st.lists(WORDS, max_size=8).map(" ".join), max_size=12))
def test_what_is_remembered_changes_nothing(
    toy_roberta: RobertaTokenizer, texts: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "BLOCK", 24)
        patch.setattr(lexicon, "MAX_CACHED", 26)
        patch.setattr(lexicon, "_REACH", 0)
        forgetful = _prefixed(toy_roberta)
        for _ in range(2):
            _assert_same(forgetful, texts)


def _long_texts() -> Iterator[str]:
    random_ = random.Random(0)
    words = ["".join(random_.choices("lower abc", k=7)) for _ in range(1_000)]
    yield " ".join(words)
    yield "  ".join(words)
    yield "\n".join(words[::2])
    yield " \n ".join(words[::2])
    yield "x" * 2_000
    yield " " * 2_000 + "x"
    yield "short one"
    yield "x" * 2_000 + " the <mask> " + "low " * 1_000


@pytest.mark.usefixtures("every_batch")
def test_texts_longer_than_a_block(
    toy_roberta: RobertaTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "BLOCK", 1024)
    for ours in (toy_roberta, _prefixed(toy_roberta)):
        _assert_same(ours, list(_long_texts()))


@pytest.mark.usefixtures("every_batch")
def test_what_is_remembered_is_bounded(
    toy_roberta: RobertaTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "BLOCK", 1024)
    monkeypatch.setattr(lexicon, "MAX_CACHED", 600)
    ours = _prefixed(toy_roberta)
    sizes = []
    for text in _long_texts():
        for start in range(0, len(text), 2_000):
            ours.encode_batch([text[start : start + 2_000]])
            assert ours._encoder._bulk.encoder is not None
            sizes.append(len(ours._encoder._bulk.encoder._lexicon.entries))
    assert max(sizes) <= 5 + 600
    assert sizes != sorted(sizes)  # for words were forgotten


def test_where_arrays_know_too_little_they_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "BULK", 0)
    monkeypatch.setattr(encoder, "MIN_BULK_CHARACTERS", 0)
    special = replace(ROBERTA, ordinary=("low",), single_word=frozenset({"low"}))
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *ALPHABET, "low"]
    ours = RobertaTokenizer(Vocabulary(tokens, special), [])
    assert ours.tokenize("low slow low.") == ["low", "Ġ", *"slow", "Ġ", "low", "."]
    assert ours._encoder._bulk.encoder is None
