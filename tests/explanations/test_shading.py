"""The running text is the user's text, and scores become shades and bars."""

import pytest
from tests.explanations.examples import SENTENCE, classified, side

from heedful.explanations.explanation import Attribution, Side, Token
from heedful.explanations.shading import SHADES, running_text, shadings


@pytest.mark.parametrize("texts", [(SENTENCE,), ("  Who, \n me? ", "Né «là».\t")])
def test_the_running_text_is_the_whole_text(texts: tuple[str, ...]) -> None:
    pieces = running_text(side(*texts))
    whole = "".join(
        piece.before + piece.shown + piece.after for piece in pieces if not piece.special
    )
    assert whole == "".join(texts)
    assert [piece.shown for piece in pieces if piece.special] == ["[CLS]", *["[SEP]"] * len(texts)]


def test_what_was_not_read_stands_at_the_end() -> None:
    token = Token(piece="one", text=0, start=0, end=3, word=0)
    (piece,) = running_text(Side(name="text", texts=("one two three",), tokens=(token,)))
    assert (piece.shown, piece.after) == ("one", " two three")


def test_a_token_without_characters_is_shown_by_its_piece() -> None:
    token = Token(piece="▁", text=0, start=2, end=2, word=0)
    (piece,) = running_text(Side(name="text", texts=("a b",), tokens=(token,)))
    assert (piece.before, piece.shown, piece.after) == ("a ", "▁", "b")


def test_characters_of_several_tokens_are_shown_once() -> None:
    """For example, the token for the space before a text, and tokens for a character's bytes."""
    spans = [(0, 1), (0, 2), (3, 4), (3, 4), (3, 4), (4, 6), (5, 7)]
    tokens = tuple(
        Token(piece="?", text=0, start=start, end=end, word=0 if end < 3 else 1)
        for start, end in spans
    )
    read = Side(name="text", texts=("你好 😂abc",), tokens=tokens)
    shown = [piece.before + piece.shown + piece.after for piece in running_text(read)]
    assert shown == ["", "你好", "", "", " 😂", "a", "bc"]
    scores = (1.0, -2.0, 1.0, 1.0, 2.0, 0.25, 0.0)
    attribution = Attribution(method="m", target="t", scores=(scores,))
    (shading,) = shadings((read,), attribution)
    assert [piece.shown for piece, _, _ in shading.tokens] == ["你好", "😂", "a", "bc"]
    sums = [score for _, score, _ in shading.tokens]
    assert sums == pytest.approx([-1.0, 4.0, 0.25, 0.0])


def test_shades_and_bars_follow_the_scores() -> None:
    read = side("yes extraordinary no")
    scores = (0.0, 2.0, 0.5, 0.5, -4.0, 0.1)
    attribution = Attribution(method="m", target="t", scores=(scores,))
    (shading,) = shadings((read,), attribution)
    assert [shade for _, _, shade in shading.tokens] == [0, 5, 1, 1, -SHADES, 0]
    bars = [(word.shown, word.left, word.width) for word in shading.words]
    assert bars[:3] == [("no", 0, 50), ("yes", 50, 25), ("extraordinary", 50, 12.5)]
    assert [word.special for word in shading.words] == [False, False, False, True, True]


def test_sides_share_one_scale_and_one_may_have_no_scores() -> None:
    read, wrote = side("one", special=False), side("two", special=False)
    attribution = Attribution(method="m", target="t", scores=((1.0,), (-2.0,)))
    shades = [shading.tokens[0][2] for shading in shadings((read, wrote), attribution)]
    assert shades == [SHADES // 2, -SHADES]
    attribution = Attribution(method="m", target="t", scores=(None, (-2.0,)))
    assert [shading.tokens[0][2] for shading in shadings((read, wrote), attribution)] == [-SHADES]


def test_scores_of_nothing_have_no_shade() -> None:
    attribution = Attribution(method="m", target="t", scores=((0.0,) * 19,))
    (shading,) = shadings(classified().sides, attribution)
    assert {shade for _, _, shade in shading.tokens} == {0}
    assert {word.width for word in shading.words} == {0}
