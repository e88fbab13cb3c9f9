"""The n-gram model of the next-word benchmark is the one that its paper describes."""

from collections import Counter

import numpy as np
import pytest
from benchmarks.ngrams import KneserNey

TEXTS = [[0, 1, 2, 0, 1, 3, 0, 1, 2, 4], [2, 0, 1, 2], [3, 3, 0, 1]]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_probabilities_of_the_next_token_add_up_to_one(order: int) -> None:
    model = KneserNey(TEXTS, order=order, vocab_size=6)
    for text in ([], [0], [0, 1], [5, 5], [3, 0, 1, 2, 0]):
        chances = model.next(text)
        assert chances.sum() == pytest.approx(1)
        assert (chances > 0).all()
        for token in range(6):
            assert model.probabilities([*text, token])[-1] == pytest.approx(chances[token])


def test_bigrams_match_a_computation_by_hand() -> None:
    model = KneserNey(TEXTS, order=2, vocab_size=6)
    pairs = Counter(pair for text in TEXTS for pair in zip([6, *text], text, strict=False))
    kinds = Counter(pairs.values())
    share = kinds[1] / (kinds[1] + 2 * max(kinds[2], 1))
    ones, twos, threes, fours = (max(kinds[n], 1) for n in (1, 2, 3, 4))
    share = ones / (ones + 2 * twos)
    raw = (
        1 - 2 * share * twos / ones,
        2 - 3 * share * threes / twos,
        3 - 4 * share * fours / threes,
    )
    discounts = [0.0, *(min(max(x, 0.0), n) for n, x in enumerate(raw, start=1))]
    lower = KneserNey(TEXTS, order=2, vocab_size=6).orders[0]
    before = Counter(second for _, second in pairs)
    assert dict(zip(lower.codes.tolist(), lower.counts.tolist(), strict=True)) == before
    small = [
        (max(before[word] - lower.discounts[min(before[word], 3)], 0) + lower.saved[0] / 6)
        / sum(before.values())
        for word in range(6)
    ]
    after = {word: number for (first, word), number in pairs.items() if first == 1}
    saved = sum(discounts[min(number, 3)] for number in after.values())
    right = [
        ((after.get(word, 0) - discounts[min(after.get(word, 0), 3)]) + saved * small[word])
        / sum(after.values())
        for word in range(6)
    ]
    np.testing.assert_allclose(model.next([0, 1]), right)


def test_longer_histories_predict_better() -> None:
    text = [0, 1, 2, 0, 3, 4] * 40
    scores = [
        np.log(KneserNey([text], order=order, vocab_size=5).probabilities(text[:60])).mean()
        for order in (1, 2, 3)
    ]
    assert scores[0] < scores[1] - 0.5 < scores[2] - 0.5
