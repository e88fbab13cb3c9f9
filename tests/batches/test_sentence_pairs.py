import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from heedful import UserError
from heedful.batches.corpus import Corpus, TokenizedDocument, write_corpus
from heedful.batches.examples import Example
from heedful.batches.packing import packing_mask
from heedful.batches.sentence_pairs import (
    IN_ORDER,
    NEXT,
    RANDOM,
    SWAPPED,
    Frame,
    full_sequences,
    ordered_pairs,
    sentence_pairs,
)
from heedful.tokens import PairLayout

CLS, SEP = 1, 2
LAYOUT = PairLayout(begin=(CLS,), middle=(SEP,), end=(SEP,), second_type=1)
FRAME = Frame(layout=LAYOUT, max_length=64)
ROOM = 61
STEP = 10_000  # so that an id tells its document and its place there

MakeCorpus = Callable[[list[list[int]]], Corpus]


@pytest.fixture
def make_corpus(tmp_path: Path) -> MakeCorpus:
    def make(documents: list[list[int]]) -> Corpus:
        """Make a corpus of documents given as the lengths of their sentences."""
        chunk = [
            TokenizedDocument(
                ids=np.arange(sum(lengths), dtype=np.int32) + STEP * (number + 1),
                ends=np.cumsum(lengths, dtype=np.int32),
            )
            for number, lengths in enumerate(documents)
        ]
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.arrow"
        write_corpus(path, [chunk[:2], [], chunk[2:]])
        return Corpus(path)

    return make


def many(documents: int = 20) -> list[list[int]]:
    draw = np.random.default_rng(0)
    return [draw.integers(3, 20, 150).tolist() for _ in range(documents)]


def parts(example: Example) -> tuple[list[int], list[int]]:
    """Check the special tokens around the two parts of a pair, and return the parts."""
    ids, split = example.ids.tolist(), example.split
    assert split is not None
    assert (ids[0], ids[split - 1], ids[-1]) == (CLS, SEP, SEP)
    first, second = ids[1 : split - 1], ids[split:-1]
    assert first
    assert second
    for part in (first, second):
        assert all(b == a + 1 for a, b in pairwise(part))  # a slice of one document
    return first, second


def within(count: int, trials: int, share: float) -> bool:
    return abs(count - trials * share) <= 5 * math.sqrt(trials * share * (1 - share))


