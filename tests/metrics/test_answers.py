"""Scores of answers: the official comparison on cases computed by hand, and the counts."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics.functional import text

from heedful.errors import UserError
from heedful.metrics import AnswerScores


def compared(answer: str, *right: str) -> tuple[float, float]:
    scores = AnswerScores()
    scores.update(answer, right, answered=True, margin=0.0)
    found = scores.compute()
    assert found["items"] == 1
    return found["exact_match"], found["f1"]


@pytest.mark.parametrize(
    ("answer", "right", "exact_match", "f1"),
    [
        ("blue", ["blue"], 1, 1),
        ("The Blue!", ["blue"], 1, 1),  # case, articles and punctuation do not count
        ("a  dog,\nan owl", ["dog owl"], 1, 1),
        ("U.S.", ["US"], 1, 1),
        ("another", ["other"], 0, 0),  # an article is a word, not a part of one
        ("well-known", ["well known"], 0, 0),  # what stands around a mark grows together
        ("“blue”", ["blue"], 0, 0),  # of ASCII, that is
        ("blue sky above", ["the blue sky"], 0, 0.8),  # 2 of 3 words given, 2 of 2 found
        ("to to be", ["to be"], 0, 0.8),  # each word as often as it stands
        ("sky blue", ["blue sky"], 0, 1),  # words in any order
        ("red", ["blue"], 0, 0),
        ("blue", ["green", "light blue", "blue!"], 1, 1),  # the nearest counts
        ("dark blue", ["deep dark blue sky", "blue"], 0, 0.666667),  # for either score
        ("", ["blue"], 0, 0),
    ],
)
def test_the_official_comparison(
    answer: str, right: list[str], exact_match: float, f1: float
) -> None:
    assert compared(answer, *right) == (exact_match, f1)


@pytest.mark.parametrize(
    ("right", "blank"),
    [(["50%", "The"], 0), (["a-n", "the  blue"], 0), (["The", "a."], 1), ([], 1)],
)
def test_answers_of_articles_alone_are_none_where_there_may_be_none(
    right: list[str], blank: int
) -> None:
    """As in the program of SQuAD 2.0; that of 1.1 compares them all."""
    scores = AnswerScores(no_answer=True)
    scores.update("", right, answered=False, margin=0.0)
    found = scores.compute()
    assert (found["exact_match"], found["f1"]) == (blank, blank)
    assert compared("an", "50%", "The") == (1, 1)


def test_means() -> None:
    scores = AnswerScores()
    for answer in ("blue", "blue sky", "red"):
        scores.update(answer, ["blue"], answered=True, margin=0.0)
    assert scores.compute() == {"items": 3, "exact_match": 0.333333, "f1": 0.555556}


def test_no_answer_is_right_where_there_is_none() -> None:
    scores = AnswerScores(no_answer=True)
    for right, answered in (([], False), ([], True), (["blue"], False), (["blue sky"], True)):
        scores.update("blue", right, answered=answered, margin=0.0)
    found = scores.compute()
    assert (found["exact_match"], found["f1"]) == (0.25, 0.416667)
    assert found["answerable"] == {"items": 2, "exact_match": 0.0, "f1": 0.333333}
    assert found["unanswerable"] == {"items": 2, "exact_match": 0.5, "f1": 0.5}


def test_who_always_answers_has_no_threshold() -> None:
    scores = AnswerScores()
    scores.update("blue", [], answered=True, margin=0.0)
    found = scores.compute()
    assert "best_threshold" not in found
    assert found["unanswerable"] == {"items": 1, "exact_match": 0.0, "f1": 0.0}
    assert found["answerable"] == {"items": 0, "exact_match": 0.0, "f1": 0.0}


def test_the_best_threshold() -> None:
    scores = AnswerScores(no_answer=True)
    for margin, right in ((-3, ["blue"]), (-1, []), (0.5, ["blue"]), (2, [])):
        scores.update("blue", right, answered=margin <= 0, margin=margin)
    # Answering the first, or the first three, is right three times.
    assert scores.compute()["best_threshold"] == {
        "threshold": -3.0,
        "exact_match": 0.75,
        "f1": 0.75,
    }


def test_never_answering_may_be_best() -> None:
    scores = AnswerScores(no_answer=True)
    scores.update("blue", [], answered=True, margin=-5.0)
    assert scores.compute()["best_threshold"]["threshold"] < -5
    assert scores.compute()["best_threshold"]["f1"] == 1


QUESTIONS = st.lists(
    st.tuples(st.integers(-2, 2), st.sampled_from([[], ["blue"], ["blue sky"], ["red"]])),
    min_size=1,
    max_size=8,
)


def f1_at(threshold: float, questions: Sequence[tuple[int, list[str]]]) -> float:
    scores = AnswerScores(no_answer=True)
    for margin, right in questions:
        scores.update("blue", right, answered=margin <= threshold, margin=margin)
    f1: float = scores.compute()["f1"]
    return f1


@given(QUESTIONS)
def test_no_threshold_is_better_than_the_best(questions: list[tuple[int, list[str]]]) -> None:
    scores = AnswerScores(no_answer=True)
    for margin, right in questions:
        scores.update("blue", right, answered=True, margin=margin)
    best = scores.compute()["best_threshold"]
    assert f1_at(best["threshold"], questions) == pytest.approx(best["f1"], abs=2e-6)
    assert best["f1"] >= max(f1_at(each - 2.5, questions) for each in range(6)) - 2e-6


@pytest.mark.parametrize(("no_answer", "count"), [(False, 1), (True, 2)])
def test_the_slow_comparison_is_made_where_it_is_needed(
    monkeypatch: pytest.MonkeyPatch, no_answer: bool, count: int
) -> None:
    calls, original = [], text.squad

    def counting(*given: Any) -> Any:
        calls.append(given)
        return original(*given)

    monkeypatch.setattr(text, "squad", counting)
    for answered in (True, False):
        scores = AnswerScores(no_answer)
        scores.update("blue", ["blue sky"], answered=answered, margin=0.0)
        assert scores.compute()["f1"] == (0.666667 if answered else 0)
    assert len(calls) == 2 * count


def test_nothing_to_score() -> None:
    with pytest.raises(UserError, match="no questions to score"):
        AnswerScores().compute()


@pytest.mark.parametrize(
    ("answer", "right", "exact_match", "f1"),
    [
        ("光荣和ω-force", ["光荣和ω-force"], 1, 1),
        ("《战国无双３》", ["战国无双３"], 1, 1),  # marks do not count
        ("北京 市", ["北京市"], 0, 1),  # for F1, spaces do not, either
        ("在北京", ["北京"], 0, 0.8),  # 2 of 3 characters given, 2 of 2 right
        ("北大京", ["北京"], 0, 0.4),  # only those in a row count
        ("京北", ["北京"], 0, 0.5),
        ("1998年IBM", ["1998年 ibm公司"], 0, 0.75),  # words and numbers are one unit each
        ("3.5万", ["3.5"], 0, 0.666667),
        ("上海", ["北京", "上海市"], 0, 0.8),  # the nearest counts
        ("南京", ["上海"], 0, 0),
        ("ひらがな", ["ひらがなの"], 0, 0.888889),
        ("", ["北京"], 0, 0),
        ("，", ["。"], 1, 1),
        ("", [], 1, 1),
        ("北京", [], 0, 0),
    ],
)
def test_the_comparison_of_characters(
    answer: str, right: list[str], exact_match: float, f1: float
) -> None:
    scores = AnswerScores()
    scores.update(answer, right, answered=True, margin=0.0, unspaced=True)
    result = scores.compute()
    assert (result["exact_match"], result["f1"]) == (exact_match, f1)
    assert result["compared_by"] == "characters (CMRC 2018)"
    assert result["squad"]["items"] == 1


def test_both_comparisons_are_named() -> None:
    scores = AnswerScores()
    scores.update("在北京", ["北京"], answered=True, margin=0.0, unspaced=True)
    scores.update("the sky", ["sky"], answered=True, margin=0.0)
    assert scores.compute() == {
        "items": 2,
        "exact_match": 0.5,
        "f1": 0.9,
        "compared_by": "characters (CMRC 2018); words (SQuAD) in 1 of 2",
        "squad": {"items": 2, "exact_match": 0.5, "f1": 0.5},
    }
