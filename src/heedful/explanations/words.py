"""Aggregate an explanation from tokens to words, in scores and in attention.

The score of a word is the sum of its tokens' scores. Attention to a word is the sum over its
tokens. Attention from a word is the mean over its tokens, so that rows still sum to 1 (Clark et al.
2019, section 4.1).

Shapes: L layers, H heads, T tokens, W words, R row tokens, C column tokens.
"""

from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from heedful.batches.word_spans import word_numbers, word_spans
from heedful.errors import UserError
from heedful.explanations.explanation import AttentionMap, Attribution, Explanation, Side, Token

NOTE = (
    "The tokens of a word are merged: the score of a word is the sum of theirs, and so is the "
    "attention to it; the attention from it is the mean of theirs."
)


def by_words(explanation: Explanation) -> Explanation:
    """Return an explanation whose tokens are words. A segmenter splits Chinese text into words.

    Special tokens stay separate.

    Raises:
        UserError: the explanation is of an image, or the segmenter is not installed.
    """
    if any(side.patches is not None for side in explanation.sides):
        raise UserError("--words has no effect on images, which have none")
    starts = [_starts(side) for side in explanation.sides]
    return replace(
        explanation,
        sides=tuple(map(_joined_side, explanation.sides, starts)),
        attention=tuple(_joined_map(one, starts) for one in explanation.attention),
        attributions=tuple(_joined_scores(one, starts) for one in explanation.attributions),
        notes=(*explanation.notes, NOTE),
    )


def _starts(side: Side) -> NDArray[np.int64]:
    """Return the index of each word's first token. Shape (W,)."""
    keys: list[tuple[int | None, int]] = [(None, index) for index in range(len(side.tokens))]
    for text_index, text in enumerate(side.texts):
        indices = [index for index, token in enumerate(side.tokens) if token.text == text_index]
        spans = [(side.tokens[index].start or 0, side.tokens[index].end or 0) for index in indices]
        (words,) = word_numbers([spans], word_spans(text, whole=True))
        for index, word in zip(indices, words, strict=True):
            if word is not None:
                keys[index] = (text_index, word)
    return np.array([next(group)[0] for _, group in groupby(enumerate(keys), lambda item: item[1])])


def _joined_side(side: Side, starts: NDArray[np.int64]) -> Side:
    edges = pairwise([*starts, len(side.tokens)])
    tokens = (
        _joined_token(side, side.tokens[first:end], word_index)
        for word_index, (first, end) in enumerate(edges)
    )
    return replace(side, tokens=tuple(tokens))


def _joined_token(side: Side, tokens: tuple[Token, ...], word_index: int) -> Token:
    first, last = tokens[0], tokens[-1]
    word = None if first.word is None else word_index
    if first is last or first.text is None:
        return replace(first, word=word)
    return replace(
        first, piece=side.texts[first.text][first.start : last.end], end=last.end, word=word
    )


def _joined_map(attention_map: AttentionMap, starts: list[NDArray[np.int64]]) -> AttentionMap:
    rows, columns = starts[attention_map.rows], starts[attention_map.columns]
    to_words = np.add.reduceat(attention_map.weights, columns, axis=-1)  # (L, H, R, W)
    sums = np.add.reduceat(to_words, rows, axis=-2)
    counts = np.diff([*rows, attention_map.weights.shape[-2]])[:, None]
    return replace(attention_map, weights=(sums / counts).astype(np.float32))


def _joined_scores(attribution: Attribution, starts: list[NDArray[np.int64]]) -> Attribution:
    return replace(
        attribution,
        scores=tuple(
            None if scores is None else tuple(np.add.reduceat(scores, firsts).tolist())
            for scores, firsts in zip(attribution.scores, starts, strict=True)
        ),
    )