def test_half_of_the_pairs_are_random_and_truly_of_another_document(
    make_corpus: MakeCorpus,
) -> None:
    corpus = make_corpus(many())
    examples = [e for epoch in range(5) for e in sentence_pairs(corpus, FRAME, seed=0, epoch=epoch)]
    for example in examples:
        first, second = parts(example)
        same = first[0] // STEP == second[0] // STEP
        assert example.labels == (NEXT if same else RANDOM,)
    random = sum(example.labels == (RANDOM,) for example in examples)
    assert len(examples) > 2000
    # Only the last sentence of a document has to be paired at random.
    assert within(random, len(examples), 0.5)
    others = np.bincount([parts(e)[1][0] // STEP for e in examples if e.labels == (RANDOM,)])[1:]
    assert all(within(int(count), random, 1 / 20) for count in others)


def test_what_follows_follows_and_nothing_is_lost(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(many())
    seen: list[int] = []
    dropped = 0
    for example in sentence_pairs(corpus, FRAME, seed=3, epoch=1):
        first, second = parts(example)
        if example.labels == (NEXT,):
            assert second[0] > first[-1]
            dropped += second[0] - first[-1] - 1
            seen += first + second
        else:
            seen += first
    # Each token is used at most once, and the few that are not were cut off to fit.
    assert len(seen) == len(set(seen))
    assert len(seen) > 0.9 * corpus.tokens
    # Whole sentences are gathered, so a cut between two parts is rare.
    assert dropped < 0.1 * corpus.tokens


def test_lengths_follow_the_original_policy(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(many(60))
    examples = list(sentence_pairs(corpus, FRAME, seed=0, epoch=0))
    lengths = np.array([len(example.ids) for example in examples])
    assert lengths.max() == FRAME.max_length
    # Of 10 % of the pairs the length is drawn evenly from 2 to the most, most of the others are
    # full; a pair at the end of a document may be short, too.
    full = int((lengths == FRAME.max_length).sum())
    assert 0.85 * len(lengths) < full < 0.95 * len(lengths)
    short = int((lengths < FRAME.max_length // 2).sum())
    assert 0.02 * len(lengths) < short < 0.1 * len(lengths)


def test_tokens_are_cut_off_both_ends(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus([[25] * 40, [25] * 40])
    front = back = 0
    for epoch in range(20):
        for example in sentence_pairs(corpus, FRAME, seed=0, epoch=epoch):
            first, _ = parts(example)
            front += first[0] % 25 != 0  # sentences begin at multiples of their length
            back += first[-1] % 25 != 24
    assert front > 100
    assert back > 100


def test_an_epoch_comes_again_and_no_two_are_the_same(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(many(4))

    def epoch_of(seed: int, epoch: int) -> list[list[int]]:
        return [e.ids.tolist() for e in sentence_pairs(corpus, FRAME, seed=seed, epoch=epoch)]

    assert epoch_of(1, 2) == epoch_of(1, 2)
    assert epoch_of(1, 2) != epoch_of(1, 3)
    assert epoch_of(1, 2) != epoch_of(2, 2)


def test_half_of_the_neighbours_are_swapped(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(many())
    examples = [e for epoch in range(5) for e in ordered_pairs(corpus, FRAME, seed=0, epoch=epoch)]
    dropped = 0
    for example in examples:
        first, second = parts(example)
        if example.labels == (SWAPPED,):
            first, second = second, first
        assert first[0] // STEP == second[0] // STEP
        dropped += second[0] - first[-1] - 1  # what was cut off between them, if anything
        assert second[0] > first[-1]
    assert dropped < 0.1 * 5 * corpus.tokens
    swapped = sum(example.labels == (SWAPPED,) for example in examples)
    assert {e.labels for e in examples} == {(IN_ORDER,), (SWAPPED,)}
    assert within(swapped, len(examples), 0.5)
    lengths = np.array([len(example.ids) for example in examples])
    assert lengths.max() == FRAME.max_length
    assert 0.8 * len(lengths) < int((lengths == FRAME.max_length).sum()) < 0.95 * len(lengths)


def test_each_token_is_in_one_ordered_pair(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus([[3] * 60, [3], [1], [70], [1, 1]])
    examples = list(ordered_pairs(corpus, FRAME, seed=1, epoch=0))
    seen = [token for e in examples for part in parts(e) for token in part]
    assert len(seen) == len(set(seen))
    assert {token // STEP for token in seen} == {1, 2, 4, 5}  # one token has no order
    assert 0 <= corpus.tokens - 1 - len(seen) < 20
    again = [e.ids.tolist() for e in ordered_pairs(corpus, FRAME, seed=1, epoch=0)]
    assert again == [e.ids.tolist() for e in examples]
    other = [e.ids.tolist() for e in ordered_pairs(corpus, FRAME, seed=1, epoch=1)]
    assert other != again


@pytest.mark.parametrize("max_length", [8, 9, 64])
def test_long_and_lonely_sentences(make_corpus: MakeCorpus, max_length: int) -> None:
    corpus = make_corpus([[1000], [1], [1, 700, 2], [3]])
    frame = Frame(layout=LAYOUT, max_length=max_length)
    examples = list(sentence_pairs(corpus, frame, seed=0, epoch=0))
    assert max(len(example.ids) for example in examples) <= max_length
    for example in examples:
        parts(example)
    # A sentence without punctuation is learnt from in pieces, which do follow one another.
    assert sum(len(parts(e)[0]) for e in examples if parts(e)[0][0] // STEP == 1) > 400
    assert any(e.labels == (NEXT,) and parts(e)[0][0] // STEP == 1 for e in examples)
    assert {parts(e)[0][0] // STEP for e in examples} == {1, 2, 3, 4}


def test_one_document_is_not_enough(make_corpus: MakeCorpus) -> None:
    with pytest.raises(
        UserError, match=r"needs at least 2 documents.*--documents.*--objective mlm"
    ):
        next(sentence_pairs(make_corpus([[5, 5, 5]]), FRAME, seed=0, epoch=0))


def test_full_sequences_hold_every_token_once_in_order(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus([[5, 100], [1], [2], [60], [61], [62], [63], [900], [4]])
    frame = Frame(layout=LAYOUT, max_length=64)
    for epoch in range(30):
        rows = [e.ids.tolist() for e in full_sequences(corpus, frame, seed=0, epoch=epoch)]
        text = [at for row in rows for at in row if at not in (CLS, SEP)]
        assert text == [at for document in corpus for at in document.ids.tolist()]
        # What cannot hold a token and its two marks is left free at the end of a sequence.
        assert all(62 <= len(row) <= 64 for row in rows[1:-1])
        assert 3 <= len(rows[0]) <= 64
        for row in rows:
            assert row[0] == CLS
            assert row[-1] == SEP
            starts = [place for place, at in enumerate(row) if at == CLS]
            for start, stop in pairwise([*starts, len(row)]):
                text = row[start + 1 : stop - 1]
                assert row[stop - 1] == SEP
                assert text[0] // STEP == text[-1] // STEP  # of one document
    assert (
        len({len(next(full_sequences(corpus, frame, seed=0, epoch=e)).ids) for e in range(9)}) > 3
    )


def test_texts_that_would_mix_have_sequences_of_their_own(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus([[5, 100], [1], [2], [60], [61]])
    frame = Frame(layout=LAYOUT, max_length=64, one_text=True)
    rows = [e.ids.tolist() for e in full_sequences(corpus, frame, seed=0, epoch=0)]
    assert [row.count(CLS) for row in rows] == [1] * len(rows)
    text = [at for row in rows for at in row if at not in (CLS, SEP)]
    assert text == [at for document in corpus for at in document.ids.tolist()]
    assert max(map(len, rows)) == 64


def test_one_document_is_enough_for_masked_language_modelling(make_corpus: MakeCorpus) -> None:
    assert list(full_sequences(make_corpus([[5]]), FRAME, seed=0, epoch=0))


def test_texts_of_a_sequence_are_kept_apart() -> None:
    ids = torch.tensor([[CLS, 5, SEP, CLS, 6, SEP], [CLS, 7, 8, SEP, 0, 0]])
    real = ids != 0
    inputs = packing_mask(ids, real, CLS)
    mask, positions = inputs["attention_mask"], inputs["position_ids"]
    assert positions[0].tolist() == [0, 1, 2, 0, 1, 2]
    assert positions[1, :4].tolist() == [0, 1, 2, 3]
    assert mask[0].int().tolist() == [[1, 1, 1, 0, 0, 0]] * 3 + [[0, 0, 0, 1, 1, 1]] * 3
    assert mask[1, :4].int().tolist() == [[1, 1, 1, 1, 0, 0]] * 4
    assert packing_mask(ids[1:], real[1:], CLS) == {}
