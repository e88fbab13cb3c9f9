"""Scores of tokens as shades of the running text, and as bars beside the words."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from heedful.explanations.explanation import Attribution, Patches, Side

SHADES = 10
"""The strongest shade of a token; the weakest is 1, and none is 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A token where it stands in the running text."""

    before: str
    """The characters between the token before it in the same text and this one."""
    shown: str
    """Its characters; none where all of them are the next token's, too, and shown there."""
    after: str
    """What follows the last token of a text: white space, or what the model did not read."""
    special: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """The score of a word: the sum of its tokens' scores."""

    shown: str
    score: float
    special: bool
    left: float
    """Where its bar begins, from 0 to 100; a score of 0 is at 50."""
    width: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Shading:
    """An attribution over one side."""

    name: str
    picture: Patches | None
    """What the tokens after the first are patches of, if they are."""
    tokens: tuple[tuple[Piece, float, int], ...]
    """Each token, its score, and its shade; below 0 where it speaks against the target. Tokens of
    the same characters are one, whose score is the sum of theirs."""
    words: tuple[Word, ...]
    """The strongest first."""


def running_text(side: Side) -> list[Piece]:
    """Return the tokens of a side with all that stands between them, and no character twice."""
    last = {token.text: index for index, token in enumerate(side.tokens)}
    ends = dict.fromkeys(range(len(side.texts)), 0)
    pieces = []
    for index, (token, shown) in enumerate(zip(side.tokens, side.shown(), strict=True)):
        before = after = ""
        if token.text is not None and token.start is not None and token.end is not None:
            text, begun = side.texts[token.text], ends[token.text]
            # The next token may begin before this one ends, or at the same character.
            nexts = [one for one in side.tokens[index + 1 : index + 2] if one.text == token.text]
            end = min([token.end, *(one.start or 0 for one in nexts)])
            if token.start < token.end:
                shown = text[max(begun, token.start) : end]
            if shown:
                before, ends[token.text] = text[begun : token.start], max(begun, end)
            if last[token.text] == index:
                after = text[ends[token.text] :]
        pieces.append(Piece(before=before, shown=shown, after=after, special=token.text is None))
    return pieces


def shadings(sides: tuple[Side, ...], attribution: Attribution) -> list[Shading]:
    """Return how to shade each side that has scores, on one scale."""
    scored = [
        (side, scores)
        for side, scores in zip(sides, attribution.scores, strict=True)
        if scores is not None
    ]
    rows = [list(_joined(running_text(side), scores)) for side, scores in scored]
    strongest = max((abs(score) for row in rows for _, score in row), default=0) or 1.0
    sums = [list(_words(side, scores)) for side, scores in scored]
    longest = max((abs(score) for words in sums for _, score, _ in words), default=0) or 1.0
    return [
        Shading(
            name=side.name,
            picture=side.picture,
            tokens=tuple((piece, score, round(SHADES * score / strongest)) for piece, score in row),
            words=tuple(
                Word(
                    shown=shown,
                    score=score,
                    special=special,
                    left=50 + min(0.0, 50 * score / longest),
                    width=abs(50 * score / longest),
                )
                for shown, score, special in sorted(words, key=lambda word: -abs(word[1]))
            ),
        )
        for (side, _), row, words in zip(scored, rows, sums, strict=True)
    ]


def _joined(pieces: list[Piece], scores: tuple[float, ...]) -> Iterator[tuple[Piece, float]]:
    """Yield the pieces that show something, each with the scores of those before that do not."""
    waiting = 0.0
    for piece, score in zip(pieces, scores, strict=True):
        waiting += score
        if piece.shown or piece.after:
            yield piece, waiting
            waiting = 0.0


def _words(side: Side, scores: tuple[float, ...]) -> Iterator[tuple[str, float, bool]]:
    """Yield each word with its score, and whether it is a special token."""
    # A special token has no word; its index keeps two of them apart.
    keys = [
        (token.text, token.word if token.word is not None else -1 - index)
        for index, token in enumerate(side.tokens)
    ]
    for (text, _), places in groupby(range(len(keys)), key=keys.__getitem__):
        members = list(places)
        first, last = side.tokens[members[0]], side.tokens[members[-1]]
        shown = first.piece if text is None else side.texts[text][first.start : last.end]
        yield shown or first.piece, sum(scores[index] for index in members), text is None
