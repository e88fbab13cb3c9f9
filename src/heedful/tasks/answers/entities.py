"""Answers of a tagger: the entities of a text, and its words with their tags."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from heedful.batches.windows import WINDOW_SHARE, fit_text, nearest_windows
from heedful.errors import UserError
from heedful.reading.tagging import (
    Entity,
    Scheme,
    TaggedText,
    Word,
    as_labels,
    entities_of,
    parse_tag,
    tags_of,
    transitions,
    viterbi,
)
from heedful.settings import LongText
from heedful.tokens import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundEntity:
    """An entity: ``text[start:end]`` of the user's text."""

    label: str
    start: int
    end: int
    text: str
    score: float
    """Mean probability of its words' tags."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggedWord:
    """A word of a text and its tag."""

    start: int
    end: int
    text: str
    tag: str
    labels: tuple[str, ...] = field(repr=False)
    """All tags."""
    probabilities: tuple[float, ...] | None
    """The probability of each tag; None for a word that the model did not read. Several given words
    that the tokenizer reads as one share its probabilities."""

    @property
    def scores(self) -> dict[str, float] | None:
        """The probability of each tag, by its name."""
        values = self.probabilities
        return None if values is None else dict(zip(self.labels, values, strict=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggedPiece:
    """A subword and its most probable tag, ignoring the neighbouring tags."""

    number: int
    """Its index among the subwords of the text, from 0."""
    token: str
    """As in the vocabulary."""
    start: int
    end: int
    tag: str
    score: float
    """The probability of the tag."""


@dataclass(frozen=True, kw_only=True)
class Tagging:
    """The answer for one text."""

    entities: tuple[FoundEntity, ...]
    """In text order, without overlap."""
    make_words: Callable[[], tuple[TaggedWord, ...]] = field(repr=False, compare=False)
    """Creates `words`. This takes as long as finding the entities, and most callers need only
    entities."""
    tokens_total: int
    """Number of tokens of the text."""
    tokens_used: int
    """Number of tokens that the model read."""
    windows: int
    """Number of windows of the text; each word is taken from its most central window."""
    pieces: tuple[TaggedPiece, ...] | None = None
    """If requested, all subwords that the model read."""

    @cached_property
    def words(self) -> tuple[TaggedWord, ...]:
        """All words of the text: the given ones, or else those defined by the run."""
        return self.make_words()

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the entities, and on request each word with the probability of each tag."""
        row: dict[str, Any] = {
            "entities": [
                {
                    "label": entity.label,
                    "start": entity.start,
                    "end": entity.end,
                    "text": entity.text,
                    "score": round(entity.score, 6),
                }
                for entity in self.entities
            ]
        }
        if everything:
            row["words"] = [
                {
                    "start": word.start,
                    "end": word.end,
                    "text": word.text,
                    "tag": word.tag,
                    "scores": {tag: round(value, 6) for tag, value in (word.scores or {}).items()},
                }
                for word in self.words
            ]
        if self.pieces is not None:
            row["pieces"] = [
                {
                    "token": piece.token,
                    "start": piece.start,
                    "end": piece.end,
                    "tag": piece.tag,
                    "score": round(piece.score, 6),
                }
                for piece in self.pieces
            ]
        return row | {"tokens_total": self.tokens_total, "tokens_used": self.tokens_used}

    def plain(self) -> str:
        """Return CoNLL columns: a line per word with its tag; an empty line ends the text."""
        return "".join(f"{word.text}\t{word.tag}\n" for word in self.words)


