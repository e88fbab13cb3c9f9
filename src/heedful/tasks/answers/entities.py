"""What a tagger answers: the entities of a text, and each of its words with its tag."""

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
    likeliest_tags,
    parse_tag,
    tags_of,
    transitions,
)
from heedful.settings import LongText
from heedful.tokens import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundEntity:
    """An entity in a text: ``text[start:end]`` of what the user gave."""

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
    """Every tag."""
    probabilities: tuple[float, ...] | None
    """The probability of each; none for a word that the model was not given. Of characters that the
    model reads as one word, that of the word."""

    @property
    def scores(self) -> dict[str, float] | None:
        """The probability of every tag, by its name."""
        values = self.probabilities
        return None if values is None else dict(zip(self.labels, values, strict=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggedPiece:
    """A piece that a word is cut into, and its likeliest tag, whatever stands beside it."""

    number: int
    """Its number among the pieces of the text, from 0."""
    token: str
    """As it stands in the vocabulary."""
    start: int
    end: int
    tag: str
    score: float
    """The probability of the tag."""


@dataclass(frozen=True, kw_only=True)
class Tagging:
    """The answer for one text."""

    entities: tuple[FoundEntity, ...]
    """In the order of the text, without overlap."""
    make_words: Callable[[], tuple[TaggedWord, ...]] = field(repr=False, compare=False)
    """Makes `words`. Most callers want entities alone, and to make the words takes as long as to
    find these."""
    tokens_total: int
    """Tokens of the text."""
    tokens_used: int
    """Tokens the model was given."""
    windows: int
    """Windows the text was read in; each word is taken from where it has most context."""
    pieces: tuple[TaggedPiece, ...] | None = None
    """If asked for, all pieces that the model was given."""

    @cached_property
    def words(self) -> tuple[TaggedWord, ...]:
        """Every word of the text: those it was given as, else those of the run's rule."""
        return self.make_words()

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the entities, and on request every word with the probability of every tag."""
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
        """Return CoNLL columns: a line for each word, with its tag; an empty line ends the text."""
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
    """Tag words with the likeliest sequence that may be, and gather entities.

    Args:
        record: the text.
        words: all its words that the tokenizer does not drop, in order; what it reads as one word
            is one, however it was given.
        values: the probability of each tag, of the words that the model was given. Shape (L,).
        labels: the L tags.
        scheme: what says which may follow which.
        tokens_total: see `Tagging`.
        tokens_used: see `Tagging`.
        windows: see `Tagging`.

    Raises:
        UserError: a probability is not a number.
    """
    entities: list[FoundEntity] = []
    for was_read, group in groupby(words, key=values.__contains__):
        if not was_read:  # and so no entity goes on behind it
            continue
        run = list(group)
        rows = np.array([values[word] for word in run])  # (W, L)
        if not np.isfinite(rows).all():
            raise UserError("a predicted probability is not a number; the model is damaged")
        best = likeliest_tags(rows, transitions(labels, scheme))  # (W,)
        sure = rows[np.arange(len(run)), best].tolist()
        named = [labels[number] for number in best]
        for first, last, label in entities_of([parse_tag(tag) for tag in named]):
            start, end = run[first][0], run[last - 1][1]
            entities.append(
                FoundEntity(
                    label=label,
                    start=start,
                    end=end,
                    text=record.text[start:end],
                    score=sum(sure[first:last]) / (last - first),
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
    """Tag the words as they were given: an entity's first and its others, whatever was read as one.

    Args:
        record: the text.
        words: those that were read, in order.
        entities: those that were found, in order.
        values: the probability of each tag, of words that were read. Shape (L,).
        labels: the L tags.
        scheme: of the tags.
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
    made = []
    for word, tag in zip(tagged, as_labels(tags, labels), strict=True):
        row = values.get(word if word in values else _holding(words, *word))
        made.append(
            TaggedWord(
                start=word[0],
                end=word[1],
                text=record.text[slice(*word)],
                tag=tag,
                labels=labels,
                probabilities=None if row is None else tuple(row.tolist()),
            )
        )
    return tuple(made)


def _holding(words: Sequence[Word], start: int, end: int) -> Word:
    """Return which of the words holds a slice of the text; the slice itself if none does."""
    index = bisect_right(words, start, key=itemgetter(0)) - 1
    return words[index] if index >= 0 and words[index][1] >= end else (start, end)


def tagged_pieces(
    text: str,
    rows: Sequence[Tensor],
    labels: Sequence[str],
    rule: LongText,
    tokenizer: Tokenizer,
) -> tuple[TaggedPiece, ...]:
    """Tag each piece of a text by itself, where it has most context.

    Args:
        text: the text.
        rows: of each window, the probability of each tag for each token, special tokens among them.
            Shape (T, L) each.
        labels: the L tags.
        rule: how the text was fitted to what the model is given at once.
        tokenizer: the model's tokenizer.
    """
    pieces, layout = tokenizer.pieces(text), tokenizer.layout
    limit = len(rows[0]) - layout.size(pair=False)
    if limit < 1:
        return ()
    numbers = fit_text(range(len(pieces.ids)), limit=limit, rule=rule, stride=limit // WINDOW_SHARE)
    kept = nearest_windows([part[0] for part in numbers.pieces], limit)
    tagged = []
    for part, row, window in zip(numbers.pieces, rows, kept, strict=True):
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
