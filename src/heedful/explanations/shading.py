"""Token scores as background shades in the running text, and as bars next to the words."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from heedful.explanations.explanation import Attribution, Patches, Side

SHADES = 10
"""The strongest shade of a token. The weakest is 1; 0 is no shade."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A token in the running text."""

    before: str
    """Characters between the previous token of the same text and this token."""
    shown: str
    """Characters of the token. Empty if the next token shares all of them and shows them."""
    after: str
    """Text after the last token of a text: white space, or text that the model did not read."""
    special: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """The score of a word: the sum of its tokens' scores."""

    shown: str
    score: float
    special: bool
    left: float
    """Left end of the bar, from 0 to 100; a score of 0 is at 50."""
    width: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Shading:
    """The attribution of one side."""

    name: str
    patches: Patches | None
    """The image, if the tokens after the first are its patches."""
    tokens: tuple[tuple[Piece, float, int], ...]
    """Each token with its score and its shade, which is negative for evidence against the target.
    Tokens with the same characters are merged, and their scores added."""
    words: tuple[Word, ...]
    """Words, strongest first."""


def running_text(side: Side) -> list[Piece]:
    """Return the tokens of a side with the text between them. No character appears twice."""
    last = {token.text: index for index, token in enumerate(side.tokens)}
    ends = dict.fromkeys(range(len(side.texts)), 0)
    pieces = []
    for index, (token, shown) in enumerate(zip(side.tokens, side.display_tokens(), strict=True)):
        before = after = ""
        if token.text is not None and token.start is not None and token.end is not None:
            text, shown_up_to = side.texts[token.text], ends[token.text]
            # The next token may begin before this one ends, or at the same character.
            next_tokens = [
                next_token
                for next_token in side.tokens[index + 1 : index + 2]
                if next_token.text == token.text
            ]
            end = min([token.end, *(next_token.start or 0 for next_token in next_tokens)])
            if token.start < token.end:
                shown = text[max(shown_up_to, token.start) : end]
            if shown:
                before, ends[token.text] = text[shown_up_to : token.start], max(shown_up_to, end)
            if last[token.text] == index:
                after = text[ends[token.text] :]
        pieces.append(Piece(before=before, shown=shown, after=after, special=token.text is None))
    return pieces


def shadings(sides: tuple[Side, ...], attribution: Attribution) -> list[Shading]:
    """Return the shading of each side that has scores, on a common scale."""
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
            patches=side.patches,
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
    """Yield the non-empty pieces. Scores of empty pieces are added to the next piece."""
    total = 0.0
    for piece, score in zip(pieces, scores, strict=True):
        total += score
        if piece.shown or piece.after:
            yield piece, total
            total = 0.0


def _words(side: Side, scores: tuple[float, ...]) -> Iterator[tuple[str, float, bool]]:
    """Yield each word, its score, and whether it is a special token."""
    # A special token has no word index, so its token index makes its key unique.
    keys = [
        (token.text, token.word if token.word is not None else -1 - index)
        for index, token in enumerate(side.tokens)
    ]
    for (text, _), indices in groupby(range(len(keys)), key=keys.__getitem__):
        members = list(indices)
        first, last = side.tokens[members[0]], side.tokens[members[-1]]
        shown = first.piece if text is None else side.texts[text][first.start : last.end]
        yield shown or first.piece, sum(scores[index] for index in members), text is None
