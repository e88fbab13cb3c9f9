"""The target of an explanation: a number that a model computes, and the tokens it depends on.

`Task.explanation_target` says what can be explained about an answer. The methods of
``heedful.explanations`` use nothing else of a task.

Shapes: N copies of the examples in a batch, E examples, P positions, C outputs, T tokens.
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

TokenMasker = Callable[[Example, NDArray[np.bool_]], Example]
"""Takes an example and a mask of its tokens to hide; returns the example with them hidden."""

OutputActivation = Literal["softmax", "sigmoid", "exp", "none"]
"""How outputs become probabilities: a softmax over all outputs, a sigmoid of each output, the
exponential of a log-probability, or not at all."""


class NothingToExplainError(UserError):
    """A text has no tokens to explain an answer by, or there is no answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """One token of a side."""

    piece: str
    """As in the vocabulary. To display a token, take its slice of the text if it has one."""
    text: int | None
    """Index of its text in the side; None for a special token."""
    start: int | None
    """Character offset of its slice of that text; None for a special token."""
    end: int | None
    word: int | None
    """Index of its word in the side; None for a special token, and for a token that the explanation
    never changes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Patches:
    """An image as the model read it: each token except the first is a patch."""

    png: str
    """The image as PNG, in base64."""
    rows: int
    """Rows of patches."""
    columns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """A sequence of tokens that the model read or wrote."""

    name: str
    """Its name, such as ``text``, ``question and context`` or ``translation``."""
    texts: tuple[str, ...]
    """The source text of the tokens, or the two texts of a pair."""
    tokens: tuple[Token, ...]
    patches: Patches | None = None
    """The image whose patches are the tokens; their text gives the position of each patch."""

    def display_tokens(self) -> list[str]:
        """Return the display form of each token: its slice of the text, or the special token."""
        return [
            token.piece
            if token.text is None or token.start == token.end
            else self.texts[token.text][token.start : token.end]
            for token in self.tokens
        ]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Answered(Generic[RecordT_co, OutputT_co, AnswerT_co]):
    """A record with its answer, and the examples and outputs in between."""

    record: RecordT_co
    encoded: Fitted[Example]
    """The encoded examples of the record."""
    outputs: Sequence[OutputT_co]
    """The output for each example."""
    answer: AnswerT_co
    """The answer decoded from the outputs."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ExplanationTarget:
    """One number that a model computes, to be attributed to the tokens of its input."""

    description: str
    """A description of it, such as ``label 'billing'``."""
    examples: tuple[Example, ...]
    """The input of the model: one example, or the two that are compared."""
    sides: tuple[Side, ...]
    """The tokens of each example."""
    outputs: Callable[[Callable[..., Any], Batch, Tensor], Tensor]
    """Takes a model, a batch of N copies of the examples, and the positions of each copy, shape
    (N, P). Returns the outputs, shape (N, C)."""
    output_index: int = 0
    """The index of the explained output among the C outputs."""
    link: OutputActivation = "none"
    positions: tuple[int, ...] = ()
    """Positions of the first example at which the outputs are computed. They cannot be removed."""
    decoder_tokens: tuple[Side, Side] | None = None
    """For an encoder-decoder: the decoder's input tokens and its output tokens, aligned: each input
    token is read when the output token of the same index is written."""
    mask_tokens: TokenMasker | None = None
    """Hides tokens that cannot be removed, such as the patches of an image."""
    notes: tuple[str, ...] = ()
    """What the explanation leaves out, in whole sentences."""


def side_of(
    name: str,
    texts: Sequence[str],
    kept: Sequence[Sequence[int]],
    tokenizer: Tokenizer,
    layout: PairLayout | None = None,
) -> Side:
    """Return the tokens of an example.

    Args:
        name: the name of the side.
        texts: its text, or both texts of a pair.
        kept: for each text, the indices of its tokens that the example contains.
        tokenizer: the model's tokenizer.
        layout: the special tokens around the texts; default: the tokenizer's layout.
    """
    layout = layout or tokenizer.layout
    rows: list[list[Token | None]] = []
    words = 0
    for text_index, (text, indices) in enumerate(zip(texts, kept, strict=True)):
        pieces = tokenizer.pieces(text)
        rows.append(
            [
                Token(
                    piece=tokenizer.vocabulary.token(pieces.ids[index]),
                    text=text_index,
                    start=pieces.offsets[index][0],
                    end=pieces.offsets[index][1],
                    word=words + pieces.words[index],
                )
                for index in indices
            ]
        )
        words += max(pieces.words, default=-1) + 1
    special_ids = layout.ids(*([-1] * len(row) for row in rows))  # -1 for tokens of the texts
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
    """Return a token that belongs to no text."""
    return Token(piece=piece, text=None, start=None, end=None, word=None)


def window_notes(number: int, windows: int, why: str) -> tuple[str, ...]:
    """Return a note that says which window of a long text is explained.

    Args:
        number: index of the window, from 0.
        windows: number of windows.
        why: the reason for choosing that window.
    """
    if windows == 1:
        return ()
    return (f"The text is read in {windows} windows; this explains window {number + 1}, {why}.",)
