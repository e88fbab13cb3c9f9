import numpy as np
import pytest
import torch
from tests.exact import assert_same_bits

from heedful.decoding.candidates import best_next_tokens, repeated_ngram_tokens
from heedful.decoding.search import Search


@pytest.mark.parametrize("vocabulary", [1, 5, 300, 2048, 2079, 5000])
@pytest.mark.parametrize("count", [1, 4, 70])
@pytest.mark.parametrize("rows", [1, 9, 200])
def test_the_best_of_a_vocabulary_of_any_size(vocabulary: int, count: int, rows: int) -> None:
    torch.manual_seed(0)
    scores = 0.01 * torch.rand(rows, vocabulary).argsort(1)  # no two of a row are alike
    free = np.full(rows, -1)
    found = best_next_tokens(scores, np.empty((rows, 0), int), free, Search(eos_token_id=0), count)
    right = scores.log_softmax(-1).topk(min(count, vocabulary))
    assert_same_bits(found.token_ids, right.indices.numpy(), "whole numbers")
    np.testing.assert_allclose(found.penalised, right.values.double().numpy(), rtol=1e-6, atol=1e-6)
    assert_same_bits(found.log_probabilities, found.penalised, "moved")
    # Each row by itself: the same beside any others.
    alone = best_next_tokens(
        scores[:1], np.empty((1, 0), int), free[:1], Search(eos_token_id=0), count
    )
    assert_same_bits(alone.token_ids, found.token_ids[:1], "whole numbers")
    np.testing.assert_allclose(alone.penalised, found.penalised[:1], rtol=1e-6, atol=1e-6)


def test_equal_scores_and_half_precision() -> None:
    scores = torch.zeros(2, 4096, dtype=torch.bfloat16)
    free = np.full(2, -1)
    found = best_next_tokens(scores, np.empty((2, 0), int), free, Search(eos_token_id=0), 6)
    assert all(len(set(row)) == 6 for row in found.token_ids.tolist())
    np.testing.assert_allclose(found.penalised, -np.log(4096), rtol=1e-6)


def test_what_would_repeat() -> None:
    written = np.array([[1, 2, 3, 1, 2], [1, 2, 1, 2, 1], [5, 5, 5, 5, 5], [1, 2, 3, 4, 5]])

    def words(size: int) -> list[list[int]]:
        rows, found = repeated_ngram_tokens(written, size)
        return [sorted(set(found[rows == row].tolist())) for row in range(len(written))]

    assert words(1) == [[1, 2, 3], [1, 2], [5], [1, 2, 3, 4, 5]]
    assert words(2) == [[3], [2], [5], []]
    assert words(3) == [[3], [2], [5], []]
    assert words(5) == [[], [], [5], []]
    assert words(6) == [[], [], [], []]
