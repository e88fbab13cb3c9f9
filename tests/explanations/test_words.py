"""Explanations by words: scores of tokens are summed, and rows of attention still sum to 1."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.explanations.examples import classified, side, translated

import heedful
from heedful.batches.word_spans import word_spans
from heedful.errors import UserError
from heedful.explanations.explanation import Attribution, Explanation, Patches, Side
from heedful.explanations.words import NOTE, by_words

GOLDEN = Path(__file__).parents[1] / "golden" / "0.1.0"
CHINESE = "我来到北京清华大学，book 3.5元。"


def test_tokens_of_a_word_are_one() -> None:
    joined = by_words(classified("We telephoned nobody, twice!", "Really not."))
    (read,) = joined.sides
    words = [
        *("[CLS]", "We", "telephoned", "nobody", ",", "twice", "!", "[SEP]"),
        *("Really", "not", ".", "[SEP]"),
    ]
    assert read.display_tokens() == words
    assert [token.word for token in read.tokens if token.text is None] == [None] * 3
    numbers = [token.word for token in read.tokens if token.word is not None]
    assert len(set(numbers)) == len(numbers)
    assert joined.notes[-1] == NOTE


def test_scores_and_attention_are_added_up() -> None:
    explanation = classified("We telephoned nobody")  # [CLS] We telep ##honed nobody [SEP]
    joined = by_words(explanation)
    (one,), (after,) = explanation.attributions[:1], joined.attributions[:1]
    assert one.scores[0] is not None
    assert after.scores[0] is not None
    we, first, second, nobody = one.scores[0][1:5]
    assert_allclose(after.scores[0][1:4], [we, first + second, nobody])
    weights, whole = explanation.attention[0].weights, joined.attention[0].weights
    assert whole.shape == (4, 6, 5, 5)
    assert_allclose(whole.sum(-1), 1, rtol=1e-5)
    assert_allclose(whole[..., 1, 2], weights[..., 1, 2:4].sum(-1), rtol=1e-5)
    assert_allclose(whole[..., 2, 1], weights[..., 2:4, 1].mean(-1), rtol=1e-5)


def test_sides_are_put_together_apart() -> None:
    explanation = translated()
    joined = by_words(explanation)
    cross, encoder = joined.attention
    read, wrote = (len(side.tokens) for side in joined.sides)
    assert (read, wrote) < tuple(len(side.tokens) for side in explanation.sides)
    assert cross.weights.shape[2:] == (wrote, read)
    assert encoder.weights.shape[2:] == (read, read)


def test_tokens_of_no_word_stay_alone() -> None:
    read = side("two words")
    spaces = tuple(replace(token, start=3, end=3) for token in read.tokens[1:3])
    strange = replace(read, tokens=(read.tokens[0], *spaces, read.tokens[-1]))
    explanation = Explanation(task="classify", model="", answer={}, sides=(strange,))
    assert len(by_words(explanation).sides[0].tokens) == 4


def test_a_picture_has_no_words() -> None:
    read = Side(name="image", texts=("",), tokens=(), patches=Patches(png="", rows=0, columns=0))
    with pytest.raises(UserError, match=r"--words has no effect on images"):
        by_words(Explanation(task="classify", model="", answer={}, sides=(read,)))


def test_chinese_words_are_those_of_the_segmenter() -> None:
    pytest.importorskip("jieba", reason="needs jieba, of the extra chinese")
    spans = word_spans(CHINESE, whole=True)
    words = ["我", "来到", "北京", "清华大学", "，", "book", "3.5", "元", "。"]
    assert [CHINESE[start:end] for start, end in spans] == words
    assert len(word_spans(CHINESE)) == 16
    assert word_spans("北京の大学", whole=True) == word_spans("北京の大学")
    characters = side(CHINESE)
    tokens = [
        replace(characters.tokens[1], start=start, end=end, word=number)
        for number, (start, end) in enumerate(word_spans(CHINESE))
    ]
    scores = tuple(float(number) for number in range(len(tokens)))
    explanation = Explanation(
        task="classify",
        model="",
        answer={},
        sides=(replace(characters, tokens=tuple(tokens)),),
        attributions=(Attribution(method="", target="", scores=(scores,)),),
    )
    joined = by_words(explanation)
    assert joined.sides[0].display_tokens() == words
    assert joined.attributions[0].scores[0] == (0, 1 + 2, 3 + 4, 5 + 6 + 7 + 8, 9, 10, 36, 14, 15)


@pytest.mark.parametrize("name", ["classify", "tag", "translate", "gru"])
def test_each_kind_of_run_is_explained_by_words(name: str) -> None:
    text = "the hund sleeps!" if name in ("translate", "gru") else "the cat's friend sleeps!"
    whole, pieces = (
        heedful.explain(GOLDEN / name, text, words=words, attention=True) for words in (True, False)
    )
    for joined, tokens in zip(whole.attributions, pieces.attributions, strict=True):
        for after, before in zip(joined.scores, tokens.scores, strict=True):
            assert (after is None) == (before is None)
            assert_allclose(sum(after or ()), sum(before or ()), rtol=1e-5, atol=1e-7)
    for one in whole.attention:
        rows, columns = whole.sides[one.rows], whole.sides[one.columns]
        assert one.weights.shape[2:] == (len(rows.tokens), len(columns.tokens))
        assert_allclose(np.asarray(one.weights).sum(-1), 1, rtol=1e-4)
    assert "hund" in whole.sides[0].display_tokens() or "friend" in whole.sides[0].display_tokens()
