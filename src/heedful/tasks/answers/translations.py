"""Translations: as answers, the links of their words to those of the text, and their scores."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.batches.word_spans import Span, word_numbers, word_spans
from heedful.errors import UserError
from heedful.metrics.generation import text_scores
from heedful.reading import Record
from heedful.tasks.answers.generated import GeneratedText, likelihood_scores
from heedful.tokens import TranslationTokenizer
from heedful.tokens.translation import Side

_LINE_END = re.compile(r"[\r\n]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Links:
    """Which words of a text the words of its translation come from."""

    source_words: tuple[Span, ...]
    """Where the words of the text start and end in it; punctuation marks are words, too."""
    target_words: tuple[Span, ...]
    """The same of the translation."""
    links: tuple[tuple[int, int], ...]
    """A word of the text and one of the translation, by their numbers: for each word of the
    translation the one that it attended to most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Translation:
    """The answer for one text."""

    n_best: tuple[GeneratedText, ...]
    """Best first; samples in the order in which they were drawn."""
    links: Links | None
    """Of the first of them, if asked for, and if the tokenizer keeps the text as it is."""
    log_likelihood: float
    """Of the right translation, if it is known: the sum over its tokens; else 0."""
    tokens_known: int
    """Tokens of the right translation; 0 if it is not known."""
    tokens_generated: int
    """Tokens of the first translation, with the ending one of each part."""
    tokens_total: int
    """Tokens of the text."""
    tokens_used: int
    """Tokens of it that the model was given."""

    @property
    def text(self) -> str:
        """The first of the translations."""
        return self.n_best[0].text

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the translation with its score, its links if asked for, and others on request."""
        row = self.n_best[0].to_dict()
        if self.links is not None:
            row |= {
                "source_words": self.links.source_words,
                "target_words": self.links.target_words,
                "alignments": self.links.links,
            }
        if everything:
            row["n_best"] = [text.to_dict() for text in self.n_best]
        return row | {"tokens_total": self.tokens_total, "tokens_used": self.tokens_used}

    def plain(self) -> str:
        """Return the translation as one line, all its spaces kept."""
        return _LINE_END.sub(" ", self.text)


def link_words(
    text: str,
    source_ids: Sequence[Sequence[int]],
    translation: str,
    target_ids: Sequence[Sequence[int]],
    attention: Sequence[NDArray[np.float32]],
    tokenizer: TranslationTokenizer,
    *,
    whole_words: bool = False,
) -> Links | None:
    """Link the words of a translation to those of its text.

    Args:
        text: the text.
        source_ids: ids of each part of it, without the ending one.
        translation: the translations of all parts, joined.
        target_ids: ids of each of them.
        attention: of each part, how much each id of the translation attended to each id of the
            text, and to what follows those. Each of shape (S, E) with a larger E.
        tokenizer: both sides of it.
        whole_words: take the words of Chinese as a segmenter tells them, not each character.

    Returns:
        The links; None if the tokenizer does not keep the texts as they are.

    Raises:
        UserError: the segmenter is asked for, and is not installed.
    """
    source_spans = _source_spans(text, source_ids, tokenizer.source)
    target_spans = _piece_spans(translation, target_ids, tokenizer.target)
    if source_spans is None or target_spans is None:
        return None
    source_words = word_spans(text, whole=whole_words)
    target_words = word_spans(translation, whole=whole_words)
    source_owners = word_numbers(source_spans, source_words)
    target_owners = word_numbers(target_spans, target_words)
    # Of each word of the translation alone what it attended to: of a long text that is little.
    weights: list[defaultdict[int, float]] = [defaultdict(float) for _ in target_words]
    for targets, sources, rows in zip(target_owners, source_owners, attention, strict=True):
        for target, row in zip(targets, rows, strict=True):
            for source, weight in zip(sources, row, strict=False):  # without end and padding
                if target is not None and source is not None:
                    weights[target][source] += float(weight)
    return Links(
        source_words=tuple(source_words),
        target_words=tuple(target_words),
        links=tuple(
            (max(row, key=row.__getitem__), number)
            for number, row in enumerate(weights)
            if any(row.values())
        ),
    )


def _source_spans(
    text: str, parts: Sequence[Sequence[int]], tokenizer: Side
) -> list[list[Span]] | None:
    """Do what `_piece_spans` does for a text that may have been cut into sentences.

    Of its language code, with which each part begins, the later parts have nothing.
    """
    if not tokenizer.language_code(text):
        return _piece_spans(text, parts, tokenizer) or _spans_between_spaces(text, parts, tokenizer)
    bare = [*parts[:1], *(ids[1:] for ids in parts[1:])]
    spans = _piece_spans(text, bare, tokenizer) or _spans_between_spaces(text, bare, tokenizer)
    if spans is None:
        return None
    return [*spans[:1], *([(0, 0), *of_part] for of_part in spans[1:])]


def _piece_spans(
    text: str, parts: Sequence[Sequence[int]], tokenizer: Side
) -> list[list[Span]] | None:
    """Return where in a text the pieces of its parts are, or None if they are not in it."""
    spans, start = [], 0
    for ids in parts:
        part = tokenizer.decode(ids)
        start = text.find(part, start)
        if start < 0:
            return None
        spans.append([(start + begin, start + end) for begin, end in tokenizer.offsets(ids)])
        start += len(part)
    return spans


def _spans_between_spaces(
    text: str, parts: Sequence[Sequence[int]], tokenizer: Side
) -> list[list[Span]] | None:
    """Do the same where the parts have other spaces than the text, or none between lines."""
    kept = [at for at, character in enumerate(text) if not character.isspace()]
    compact = "".join(text[at] for at in kept)
    kept.append(len(text))
    spans, start = [], 0
    for ids in parts:
        part = tokenizer.decode(ids)
        counts = [0, *accumulate(not character.isspace() for character in part)]
        start = compact.find("".join(part.split()), start)
        if start < 0:
            return None
        edges = [
            (start + counts[begin], start + counts[end]) for begin, end in tokenizer.offsets(ids)
        ]
        spans.append(
            [(kept[begin], kept[max(begin, end - 1)] + (end > begin)) for begin, end in edges]
        )
        start += counts[-1]
    return spans


class TranslationScores:
    """Scores of translations: how near they are to the right ones, and how likely those were.

    Args:
        bleu_tokenize: how BLEU splits texts into words; see `heedful.metrics.generation`.
    """

    def __init__(self, bleu_tokenize: str) -> None:
        self._bleu_tokenize = bleu_tokenize
        self._log_likelihood = 0.0
        self._known = self._tokens_known = self._tokens_generated = 0
        self._texts: list[str] = []
        self._references: list[str] = []

    def update(self, answers: Sequence[Translation], records: Sequence[Record]) -> None:
        """Count answers to texts whose translations are known."""
        for answer, record in zip(answers, records, strict=True):
            self._log_likelihood += answer.log_likelihood
            self._known += answer.tokens_known > 0
            self._tokens_known += answer.tokens_known
            self._tokens_generated += answer.tokens_generated
            self._texts.append(answer.text)
            self._references.append(record.text_pair or "")

    def compute(self) -> dict[str, Any]:
        """Return sacreBLEU's scores with their signatures, and the right ones' likelihood.

        ``log_likelihood`` is a token's mean. Where it could not be told for all translations,
        ``likelihood_items`` says of how many it is.

        Raises:
            UserError: nothing was counted.
        """
        if not self._texts:
            raise UserError("no translations to score: the data is empty")
        scores: dict[str, Any] = {
            "items": len(self._texts),
            "tokens": self._tokens_generated,
            **text_scores(self._texts, self._references, cased=True, tokenize=self._bleu_tokenize),
        }
        if self._known:
            scores |= likelihood_scores(self._log_likelihood, self._tokens_known)
        if self._known < len(self._texts):
            scores["likelihood_items"] = self._known
        return scores
