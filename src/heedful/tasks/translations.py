"""Translations: as answers, the links of their words to those of the text, and their scores."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError
from heedful.metrics.writing import translation_scores
from heedful.reading import Record
from heedful.tasks.written import Written
from heedful.tokens import TranslationTokenizer
from heedful.tokens.normalize import Normalizer

_LINE_END = re.compile(r"[\r\n]+")
_WORDS = Normalizer(
    lower_case=False, strip_accents=False, split_ideographs=True, never_split=()
).sourced_words

Slice = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Links:
    """Which words of a text the words of its translation come from."""

    source_words: tuple[Slice, ...]
    """Where the words of the text start and end in it; punctuation marks are words, too."""
    target_words: tuple[Slice, ...]
    """The same of the translation."""
    links: tuple[tuple[int, int], ...]
    """A word of the text and one of the translation, by their numbers: for each word of the
    translation the one that it attended to most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Translation:
    """The answer for one text."""

    n_best: tuple[Written, ...]
    """Best first; samples in the order in which they were drawn."""
    links: Links | None
    """Of the first of them, if asked for, and if the tokenizer keeps the text as it is."""
    log_likelihood: float
    """Of the right translation: the sum over its tokens; 0 where none was given."""
    tokens_known: int
    """Tokens of the right translation; 0 where none was given."""
    tokens_written: int
    """Tokens of the first translation, with the ending one of each part."""
    tokens_total: int
    """Tokens of the text."""
    tokens_used: int
    """Tokens of it that the model was given."""

    @property
    def text(self) -> str:
        """The first of the translations."""
        return self.n_best[0].text


def row(answer: Translation, everything: bool) -> dict[str, Any]:
    """Return the translation with its score, its links if asked for, and others on request."""
    texts = [
        {"text": one.text, "score": round(one.score, 6), "ended": one.ended}
        for one in answer.n_best
    ]
    found: dict[str, Any] = {**texts[0]}
    if answer.links is not None:
        found |= {
            "source_words": answer.links.source_words,
            "target_words": answer.links.target_words,
            "alignments": answer.links.links,
        }
    return {**found, "n_best": texts} if everything else found


def plain(answer: Translation) -> str:
    """Return the translation as one line, all its spaces kept."""
    return _LINE_END.sub(" ", answer.text)


def links_of(
    text: str,
    read: Sequence[Sequence[int]],
    translation: str,
    written: Sequence[Sequence[int]],
    attention: Sequence[NDArray[np.float32]],
    tokenizer: TranslationTokenizer,
) -> Links | None:
    """Link the words of a translation to those of its text.

    Args:
        text: the text.
        read: ids of each part of it, without the ending one.
        translation: the translations of all parts, joined with spaces.
        written: ids of each of them.
        attention: how much each id that was written attended to each that was read, and to what
            follows those. Each of shape (S, E) with a larger E.
        tokenizer: both sides of it.

    Returns:
        The links; None if the tokenizer does not keep the texts as they are.
    """
    source_pieces = _places(text, read, tokenizer.source)
    if source_pieces is None:  # a long text may have been cut into sentences
        source_pieces = _single_spaced(text, read, tokenizer.source)
    target_pieces = _places(translation, written, tokenizer.target)
    if source_pieces is None or target_pieces is None:
        return None
    source_words, target_words = _words(text), _words(translation)
    sources, targets = _owners(source_pieces, source_words), _owners(target_pieces, target_words)
    # Of each word of the translation alone what it attended to: of a long text that is little.
    weights: list[defaultdict[int, float]] = [defaultdict(float) for _ in target_words]
    for ours, theirs, rows in zip(targets, sources, attention, strict=True):
        for target, line in zip(ours, rows, strict=True):
            for source, weight in zip(theirs, line, strict=False):  # without end and padding
                if target is not None and source is not None:
                    weights[target][source] += float(weight)
    return Links(
        source_words=tuple(source_words),
        target_words=tuple(target_words),
        links=tuple(
            (max(line, key=line.__getitem__), number)
            for number, line in enumerate(weights)
            if any(line.values())
        ),
    )


def _words(text: str) -> list[Slice]:
    """Return where the words of a text are: between spaces, punctuation marks and ideographs."""
    return [(places[0], places[-1] + 1) for _, places in _WORDS(text)]


def _places(text: str, parts: Sequence[Sequence[int]], side: Any) -> list[list[Slice]] | None:
    """Return where in a text the pieces of its parts are, or None if they are not there."""
    found, start = [], 0
    for ids in parts:
        part = side.decode(ids)
        start = text.find(part, start)
        if start < 0:
            return None
        found.append([(start + begin, start + end) for begin, end in side.offsets(ids)])
        start += len(part)
    return found


def _single_spaced(
    text: str, parts: Sequence[Sequence[int]], side: Any
) -> list[list[Slice]] | None:
    """Do the same where the parts have one space for each run of spaces in the text."""
    blank = [one.isspace() for one in text]
    kept = [at for at in range(len(text)) if not (blank[at] and (at == 0 or blank[at - 1]))]
    found = _places("".join(" " if blank[at] else text[at] for at in kept), parts, side)
    kept.append(len(text))
    return found and [
        [(kept[begin], kept[end - 1] + 1 if end > begin else kept[begin]) for begin, end in pieces]
        for pieces in found
    ]


def _owners(parts: Sequence[Sequence[Slice]], words: Sequence[Slice]) -> Iterator[list[int | None]]:
    """Yield the number of the word that each piece of a part starts in, if it is in one."""
    number = 0
    for pieces in parts:
        owners: list[int | None] = []
        for begin, end in pieces:
            while number < len(words) and words[number][1] <= begin:
                number += 1
            inside = number < len(words) and words[number][0] < end
            owners.append(number if inside else None)
        yield owners


class Scores:
    """Scores of translations: how near they are to the right ones, and how likely those were."""

    def __init__(self) -> None:
        self._log_likelihood = 0.0
        self._known = self._tokens = 0
        self._written: list[str] = []
        self._right: list[str] = []

    def update(self, answers: Sequence[Translation], records: Sequence[Record]) -> None:
        """Count answers to texts whose translations are known."""
        for answer, record in zip(answers, records, strict=True):
            self._log_likelihood += answer.log_likelihood
            self._known += answer.tokens_known
            self._tokens += answer.tokens_written
            self._written.append(answer.text)
            self._right.append(record.text_pair or "")

    def compute(self) -> dict[str, Any]:
        """Return sacreBLEU's scores with their signatures, and the right ones' likelihood.

        ``log_likelihood`` is a token's mean.

        Raises:
            UserError: nothing was counted.
        """
        if not self._known:
            raise UserError("no translations to score: the data is empty")
        mean = self._log_likelihood / self._known
        return {
            "items": len(self._written),
            "tokens": self._tokens,
            **translation_scores(self._written, self._right),
            "log_likelihood": mean,
            "perplexity": math.exp(min(-mean, 700.0)),
        }