def tagging(
    record: TaggedText,
    words: Sequence[Word],
    values: Mapping[Word, NDArray[np.floating]],
    *,
    labels: tuple[str, ...],
    scheme: Scheme,
    tokens_total: int,
    tokens_used: int,
    windows: int,
) -> Tagging:
    """Tag words with the most probable valid sequence, and merge tags into entities.

    Args:
        record: the text.
        words: all words that the tokenizer does not drop, in order. Given words that the tokenizer
            reads as one are one word here.
        values: the probabilities of the tags, for each word that the model read. Shape (L,).
        labels: the L tags.
        scheme: the tagging scheme, which defines the valid transitions.
        tokens_total: see `Tagging`.
        tokens_used: see `Tagging`.
        windows: see `Tagging`.

    Raises:
        UserError: a probability is NaN.
    """
    entities: list[FoundEntity] = []
    for was_read, group in groupby(words, key=values.__contains__):
        if not was_read:  # no entity continues across unread words
            continue
        group_words = list(group)
        rows = np.array([values[word] for word in group_words])  # (W, L)
        if not np.isfinite(rows).all():
            raise UserError("a predicted probability is not a number; the model is damaged")
        best = viterbi(rows, transitions(labels, scheme))  # (W,)
        scores = rows[np.arange(len(group_words)), best].tolist()
        tags = [labels[number] for number in best]
        for first, last, label in entities_of([parse_tag(tag) for tag in tags]):
            start, end = group_words[first][0], group_words[last - 1][1]
            entities.append(
                FoundEntity(
                    label=label,
                    start=start,
                    end=end,
                    text=record.text[start:end],
                    score=sum(scores[first:last]) / (last - first),
                )
            )
    return Tagging(
        entities=tuple(entities),
        make_words=partial(_tagged, record, words, entities, values, labels, scheme),
        tokens_total=tokens_total,
        tokens_used=tokens_used,
        windows=windows,
    )


def _tagged(
    record: TaggedText,
    words: Sequence[Word],
    entities: Sequence[FoundEntity],
    values: Mapping[Word, NDArray[np.floating]],
    labels: tuple[str, ...],
    scheme: Scheme,
) -> tuple[TaggedWord, ...]:
    """Tag the given words by the entities, even those that the tokenizer reads as one.

    Args:
        record: the text.
        words: the words that the model read, in order.
        entities: the entities found, in order.
        values: the probabilities of the tags, for each word that the model read. Shape (L,).
        labels: the L tags.
        scheme: the tagging scheme.
    """
    tagged = words if record.words is None else record.words
    starts = [start for start, _ in tagged]
    tags = tags_of(
        [
            Entity(bisect_left(starts, entity.start), bisect_left(starts, entity.end), entity.label)
            for entity in entities
        ],
        len(tagged),
        scheme,
    )
    tagged_words = []
    for word, tag in zip(tagged, as_labels(tags, labels), strict=True):
        row = values.get(word if word in values else _holding(words, *word))
        tagged_words.append(
            TaggedWord(
                start=word[0],
                end=word[1],
                text=record.text[slice(*word)],
                tag=tag,
                labels=labels,
                probabilities=None if row is None else tuple(row.tolist()),
            )
        )
    return tuple(tagged_words)


def _holding(words: Sequence[Word], start: int, end: int) -> Word:
    """Return the word that contains a slice of the text; the slice itself if there is none."""
    index = bisect_right(words, start, key=itemgetter(0)) - 1
    return words[index] if index >= 0 and words[index][1] >= end else (start, end)


def tagged_pieces(
    text: str,
    rows: Sequence[Tensor],
    labels: Sequence[str],
    rule: LongText,
    tokenizer: Tokenizer,
) -> tuple[TaggedPiece, ...]:
    """Tag each subword of a text independently, in the window with the most context.

    Args:
        text: the text.
        rows: for each window, the tag probabilities of each token, including special tokens. Shape
            (T, L) each.
        labels: the L tags.
        rule: how the text was split or cut to the maximum length.
        tokenizer: the model's tokenizer.
    """
    pieces, layout = tokenizer.pieces(text), tokenizer.layout
    limit = len(rows[0]) - layout.size(pair=False)
    if limit < 1:
        return ()
    parts = fit_text(range(len(pieces.ids)), limit=limit, rule=rule, stride=limit // WINDOW_SHARE)
    kept = nearest_windows([part[0] for part in parts.pieces], limit)
    tagged = []
    for part, row, window in zip(parts.pieces, rows, kept, strict=True):
        best = row[len(layout.begin) : len(layout.begin) + limit].max(-1)
        scores, tags = best.values.tolist(), best.indices.tolist()
        for number, score, tag in zip(part[window], scores[window], tags[window], strict=True):
            start, end = pieces.offsets[number]
            tagged.append(
                TaggedPiece(
                    number=number,
                    token=tokenizer.vocabulary.token(pieces.ids[number]),
                    start=start,
                    end=end,
                    tag=labels[tag],
                    score=score,
                )
            )
    return tuple(tagged)
