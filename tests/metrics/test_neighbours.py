import pytest
import torch
import torch.nn.functional as F

from heedful.errors import UserError
from heedful.metrics import RetrievalScores
from heedful.metrics.neighbours import rank_candidates


def _vectors(seed: int, *shape: int) -> torch.Tensor:
    return F.normalize(torch.randn(shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


def test_recall_is_the_share_found_among_the_nearest() -> None:
    queries, candidates = _vectors(0, 600, 8), _vectors(1, 600, 8)
    candidates = F.normalize(candidates + queries, dim=-1)
    scores = RetrievalScores()
    texts = [str(number) for number in range(600)]
    for part in (slice(0, 7), slice(7, 600)):
        scores.update(queries[part], candidates[part], texts[part])
    products = queries @ candidates.T
    ranks = (products > products.diagonal()[:, None]).sum(1)
    found = scores.compute()
    assert (found["items"], found["candidates"]) == (600, 600)
    for depth in (1, 5, 10):
        right = float((ranks < depth).double().mean())
        assert found[f"recall_at_{depth}"] == pytest.approx(right, abs=1e-6)
    assert found["recall_at_1"] < found["recall_at_5"] < found["recall_at_10"] < 1


def test_a_text_that_stands_twice_is_one_candidate() -> None:
    axes = torch.eye(3)
    scores = RetrievalScores()
    scores.update(axes[[0, 0, 1]], axes[[0, 0, 1]], ["a", "a", "b"])
    scores.update(axes[[2]], axes[[0]], ["a"])
    found = scores.compute()
    assert (found["items"], found["candidates"]) == (4, 2)
    assert found["recall_at_1"] >= 0.75
    assert found["recall_at_5"] == found["recall_at_10"] == 1


def test_texts_that_are_all_alike_find_the_first_one() -> None:
    """A collapsed model must not appear to find anything, nor must its report."""
    vectors = _vectors(0, 1, 8).expand(600, 8)
    scores = RetrievalScores()
    scores.update(vectors, vectors, [str(number) for number in range(600)])
    found = scores.compute()
    assert [found[f"recall_at_{depth}"] for depth in (1, 5, 10)] == [1 / 600, 5 / 600, 10 / 600]
    each = list(rank_candidates(vectors, vectors, range(600)))
    assert {one.nearest for one in each} == {0}
    assert [one.rank for one in each] == [*range(1, 601)]


def test_a_damaged_model_finds_nothing() -> None:
    with pytest.raises(UserError, match="a vector has values that are not numbers"):
        list(rank_candidates(torch.full((1, 2), torch.nan), torch.eye(2), [0]))


def test_nothing_to_find() -> None:
    with pytest.raises(UserError, match="no items to score"):
        RetrievalScores().compute()
    scores = RetrievalScores()
    scores.update(torch.eye(2), torch.eye(2)[[0, 0]], ["a", "a"])
    with pytest.raises(UserError, match="every pair has the same second text"):
        scores.compute()
