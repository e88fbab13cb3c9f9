"""What an explanation is about: a number that a model computes, and the tokens it comes from.

A task says what its answers can be explained by: `Task.aim`. The methods of
``heedful.explanations`` know nothing else of tasks.

Shapes: N times that the examples are in a batch, E examples, P positions, C outputs, T tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from heedful.batches import Batch, Example, Fitted
from heedful.errors import UserError
from heedful.tokens import PairLayout, Tokenizer

RecordT_co = TypeVar("RecordT_co", covariant=True)
OutputT_co = TypeVar("OutputT_co", covariant=True)
AnswerT_co = TypeVar("AnswerT_co", covariant=True)

Cover = Callable[[Example, NDArray[np.bool_]], Example]
"""From an example, and True for each of its tokens that is to show nothing, to what it is then."""

Link = Literal["softmax", "sigmoid", "exp", "none"]
"""How outputs become a probability: those of a choice share it, each has its own, they are its
logarithm, or they are none."""


class NothingToExplainError(UserError):
    """A text has nothing that an answer could come from, or no answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """One token of a side."""

    piece: str
    """As it stands in the vocabulary. To show a token, take the slice of its text if it has one."""
    text: int | None
    """Which text of the side it is from; None for a special token."""
    start: int | None
    """Where its slice of that text starts, in characters; None for a special token."""
    end: int | None
    word: int | None
    """The number of its word among the words of the side; None for a special token, and for a token
    that the explanation takes as it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Patches:
    """A picture as the model read it: each patch is a token, after the first."""

    png: str
    """The picture, as base64."""
    rows: int
    """Of patches."""
    columns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """A row of tokens that the model read or wrote."""

    name: str
    """What it is, such as ``text``, ``question and context`` or ``translation``."""
    texts: tuple[str, ...]
    """The text that its tokens are from, or the two texts of a pair."""
    tokens: tuple[Token, ...]
    picture: Patches | None = None
    """What its tokens are patches of, if they are; their text says where each stands."""

    def shown(self) -> list[str]:
        """Return each token as a reader knows it: its slice of the text, or a special token."""
        return [
            token.piece
            if token.text is None or token.start == token.end
            else self.texts[token.text][token.start : token.end]
            for token in self.tokens
        ]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Computed(Generic[RecordT_co, OutputT_co, AnswerT_co]):
    """A record, and how it was answered."""

    record: RecordT_co
    fitted: Fitted[Example]
    """Its examples."""
    outputs: Sequence[OutputT_co]
    """What was computed for each of them."""
    answer: AnswerT_co
    """What they came to."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Aim:
    """One number that a model computes, for an explanation to say which tokens it comes from."""

    target: str
    """What it is, in words, such as ``label 'billing'``."""
    examples: tuple[Example, ...]
    """What the model reads for it: one example, or the two that are compared."""
    sides: tuple[Side, ...]
    """The tokens of each example."""
    outputs: Callable[[Callable[..., Any], Batch, Tensor], Tensor]
    """From a model, a batch that has the examples N times, and each time's positions, shape (N, P),
    to the outputs, shape (N, C)."""
    index: int = 0
    """Which of the C outputs it is."""
    link: Link = "none"
    positions: tuple[int, ...] = ()
    """Tokens of the first example that the outputs stand at. They cannot be left out."""
    generated: tuple[Side, Side] | None = None
    """Of a model that reads one text and writes another: what it read back as it wrote, and what it
    wrote. Token for token, one is what was read to write the other."""
    cover: Cover | None = None
    """Of what cannot be left out, such as patches of a picture: makes some tokens show nothing."""
    notes: tuple[str, ...] = ()
    """What is not explained, in whole sentences."""


def side_of(
    name: str,
    texts: Sequence[str],
    kept: Sequence[Sequence[int]],
    tokenizer: Tokenizer,
    layout: PairLayout | None = None,
) -> Side:
    """Return the tokens of an example.

    Args:
        name: what it is.
        texts: its text, or both.
        kept: the numbers of the tokens of each text that are in it.
        tokenizer: the model's tokenizer.
        layout: the special tokens around the texts; those of the tokenizer, if None.
    """
    layout = layout or tokenizer.layout
    rows: list[list[Token | None]] = []
    words = 0
    for number, (text, chosen) in enumerate(zip(texts, kept, strict=True)):
        pieces = tokenizer.pieces(text)
        rows.append(
            [
                Token(
                    piece=tokenizer.vocabulary.token(pieces.ids[at]),
                    text=number,
                    start=pieces.offsets[at][0],
                    end=pieces.offsets[at][1],
                    word=words + pieces.words[at],
                )
                for at in chosen
            ]
        )
        words += max(pieces.words, default=-1) + 1
    special_ids = layout.ids(*([-1] * len(row) for row in rows))  # -1 for each token of a text
    tokens = layout.values(*rows, special=None)
    return Side(
        name=name,
        texts=tuple(texts),
        tokens=tuple(
            token or special(tokenizer.vocabulary.token(token_id))
            for token, token_id in zip(tokens, special_ids, strict=True)
        ),
    )


def special(piece: str) -> Token:
    """Return a token that is of no text."""
    return Token(piece=piece, text=None, start=None, end=None, word=None)


def window_notes(number: int, windows: int, why: str) -> tuple[str, ...]:
    """Say which window of a long text is explained.

    Args:
        number: its number, from 0.
        windows: how many there are.
        why: it is that one.
    """
    if windows == 1:
        return ()
    return (f"The text is read in {windows} windows; this explains window {number + 1}, {why}.",)
